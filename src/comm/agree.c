/* SPDX-License-Identifier: Apache-2.0 */
/* The agreement with which every collective begins: one all-reduce (max) of three words,
     {p - r and status where rank r fails, else 0;  hash of the call;  ~hash of the call}
   so the lowest failing rank wins, and the hashes are alike where the largest is the smallest.
   Only a disagreement costs more: sentences are formatted and handed out then. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "comm/group.h"
#include "core/status.h"

enum { STATUS_BITS = 8 };

static_assert((int)PL_CALL_NUMBERS <= (int)PL_WIRE_NUMBERS, "a call's numbers fit the message");

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

/* "row layer forward 'o'"; a long name is cut, so that the numbers have room */
static void describe_head(const pl_call *call, char *text, size_t bytes)
{
    snprintf(text, bytes, call->object ? "%s '%.100s'" : "%s%s", call->operation,
             call->object ? call->object : "");
}

/* "row layer forward 'o': rows 3, in 64", with these numbers in place of the call's own. Where
   `others` are given, only the numbers that differ from them. */
static void describe(const pl_call *call, const uint64_t *numbers, const uint64_t *others,
                     char *text, size_t bytes)
{
    const char *before = ": ";
    describe_head(call, text, bytes);
    size_t used = strlen(text);
    for (unsigned i = 0; i < call->count && used < bytes; i++) {
        const char *name = call->names[i];
        char *end = text + used;
        size_t room = bytes - used;
        int more;
        if (others && numbers[i] == others[i])
            continue;
        if (ends_with(name, "dtype"))
            more = snprintf(end, room, "%s%s %s", before, name,
                            parlin_dtype_name((parlin_dtype)numbers[i]));
        else if (ends_with(name, "hash"))
            more = snprintf(end, room, "%s%s %" PRIx64, before, name, numbers[i]);
        else
            more = snprintf(end, room, "%s%s %" PRIu64, before, name, numbers[i]);
        used += (size_t)more;
        before = ", ";
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

/* The sentence that tells rank 0's call from that of the first rank that made another. It is
   written by that rank: where only numbers differ, they alone are told. */
static parlin_status tell_apart(pl_transport *t, const pl_call *call, uint64_t hash)
{
    enum { HALF = (PL_WIRE_TEXT - 64) / 2 };
    char first[HALF], own[HALF];
    if (t->rank == 0) {
        t->words_in[0] = hash;
        t->words_in[1] = call->count;
        describe(call, call->number, NULL, t->text, HALF);
        memset(t->numbers, 0, sizeof t->numbers);
        memcpy(t->numbers, call->number, call->count * sizeof *call->number);
    }
    PL_TRY(t->table->broadcast(t, 0, t->words_in, 2 * sizeof t->words_in[0]));
    PL_TRY(t->table->broadcast(t, 0, t->text, HALF));
    PL_TRY(t->table->broadcast(t, 0, t->numbers, sizeof t->numbers));

    t->words_in[0] = t->words_in[0] == hash ? 0 : (uint64_t)(t->size - t->rank);
    PL_TRY(t->table->max(t, t->words_in, t->words_out, 1));
    int other = t->size - (int)t->words_out[0];
    if (t->rank == other) {
        memcpy(first, t->text, sizeof first);
        describe_head(call, own, sizeof own);
        size_t head = strlen(own);
        bool alike = strncmp(first, own, head) == 0 && (first[head] == ':' || first[head] == '\0');
        if (alike && t->words_in[1] == call->count) {
            describe(call, t->numbers, call->number, first, sizeof first);
            describe(call, call->number, t->numbers, own, sizeof own);
        } else {
            describe(call, call->number, NULL, own, sizeof own);
        }
        snprintf(t->text, sizeof t->text, "rank 0: %s; rank %d: %s", first, other, own);
    }
    PL_TRY(t->table->broadcast(t, other, t->text, sizeof t->text));
    return pl_error(PARLIN_ERROR_MISMATCH, "the ranks called differently: %s", t->text);
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
