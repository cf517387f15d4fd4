/* SPDX-License-Identifier: Apache-2.0 */
/* A small table of byte-level operations that carries a group: one for MPI (the only file that
   includes mpi.h), one for a group of one.

   Memory given to an operation may be touched until the process ends where the operation runs
   out of time: it lies in the transport, the group or its staging, never on a stack and never
   with the caller. Arrays of pl_piece are read during the call alone. */
#ifndef PL_COMM_TRANSPORT_H
#define PL_COMM_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <parlin/status.h>

#include "comm/wait.h"

/* A rank's run of bytes in a buffer. */
typedef struct pl_piece {
    size_t at;
    size_t bytes;
} pl_piece;

typedef struct pl_transport pl_transport;

typedef struct pl_transport_table {
    /* This thread may call the operations from now on till leave; or STATE. */
    parlin_status (*enter)(pl_transport *transport);
    void (*leave)(pl_transport *transport);

    /* out[i] = max over ranks of in[i] */
    parlin_status (*max)(pl_transport *transport, const uint64_t *in, uint64_t *out, int count);

    parlin_status (*broadcast)(pl_transport *transport, int root, void *data, size_t bytes);

    /* In place: piece r of `data` comes from rank r. pieces[size], alike on all ranks. */
    parlin_status (*all_gather)(pl_transport *transport, void *data, const pl_piece *pieces);

    /* outgoing[q] of `send` goes to rank q, and incoming[q] of `receive` comes from rank q. A
       rank's piece to itself is not moved. What q expects of r is as long as what r sends to q. */
    parlin_status (*exchange)(pl_transport *transport, const void *send, const pl_piece *outgoing,
                              void *receive, const pl_piece *incoming);

    /* Collective; a negative color gets NULL. */
    parlin_status (*split)(pl_transport *transport, int color, int key, pl_transport **part);

    /* Not of a lost one. */
    void (*destroy)(pl_transport *transport);
} pl_transport_table;

/* Longest sentence handed from rank to rank. */
enum { PL_WIRE_TEXT = 1024, PL_WIRE_WORDS = 3, PL_WIRE_NUMBERS = 32 };

struct pl_transport {
    const pl_transport_table *table;
    int rank, size;
    int local_rank, local_size; /* place on the node; 0 of 1 where no device was chosen by it */
    const char *operation;      /* of the call at hand, for messages */
    const char *object;         /* and a layer's name, or NULL */
    pl_wait wait;
    bool lost;
    char lost_sentence[256];
    /* what the agreement sends and receives */
    uint64_t words_in[PL_WIRE_WORDS], words_out[PL_WIRE_WORDS];
    uint64_t numbers[PL_WIRE_NUMBERS]; /* of rank 0's call, where ranks differ */
    char text[PL_WIRE_TEXT];
};

/* The longest message in bytes; longer ones go in several. Alike on all ranks (changed by tests
   alone). */
extern size_t pl_wire_limit;

parlin_status pl_transport_self(pl_transport **transport);

/* Begins a call, `object` may be NULL; GROUP_LOST where the group was lost before, STATE where
   this thread may not call. */
parlin_status pl_transport_enter(pl_transport *transport, const char *operation,
                                 const char *object);
void pl_transport_leave(pl_transport *transport);

/* Marks the transport as lost, for the sentence of this thread's last error. */
void pl_transport_lose(pl_transport *transport);

/* The sentence of a wait in vain; the transport is lost. Returns GROUP_LOST. */
parlin_status pl_transport_expire(pl_transport *transport);

#endif
