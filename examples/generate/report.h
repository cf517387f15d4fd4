/* SPDX-License-Identifier: Apache-2.0 */
/* Speed and memory, on stderr of rank 0. */
#ifndef GENERATE_REPORT_H
#define GENERATE_REPORT_H

#include <stdbool.h>

#include "model.h"

/* Seconds by where they go. Only --verbose tells the parts apart, at the price of one more wait
   for each collective. */
typedef struct lap {
    double wall;
    double device;   /* waiting for the device to compute */
    double staging;  /* copies between device and host */
    double mpi;      /* agreements, messages, waiting for other ranks, adding up their parts */
    double sampling; /* choosing a token */
} lap;

typedef struct report {
    lap own;                                  /* of what the program itself does, but wall */
    lap started, prompted, steady, ended;     /* stamps: see report_stamp */
    size_t prompt_tokens, text_tokens;        /* fed; the first of the text is not in steady.. */
    parlin_device_counters at_steady, at_end; /* steady: when the first token of text was fed */
} report;

double report_now(void);

/* All that was spent until now: differences of two stamps are laps. */
lap report_stamp(const report *r, const parlin_group *group);

/* Prints. Collective. */
bool report_print(const report *r, const model *m, bool verbose);

#endif
