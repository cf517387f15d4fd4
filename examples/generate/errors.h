/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of this rank, and how they end the program on all ranks. Only the first sentence is kept:
   it is the cause. */
#ifndef GENERATE_ERRORS_H
#define GENERATE_ERRORS_H

#include <stdbool.h>

#include <parlin/mpi.h>
#include <parlin/opencl.h>

/* Keeps the sentence, the first alone. Returns false. */
__attribute__((format(printf, 1, 2))) bool fail(const char *format, ...);

/* The same for a call of parlin's: true where it succeeded. `check_all` is for collective calls,
   which fail on every rank, with a sentence that names the rank where the fault is. */
bool check(parlin_status status);
bool check_all(parlin_status status);

/* And of OpenCL. */
bool check_cl(cl_int code, const char *what);

/* True where something failed on this rank. */
bool failed(void);

/* Whether all went well on all ranks. If not, the rank with the cause has printed it; every rank
   then ends with an error. Collective. Where ranks have lost each other there is no agreement:
   this is the one place that ends them by MPI_Abort. */
bool all_well(MPI_Comm comm);

/* Waits for a request, giving the core away: ranks may outnumber cores. */
bool finish(MPI_Request *request);

#endif
