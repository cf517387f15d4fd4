/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/wait.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

/* A peer that runs on a core of its own answers within so many tests; one that waits for this
   core answers only after a yield. */
enum { SPIN_TESTS = 50 };

double pl_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

void pl_wait_new_call(pl_wait *wait)
{
    wait->started = -1;
    wait->tests = 0;
}

void pl_wait_new_operation(pl_wait *wait)
{
    wait->tests = 0;
}

bool pl_wait_more(pl_wait *wait)
{
    if (wait->tests < SPIN_TESTS) {
        wait->tests++;
        return true;
    }
    if (wait->limit > 0) {
        double time = pl_now();
        if (wait->started < 0)
            wait->started = time;
        else if (time - wait->started >= wait->limit)
            return false;
    }
    sched_yield();
    return true;
}

typedef struct kept {
    struct kept *next;
    void *memory;
} kept;

static _Atomic(kept *) kept_list;

void pl_keep_forever(void *memory)
{
    kept *entry = malloc(sizeof *entry);
    if (!entry)
        return; /* kept all the same, only out of a leak checker's sight */
    entry->memory = memory;
    entry->next = atomic_load(&kept_list);
    while (!atomic_compare_exchange_weak(&kept_list, &entry->next, entry)) {
    }
}
