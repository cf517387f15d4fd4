/* SPDX-License-Identifier: Apache-2.0 */
#include "core/option.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"

static const char *const variables[] = {
#define ROW(id, variable, values, meaning) variable,
    PL_OPTION_TABLE(ROW)
#undef ROW
};

const char *pl_option_name(pl_option_id id)
{
    return variables[id];
}

const char *pl_option(pl_option_id id)
{
    const char *text = getenv(variables[id]);
    return text && *text ? text : NULL;
}

bool pl_option_flag(pl_option_id id, bool otherwise)
{
    const char *text = pl_option(id);
    if (!text)
        return otherwise;
    if (strcmp(text, "on") == 0 || strcmp(text, "1") == 0)
        return true;
    if (strcmp(text, "off") == 0 || strcmp(text, "0") == 0)
        return false;
    static atomic_bool warned[PL_OPTION_COUNT];
    if (!atomic_exchange(&warned[id], true))
        pl_log(PL_LOG_WARN, "%s=%s is neither on nor off; using %s", variables[id], text,
               otherwise ? "on" : "off");
    return otherwise;
}
