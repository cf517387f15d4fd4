/* SPDX-License-Identifier: Apache-2.0 */
/* The room's inner interface: groups, agreement, and collectives that carry a caller's status
   and record. */
#ifndef PL_COMM_H
#define PL_COMM_H

#include <parlin/group.h>

#include <stdint.h>

void pl_group_retain(parlin_group *group);
void pl_group_release(parlin_group *group); /* parlin_group_close */

/* Refuses where no call would be let in: a thread that may not call MPI, a group that is lost.
   Asked before something that every call of the group counts, so that no rank counts alone. */
parlin_status pl_group_may_call(parlin_group *group, const char *operation, const char *object);

/* 1, 2, 3, ..: the ids of parameters made in order; alike on all ranks as long as all make the
   same layers. */
uint64_t pl_group_next_param_id(parlin_group *group);

/* What every rank must pass alike in a call: an operation's name and numbers. `names` are the
   numbers' names in the sentence of a mismatch ("row layer forward: rows 3, in 64"). All text is
   static or outlives the call. */
enum { PL_CALL_NUMBERS = 32 }; /* at most PL_WIRE_NUMBERS of transport.h */
typedef struct pl_call {
    const char *operation;    /* "all-reduce", "row layer forward" */
    const char *object;       /* a layer's name, or NULL */
    const char *const *names; /* [count] */
    uint64_t number[PL_CALL_NUMBERS];
    unsigned count;
} pl_call;

/* The agreement: PARLIN_SUCCESS on every rank, or the same error on every rank: where `local` is
   a failure on some rank, that of the lowest such rank (its sentence, from the thread's last
   error, is handed to all and prefixed with the rank: "rank 1: ..."; a group of one keeps its
   own as it is); where records differ, MISMATCH with who passed what. GROUP_LOST where time ran
   out. A group of one: `local`. */
parlin_status pl_agree(parlin_group *group, parlin_status local, const pl_call *call);

/* The collectives below are collective even where `local` is a failure, in which case the
   tensors are not looked at. Each reads its source to the host, agrees (as pl_agree; `call`
   NULL: agreed before, no agreement is made, and a rank that then fails before it has sent loses
   the group), sends, and writes its destination. `lengths` are never NULL here. In a group of one
   they copy on the device. */
parlin_status pl_all_reduce(parlin_group *group, parlin_status local, const pl_call *call,
                            const parlin_tensor *source, const parlin_tensor *destination);

/* dim 1 with several parts: source is (rows, sum over parts of lengths[part * p + r]), the local
   runs of each part side by side; destination has every part whole, part after part. dim 0 has
   one part. */
parlin_status pl_all_gather(parlin_group *group, parlin_status local, const pl_call *call, int dim,
                            size_t parts, const size_t *lengths, const parlin_tensor *source,
                            const parlin_tensor *destination);

parlin_status pl_reduce_scatter(parlin_group *group, parlin_status local, const pl_call *call,
                                int dim, const size_t *lengths, const parlin_tensor *source,
                                const parlin_tensor *destination);

/* Host bytes: every rank sends bytes[r], and root receives them one after the other. bytes is
   alike on all ranks. No agreement is made. The caller's memory is not used any more when it
   returns, whatever it returns. */
parlin_status pl_gather_host(parlin_group *group, int root, const size_t *bytes, const void *source,
                             void *destination);

#endif
