/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/transport.h"

#include <stdio.h>
#include <string.h>

#include "core/status.h"

parlin_status pl_transport_enter(pl_transport *t, const char *operation, const char *object)
{
    if (t->lost)
        return pl_error(PARLIN_ERROR_GROUP_LOST, "%s: the group of %d ranks was lost before: %s",
                        operation, t->size, t->lost_sentence);
    t->operation = operation;
    t->object = object;
    pl_wait_new_call(&t->wait);
    return t->table->enter(t);
}

void pl_transport_leave(pl_transport *t)
{
    t->table->leave(t);
    t->object = NULL;
}

void pl_transport_lose(pl_transport *t)
{
    t->lost = true;
    snprintf(t->lost_sentence, sizeof t->lost_sentence, "%s", parlin_last_error());
}

parlin_status pl_transport_expire(pl_transport *t)
{
    const char *object = t->object ? t->object : "";
    const char *before = t->object ? " '" : "", *after = t->object ? "'" : "";
    pl_error(PARLIN_ERROR_GROUP_LOST,
             "%s%s%s%s: rank %d of %d waited for the other %d %s longer than timeout_seconds = %g "
             "allows; the group is lost",
             t->operation, before, object, after, t->rank, t->size, t->size - 1,
             t->size == 2 ? "rank" : "ranks", t->wait.limit);
    pl_transport_lose(t);
    return PARLIN_ERROR_GROUP_LOST;
}
