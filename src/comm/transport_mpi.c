/* SPDX-License-Identifier: Apache-2.0 */
/* A group over an MPI communicator: the only file that knows MPI. MPI-3.1 calls alone.

   Every operation is begun non-blocking and tested till it is done, so that waiting gives the
   core away and can end. Counts are split here into messages of at most pl_wire_limit bytes;
   who sends how many is a function of the sizes that both ends know. A failed or unfinished
   operation leaves requests behind that can neither be cancelled nor freed safely: the transport
   is lost then, and its memory is kept. */
#include <mpi.h>

#include <parlin/mpi.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "comm/group.h"
#include "core/log.h"
#include "core/status.h"

/* MPI counts are ints; half of their range is safe with every implementation. */
size_t pl_wire_limit = (size_t)1 << 30;

/* All-gathers of at most so many bytes in all are left to MPI, whose trees need fewer messages;
   larger ones go pairwise, which is faster then. */
enum { TREE_BYTES = 32 << 10 };

enum { TAG = 1 };

typedef struct mpi_transport {
    pl_transport base;
    MPI_Comm comm;
    int thread_level;
    MPI_Request *requests; /* [2 * size] */
    MPI_Status *statuses;  /* [2 * size] */
    int *counts;           /* [size] */
    int *offsets;          /* [size] */
} mpi_transport;

/* Set while a thread is inside a call, where MPI does not allow two. */
static atomic_flag mpi_taken = ATOMIC_FLAG_INIT;

static mpi_transport *of(pl_transport *base)
{
    return (mpi_transport *)(void *)base;
}

static bool mpi_ended(void)
{
    int ended = 0;
    MPI_Finalized(&ended);
    return ended != 0;
}

static const char *level_name(int level)
{
    return level == MPI_THREAD_SINGLE       ? "MPI_THREAD_SINGLE"
           : level == MPI_THREAD_FUNNELED   ? "MPI_THREAD_FUNNELED"
           : level == MPI_THREAD_SERIALIZED ? "MPI_THREAD_SERIALIZED"
                                            : "MPI_THREAD_MULTIPLE";
}

/* Writes the sentence of an MPI call that failed. */
static parlin_status mpi_error(const char *operation, const char *call, int code)
{
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS)
        length = 0;
    text[length] = '\0';
    for (char *c = text; *c; c++)
        if (*c == '\n')
            *c = ' ';
    return pl_error(PARLIN_ERROR_COMM, "%s: %s failed: %s (code %d)", operation, call, text, code);
}

/* After a failed MPI call nobody knows what the other ranks have got: the group is lost. */
static parlin_status broken(mpi_transport *t, const char *call, int code)
{
    parlin_status status = mpi_error(t->base.operation, call, code);
    pl_transport_lose(&t->base);
    return status;
}

/* Waits for the first `count` requests, begun by an MPI call that returned `code`. */
static parlin_status finish(mpi_transport *t, int count, const char *call, int code)
{
    if (code != MPI_SUCCESS)
        return broken(t, call, code);
    pl_wait_new_operation(&t->base.wait);
    for (;;) {
        int done = 0;
        code = MPI_Testall(count, t->requests, &done, t->statuses);
        for (int i = 0; code == MPI_ERR_IN_STATUS && i < count; i++)
            if (t->statuses[i].MPI_ERROR != MPI_SUCCESS &&
                t->statuses[i].MPI_ERROR != MPI_ERR_PENDING)
                code = t->statuses[i].MPI_ERROR;
        if (code != MPI_SUCCESS)
            return broken(t, call, code);
        if (done)
            return PARLIN_SUCCESS;
        if (!pl_wait_more(&t->base.wait))
            return pl_transport_expire(&t->base);
    }
}

