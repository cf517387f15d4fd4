/* SPDX-License-Identifier: Apache-2.0 */
/* How far a load is, for a person at a terminal. */
#include <stdio.h>
#include <time.h>

#include <parlin/checkpoint.h>

#include "core/log.h"

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void parlin_progress_terminal(void *user, size_t done, size_t total)
{
    static _Thread_local double started, shown;
    (void)user;
    double now = seconds();
    if (done == 0) {
        started = now;
        shown = 0;
    }
    bool end = done == total, due = shown > 0 ? now - shown >= 0.2 : now - started >= 1;
    if (!(end ? shown > 0 : due))
        return;
    char text[96];
    snprintf(text, sizeof text, "loading: %.0f of %.0f MB, %d %%", 1e-6 * (double)done,
             1e-6 * (double)total, total > 0 ? (int)(100.0 * (double)done / (double)total) : 100);
    if (pl_log_terminal(text, end))
        shown = now;
}
