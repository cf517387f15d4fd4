/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting that gives the core away, and what is kept when it was in vain. */
#ifndef PL_COMM_WAIT_H
#define PL_COMM_WAIT_H

#include <stdbool.h>

typedef struct pl_wait {
    double limit;   /* seconds in one call; 0: none */
    double started; /* of the call's first slow test; negative: not yet */
    unsigned tests; /* of the operation at hand */
} pl_wait;

/* Seconds of a clock that only goes forward. */
double pl_now(void);

/* At the beginning of a call: the time limit starts anew. */
void pl_wait_new_call(pl_wait *wait);

/* At the beginning of each operation of the call: it may spin briefly again. */
void pl_wait_new_operation(pl_wait *wait);

/* After a test that found the operation unfinished: returns at once for some tens of tests, then
   after a sched_yield. False: the call's time is up. */
bool pl_wait_more(pl_wait *wait);

/* Memory that a pending request may still read or write is never freed; here it stays reachable
   until the process ends. */
void pl_keep_forever(void *memory);

#endif