static parlin_status mpi_enter(pl_transport *base)
{
    mpi_transport *t = of(base);
    int main_thread = 1;
    if (mpi_ended())
        return pl_error(PARLIN_ERROR_STATE, "%s: MPI has ended (MPI_Finalize was called)",
                        base->operation);
    if (t->thread_level >= MPI_THREAD_MULTIPLE)
        return PARLIN_SUCCESS;
    if (t->thread_level <= MPI_THREAD_FUNNELED)
        MPI_Is_thread_main(&main_thread);
    if (!main_thread)
        return pl_error(PARLIN_ERROR_STATE,
                        "%s: called from another thread than the one that started MPI with %s; "
                        "threads of their own need MPI_Init_thread with MPI_THREAD_MULTIPLE",
                        base->operation, level_name(t->thread_level));
    if (atomic_flag_test_and_set_explicit(&mpi_taken, memory_order_acquire))
        return pl_error(PARLIN_ERROR_STATE,
                        "%s: another thread is inside a collective, and MPI was started with %s; "
                        "two at once need MPI_Init_thread with MPI_THREAD_MULTIPLE",
                        base->operation, level_name(t->thread_level));
    return PARLIN_SUCCESS;
}

static void mpi_leave(pl_transport *base)
{
    if (of(base)->thread_level < MPI_THREAD_MULTIPLE)
        atomic_flag_clear_explicit(&mpi_taken, memory_order_release);
}

static parlin_status mpi_max(pl_transport *base, const uint64_t *in, uint64_t *out, int count)
{
    mpi_transport *t = of(base);
    return finish(t, 1, "MPI_Iallreduce",
                  MPI_Iallreduce(in, out, count, MPI_UINT64_T, MPI_MAX, t->comm, t->requests));
}

static parlin_status mpi_broadcast(pl_transport *base, int root, void *data, size_t bytes)
{
    mpi_transport *t = of(base);
    for (size_t at = 0; at < bytes; at += pl_wire_limit) {
        size_t length = bytes - at < pl_wire_limit ? bytes - at : pl_wire_limit;
        PL_TRY(finish(
            t, 1, "MPI_Ibcast",
            MPI_Ibcast((char *)data + at, (int)length, MPI_BYTE, root, t->comm, t->requests)));
    }
    return PARLIN_SUCCESS;
}

/* The k-th message of a piece: false where it has none. */
static bool message(const pl_piece *piece, size_t k, size_t *at, int *length)
{
    if (piece->bytes == 0 || k > (piece->bytes - 1) / pl_wire_limit)
        return false;
    size_t left = piece->bytes - k * pl_wire_limit;
    *at = piece->at + k * pl_wire_limit;
    *length = (int)(left < pl_wire_limit ? left : pl_wire_limit);
    return true;
}

/* Piece outgoing[q * step] of `send` goes to rank q, incoming[q] of `receive` comes from it. Round
   k carries the k-th message of every piece; both ends of a piece know how many it has. All
   messages of a round are posted before any is waited for, so no order of ranks can block. */
static parlin_status pairwise(mpi_transport *t, const char *send, const pl_piece *outgoing,
                              size_t outgoing_step, char *receive, const pl_piece *incoming)
{
    const int size = t->base.size, rank = t->base.rank;
    for (size_t k = 0;; k++) {
        int posted = 0, length, code;
        size_t at;
        for (int step = 1; step < size; step++) {
            int from = (rank - step + size) % size;
            if (!message(&incoming[from], k, &at, &length))
                continue;
            code =
                MPI_Irecv(receive + at, length, MPI_BYTE, from, TAG, t->comm, &t->requests[posted]);
            if (code != MPI_SUCCESS)
                return broken(t, "MPI_Irecv", code);
            posted++;
        }
        for (int step = 1; step < size; step++) {
            int to = (rank + step) % size;
            if (!message(&outgoing[(size_t)to * outgoing_step], k, &at, &length))
                continue;
            code = MPI_Isend(send + at, length, MPI_BYTE, to, TAG, t->comm, &t->requests[posted]);
            if (code != MPI_SUCCESS)
                return broken(t, "MPI_Isend", code);
            posted++;
        }
        if (posted == 0)
            return PARLIN_SUCCESS;
        PL_TRY(finish(t, posted, "MPI_Testall", MPI_SUCCESS));
    }
}

static parlin_status mpi_exchange(pl_transport *base, const void *send, const pl_piece *outgoing,
                                  void *receive, const pl_piece *incoming)
{
    return pairwise(of(base), send, outgoing, 1, receive, incoming);
}

