/* SPDX-License-Identifier: Apache-2.0 */
#include "core/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/log.h"

static _Thread_local char last_sentence[PL_SENTENCE];

static const struct {
    parlin_status status;
    const char *name;
    const char *meaning;
} table[] = {
#define ROW(name, value, meaning) {name, #name, meaning},
    PARLIN_STATUS_TABLE(ROW)
#undef ROW
};

const char *parlin_status_string(parlin_status status)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].status == status)
            return table[i].name;
    return "unknown parlin_status";
}

const char *parlin_status_meaning(parlin_status status)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].status == status)
            return table[i].meaning;
    return "not a status of this library";
}

const char *parlin_last_error(void)
{
    return last_sentence;
}

parlin_status pl_error(parlin_status status, const char *format, ...)
{
    /* Arguments may point into the former sentence, so the new one is formed beside it. */
    char sentence[PL_SENTENCE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    memcpy(last_sentence, sentence, strlen(sentence) + 1);
    pl_log(PL_LOG_DEBUG, "%s: %s", parlin_status_string(status), last_sentence);
    return status;
}
