/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines on stderr, each with this process's rank. Silent below warnings unless PARLIN_LOG
   asks. */
#ifndef PL_CORE_LOG_H
#define PL_CORE_LOG_H

#include <stdbool.h>

typedef enum pl_log_level {
    PL_LOG_NONE,
    PL_LOG_WARN, /* the default: what a user should know, once */
    PL_LOG_INFO, /* device chosen, engine chosen, programs built */
    PL_LOG_DEBUG
} pl_log_level;

/* True where a line of this level would be written: asked before costly formatting. */
bool pl_log_enabled(pl_log_level level);

__attribute__((format(printf, 2, 3))) void pl_log(pl_log_level level, const char *format, ...);

/* Shows `text` in place of what the last call showed, on the terminal at stderr; `end` leaves the
   line. False, with nothing written, where stderr is no terminal. */
bool pl_log_terminal(const char *text, bool end);

/* The rank that later lines carry (of the last group opened); -1: none. */
void pl_log_set_rank(int rank);

#endif