static parlin_status mpi_all_gather(pl_transport *base, void *data, const pl_piece *pieces)
{
    mpi_transport *t = of(base);
    size_t end = 0, total = 0;
    for (int q = 0; q < base->size; q++) {
        size_t last = pieces[q].at + pieces[q].bytes;
        end = last > end ? last : end;
        total += pieces[q].bytes;
    }
    if (total == 0)
        return PARLIN_SUCCESS;
    if (end > TREE_BYTES || end > pl_wire_limit)
        return pairwise(t, data, &pieces[base->rank], 0, data, pieces);
    for (int q = 0; q < base->size; q++) {
        t->counts[q] = (int)pieces[q].bytes;
        t->offsets[q] = (int)pieces[q].at;
    }
    return finish(t, 1, "MPI_Iallgatherv",
                  MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_BYTE, data, t->counts, t->offsets, MPI_BYTE,
                                  t->comm, t->requests));
}

static const pl_transport_table mpi_table;

static void unmake(mpi_transport *t)
{
    free(t->requests);
    free(t->statuses);
    free(t->counts);
    free(t->offsets);
    free(t);
}

/* A transport without a communicator yet. */
static mpi_transport *make(int size, int rank, int level, double limit)
{
    const size_t n = (size_t)size;
    mpi_transport *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->requests = calloc(2 * n, sizeof *t->requests);
    t->statuses = calloc(2 * n, sizeof *t->statuses);
    t->counts = calloc(n, sizeof *t->counts);
    t->offsets = calloc(n, sizeof *t->offsets);
    if (!t->requests || !t->statuses || !t->counts || !t->offsets) {
        unmake(t);
        return NULL;
    }
    t->base.table = &mpi_table;
    t->base.rank = rank;
    t->base.size = size;
    t->base.wait.limit = limit;
    t->comm = MPI_COMM_NULL;
    t->thread_level = level;
    return t;
}

static void mpi_destroy(pl_transport *base)
{
    mpi_transport *t = of(base);
    base->operation = "parlin_group_close";
    if (t->comm != MPI_COMM_NULL && !mpi_ended()) {
        if (mpi_enter(base) == PARLIN_SUCCESS) {
            MPI_Comm_free(&t->comm);
            mpi_leave(base);
        } else {
            pl_log(PL_LOG_WARN, "%s; its communicator is kept", parlin_last_error());
        }
    }
    unmake(t);
}

static parlin_status mpi_split(pl_transport *base, int color, int key, pl_transport **part)
{
    mpi_transport *t = of(base);
    MPI_Comm comm = MPI_COMM_NULL;
    int code = MPI_Comm_split(t->comm, color < 0 ? MPI_UNDEFINED : color, key, &comm);
    if (code != MPI_SUCCESS)
        return broken(t, "MPI_Comm_split", code);
    *part = NULL;
    if (comm == MPI_COMM_NULL)
        return PARLIN_SUCCESS;
    int size = 0, rank = 0;
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    mpi_transport *made = make(size, rank, t->thread_level, base->wait.limit);
    if (!made) {
        MPI_Comm_free(&comm);
        return pl_error(PARLIN_ERROR_MEMORY, "%s: no host memory for a group of %d ranks",
                        base->operation, size);
    }
    made->comm = comm;
    made->base.local_rank = base->local_rank;
    made->base.local_size = base->local_size;
    *part = &made->base;
    return PARLIN_SUCCESS;
}

static const pl_transport_table mpi_table = {
    .enter = mpi_enter,
    .leave = mpi_leave,
    .max = mpi_max,
    .broadcast = mpi_broadcast,
    .all_gather = mpi_all_gather,
    .exchange = mpi_exchange,
    .split = mpi_split,
    .destroy = mpi_destroy,
};

/* This rank's place among those that share its node's memory, where any rank needs it to choose a
   device: splitting waits without giving the core away, and costs most of an opening. */
