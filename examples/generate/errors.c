/* SPDX-License-Identifier: Apache-2.0 */
#include "errors.h"

#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>

enum { FINE, TRAVELLED, OWN };

static int state = FINE;
static bool lost, told;
static char sentence[2048];

bool fail(const char *format, ...)
{
    if (state == FINE) {
        va_list list;
        va_start(list, format);
        vsnprintf(sentence, sizeof sentence, format, list);
        va_end(list);
        state = OWN;
    }
    return false;
}

bool check(parlin_status status)
{
    if (status == PARLIN_ERROR_GROUP_LOST)
        lost = true;
    return status == PARLIN_SUCCESS || fail("%s", parlin_last_error());
}

bool check_all(parlin_status status)
{
    bool before = failed();
    check(status);
    if (!before && failed())
        state = TRAVELLED;
    return !failed();
}

bool check_cl(cl_int code, const char *what)
{
    return code == CL_SUCCESS || fail("%s: OpenCL error %d", what, code);
}

bool failed(void)
{
    return state != FINE;
}

bool finish(MPI_Request *request)
{
    enum { SPIN = 50 };
    int done = 0;
    for (int tests = 0; !done; tests++) {
        if (MPI_Test(request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return fail("MPI_Test failed");
        if (!done && tests > SPIN)
            sched_yield();
    }
    return true;
}

bool all_well(MPI_Comm comm)
{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    if (lost) {
        fprintf(stderr, "generate: rank %d: %s\n", rank, sentence);
        MPI_Abort(comm, 1);
    }
    /* The lowest rank with a cause of its own speaks, else the lowest to which one travelled. */
    int place = state == OWN ? rank : state == TRAVELLED ? size + rank : INT_MAX;
    int first = INT_MAX;
    MPI_Request request;
    MPI_Iallreduce(&place, &first, 1, MPI_INT, MPI_MIN, comm, &request);
    if (!finish(&request))
        return false;
    if (first == INT_MAX)
        return true;
    if (first == place && !told) {
        told = true;
        if (state == OWN && size > 1)
            fprintf(stderr, "generate: rank %d: %s\n", rank, sentence);
        else
            fprintf(stderr, "generate: %s\n", sentence);
    }
    return false;
}
