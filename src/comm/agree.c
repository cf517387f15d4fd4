/* SPDX-License-Identifier: Apache-2.0 */
/* The agreement with which every collective begins: one all-reduce (max) of three words,
     {p - r and status where rank r fails, else 0;  hash of the call;  ~hash of the call}
   so the lowest failing rank wins, and the hashes are alike where the largest is the smallest.
   Only a disagreement costs more: sentences are formatted and handed out then. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "comm/group.h"
#include "core/status.h"

enum { STATUS_BITS = 8 };

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 29);
}

static uint64_t mix_text(uint64_t hash, const char *text)
{
    for (; text && *text; text++)
        hash = mix(hash, (unsigned char)*text);
    return mix(hash, 0);
}

static uint64_t hash_of(const pl_call *call)
{
    uint64_t hash = mix_text(mix_text(1, call->operation), call->object);
    for (unsigned i = 0; i < call->count; i++)
        hash = mix(hash, call->number[i]);
    return mix(hash, call->count);
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* "row layer forward 'o': rows 3, in 64" */
static void describe(const pl_call *call, char *text, size_t bytes)
{
    size_t used = (size_t)snprintf(text, bytes, call->object ? "%s '%s'" : "%s%s", call->operation,
                                   call->object ? call->object : "");
    for (unsigned i = 0; i < call->count && used < bytes; i++) {
        const char *before = i == 0 ? ": " : ", ";
        uint64_t number = call->number[i];
        int more;
        if (ends_with(call->names[i], "dtype"))
            more = snprintf(text + used, bytes - used, "%s%s %s", before, call->names[i],
                            parlin_dtype_name((parlin_dtype)number));
        else if (ends_with(call->names[i], "hash"))
            more = snprintf(text + used, bytes - used, "%s%s %" PRIx64, before, call->names[i],
                            number);
        else
            more = snprintf(text + used, bytes - used, "%s%s %" PRIu64, before, call->names[i],
                            number);
        used += (size_t)more;
    }
}

/* All ranks get the sentence of rank `from`, whose call failed with `status`. */
static parlin_status hand_out(pl_transport *t, int from, parlin_status status)
{
    if (t->rank == from)
        snprintf(t->text, sizeof t->text, "%s", parlin_last_error());
    PL_TRY(t->table->broadcast(t, from, t->text, sizeof t->text));
    return pl_error(status, "rank %d: %s", from, t->text);
}

/* The sentence that tells rank 0's call from that of the first rank that made another. */
static parlin_status tell_apart(pl_transport *t, const pl_call *call, uint64_t hash)
{
    char first[PL_WIRE_TEXT];
    if (t->rank == 0) {
        t->words_in[0] = hash;
        describe(call, t->text, sizeof t->text);
    }
    PL_TRY(t->table->broadcast(t, 0, t->words_in, sizeof t->words_in[0]));
    PL_TRY(t->table->broadcast(t, 0, t->text, sizeof t->text));
    memcpy(first, t->text, sizeof first);

    t->words_in[0] = t->words_in[0] == hash ? 0 : (uint64_t)(t->size - t->rank);
    PL_TRY(t->table->max(t, t->words_in, t->words_out, 1));
    int other = t->size - (int)t->words_out[0];
    if (t->rank == other)
        describe(call, t->text, sizeof t->text);
    PL_TRY(t->table->broadcast(t, other, t->text, sizeof t->text));
    return pl_error(PARLIN_ERROR_MISMATCH, "the ranks called differently: rank 0: %s; rank %d: %s",
                    first, other, t->text);
}

parlin_status pl_agree_entered(pl_transport *t, parlin_status local, const pl_call *call)
{
    if (t->size == 1)
        return local;
    uint64_t hash = hash_of(call);
    t->words_in[0] = local ? (uint64_t)(t->size - t->rank) << STATUS_BITS | (uint64_t)local : 0;
    t->words_in[1] = hash;
    t->words_in[2] = ~hash;
    PL_TRY(t->table->max(t, t->words_in, t->words_out, 3));
    uint64_t failed = t->words_out[0];
    if (failed)
        return hand_out(t, t->size - (int)(failed >> STATUS_BITS),
                        (parlin_status)(failed & ((1u << STATUS_BITS) - 1)));
    if (t->words_out[1] != ~t->words_out[2])
        return tell_apart(t, call, hash);
    return PARLIN_SUCCESS;
}

parlin_status pl_agree(parlin_group *group, parlin_status local, const pl_call *call)
{
    pl_transport *t = group->transport;
    if (t->size == 1)
        return local;
    PL_TRY(pl_transport_enter(t, call->operation, call->object));
    parlin_status status = pl_agree_entered(t, local, call);
    pl_transport_leave(t);
    return status;
}