static parlin_status find_place(mpi_transport *t, bool wanted)
{
    MPI_Comm node;
    t->base.local_rank = 0;
    t->base.local_size = 1;
    t->base.words_in[0] = wanted;
    PL_TRY(mpi_max(&t->base, t->base.words_in, t->base.words_out, 1));
    if (!t->base.words_out[0])
        return PARLIN_SUCCESS;
    int code =
        MPI_Comm_split_type(t->comm, MPI_COMM_TYPE_SHARED, t->base.rank, MPI_INFO_NULL, &node);
    if (code != MPI_SUCCESS)
        return broken(t, "MPI_Comm_split_type", code);
    MPI_Comm_rank(node, &t->base.local_rank);
    MPI_Comm_size(node, &t->base.local_size);
    MPI_Comm_free(&node);
    return PARLIN_SUCCESS;
}

/* Duplicates the communicator. Where it fails, it failed for good: there is nothing to agree
   over. A transport that ran out of time is kept, since MPI may still write its handle. */
static parlin_status open_transport(const char *call, MPI_Comm comm, double limit, bool open,
                                    pl_transport **transport)
{
    int started = 0, level = MPI_THREAD_SINGLE, inter = 0, size = 0, rank = 0;
    MPI_Initialized(&started);
    if (!started)
        return pl_error(PARLIN_ERROR_STATE,
                        "%s: MPI is not started: the program calls MPI_Init before, or takes "
                        "parlin_group_open_single, which needs no MPI",
                        call);
    if (mpi_ended())
        return pl_error(PARLIN_ERROR_STATE, "%s: MPI has ended (MPI_Finalize was called)", call);
    if (comm == MPI_COMM_NULL)
        return pl_error(PARLIN_ERROR_ARGUMENT, "%s: comm is MPI_COMM_NULL", call);
    MPI_Query_thread(&level);
    int code = MPI_Comm_test_inter(comm, &inter);
    if (code == MPI_SUCCESS && inter)
        return pl_error(PARLIN_ERROR_ARGUMENT,
                        "%s: comm is an intercommunicator; an intracommunicator is wanted", call);
    if (code == MPI_SUCCESS)
        code = MPI_Comm_size(comm, &size);
    if (code == MPI_SUCCESS)
        code = MPI_Comm_rank(comm, &rank);
    if (code != MPI_SUCCESS)
        return mpi_error(call, "a query of comm", code);

    mpi_transport *t = make(size, rank, level, limit);
    if (!t)
        return pl_error(PARLIN_ERROR_MEMORY, "%s: no host memory for a group of %d ranks", call,
                        size);
    parlin_status status = pl_transport_enter(&t->base, call, NULL);
    if (status != PARLIN_SUCCESS) {
        unmake(t);
        return status;
    }
    status = finish(t, 1, "MPI_Comm_idup", MPI_Comm_idup(comm, &t->comm, t->requests));
    if (status == PARLIN_SUCCESS) {
        MPI_Comm_set_errhandler(t->comm, MPI_ERRORS_RETURN);
        status = find_place(t, open);
    }
    pl_transport_leave(&t->base);
    if (status != PARLIN_SUCCESS)
        pl_keep_forever(t);
    else
        *transport = &t->base;
    return status;
}

static parlin_status open_group(const char *call, bool open, parlin_device *device, MPI_Comm comm,
                                const parlin_group_config *config, parlin_group **group)
{
    parlin_group_config checked;
    pl_transport *transport = NULL;
    parlin_status local = pl_group_check_config(call, config, &checked);
    if (local == PARLIN_SUCCESS && !group)
        local = pl_error(PARLIN_ERROR_ARGUMENT, "%s: group is NULL", call);
    if (local == PARLIN_SUCCESS && !open && !device)
        local = pl_error(PARLIN_ERROR_ARGUMENT, "%s: device is NULL", call);
    PL_TRY(open_transport(call, comm, checked.timeout_seconds, open, &transport));
    return pl_group_form(call, local, transport, open, device, &checked, group);
}

parlin_status parlin_group_open(MPI_Comm comm, const parlin_group_config *config,
                                parlin_group **group)
{
    return open_group("parlin_group_open", true, NULL, comm, config, group);
}

parlin_status parlin_group_create(parlin_device *device, MPI_Comm comm,
                                  const parlin_group_config *config, parlin_group **group)
{
    return open_group("parlin_group_create", false, device, comm, config, group);
}
