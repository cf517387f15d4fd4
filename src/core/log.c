/* SPDX-License-Identifier: Apache-2.0 */
#include "core/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/option.h"

static atomic_int log_rank = -1;
static atomic_int log_level = -1;

static int level_from_environment(void)
{
    static const char *const names[] = {"none", "warn", "info", "debug"};
    const char *text = pl_option(PL_OPTION_LOG);
    if (!text)
        return PL_LOG_WARN;
    for (int level = 0; level < 4; level++)
        if (strcmp(text, names[level]) == 0)
            return level;
    fprintf(stderr,
            "parlin: warning: PARLIN_LOG=%s is none of none, warn, info, debug; using warn\n",
            text);
    return PL_LOG_WARN;
}

bool pl_log_enabled(pl_log_level level)
{
    int limit = atomic_load(&log_level);
    if (limit < 0) {
        limit = level_from_environment();
        atomic_store(&log_level, limit);
    }
    return (int)level <= limit;
}

void pl_log(pl_log_level level, const char *format, ...)
{
    if (!pl_log_enabled(level))
        return;
    static const char *const names[] = {"", "warning: ", "", ""};
    /* One write a line, so that lines of several ranks do not mix. */
    char line[4096];
    int used, rank = atomic_load(&log_rank);
    if (rank >= 0)
        used = snprintf(line, sizeof line, "parlin[%d]: %s", rank, names[level]);
    else
        used = snprintf(line, sizeof line, "parlin: %s", names[level]);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line + used, sizeof line - (size_t)used - 1, format, arguments);
    va_end(arguments);
    strcat(line, "\n");
    fputs(line, stderr);
}

bool pl_log_terminal(const char *text, bool end)
{
    if (!isatty(STDERR_FILENO))
        return false;
    fprintf(stderr, "\r%s\033[K%s", text, end ? "\n" : "");
    fflush(stderr);
    return true;
}

void pl_log_set_rank(int rank)
{
    atomic_store(&log_rank, rank);
}
