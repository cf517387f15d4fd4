/* SPDX-License-Identifier: Apache-2.0 */
/* What a piece of code writes to stderr. */
#ifndef TESTS_CAPTURE_H
#define TESTS_CAPTURE_H

#include <stddef.h>

/* Runs act(argument) in this process with stderr kept in `text` (cut at size - 1). */
void capture(void (*act)(void *argument), void *argument, char *text, size_t size);

/* The same in a child process with `variable` set to `value` (NULL: unset), so that what the
   library keeps from a first call is fresh. */
void capture_fresh(const char *variable, const char *value, void (*act)(void *argument),
                   void *argument, char *text, size_t size);

#endif
