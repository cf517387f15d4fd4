/* SPDX-License-Identifier: Apache-2.0 */
/* Export: the inverse of a load. Rows travel in rounds, so that host memory stays bounded: in
   each round every rank sends its next `round_rows` rows of a part, and root puts them in place.
   A failure after the agreement does not stop the rounds, on which the other ranks wait; it is
   told in a second agreement at the end, and leaves data undefined. */
#include "layers/layer.h"

#include <stdlib.h>
#include <string.h>

typedef struct export_job {
    const parlin_layer *layer;
    parlin_param param;
    size_t first; /* parts [first, first + count) */
    size_t count;
    size_t root;
    char *data;  /* root: the full tensor */
    size_t item; /* bytes of an element */
    size_t cols; /* of the full tensor */
    size_t round_rows;
    char *mine;    /* this rank's rows of a round */
    char *all;     /* root: all ranks' rows of a round */
    size_t *bytes; /* [p]: of a round */
} export_job;

/* The rows of a full part that rank q sends: a key/value head that several ranks hold comes from
   the first of them, the bias of a row layer from root itself. */
static pl_range sent_rows(const export_job *job, size_t part, size_t q)
{
    const pl_spec *spec = &job->layer->spec;
    size_t p = job->layer->size;
    pl_range range = pl_part_range(spec, p, q, part);
    if (spec->kind == PARLIN_ROW && job->param == PARLIN_BIAS && q != job->root)
        return (pl_range){0, 0};
    if (spec->kind != PARLIN_QKV || part == 0)
        return range;
    size_t size = part == 2 ? spec->v_head_size : spec->head_size;
    while (range.length > 0 &&
           !pl_heads_owns_kv(spec->heads, spec->kv_heads, p, q, range.start / size)) {
        range.start += size;
        range.length -= size;
    }
    return range;
}

static pl_range sent_cols(const export_job *job, size_t q)
{
    return job->param == PARLIN_BIAS ? (pl_range){0, 1}
                                     : pl_input_range(&job->layer->spec, job->layer->size, q);
}

/* The rows of `sent` that go in the round that begins at `done`. */
static pl_range round_of(const export_job *job, pl_range sent, size_t done)
{
    if (done >= sent.length)
        return (pl_range){sent.start, 0};
    size_t left = sent.length - done;
    return (pl_range){sent.start + done, left < job->round_rows ? left : job->round_rows};
}

/* Puts what the ranks sent in a round into the full tensor, in which the part begins at row
   `base`. */
static void place(const export_job *job, size_t part, size_t base, size_t done)
{
    const char *from = job->all;
    for (size_t q = 0; q < job->layer->size; ++q) {
        pl_range rows = round_of(job, sent_rows(job, part, q), done);
        pl_range cols = sent_cols(job, q);
        size_t width = cols.length * job->item;
        for (size_t i = 0; i < rows.length; ++i, from += width)
            memcpy(job->data + ((base + rows.start + i) * job->cols + cols.start) * job->item, from,
                   width);
    }
}

static parlin_status send_part(const export_job *job, size_t part, size_t base)
{
    const parlin_layer *layer = job->layer;
    const pl_slot *slot = pl_slot_of(layer, job->param, part);
    parlin_status status = PARLIN_SUCCESS;
    size_t most = 0;
    for (size_t q = 0; q < layer->size; ++q) {
        size_t length = sent_rows(job, part, q).length;
        most = length > most ? length : most;
    }
    for (size_t done = 0; done < most; done += job->round_rows) {
        for (size_t q = 0; q < layer->size; ++q)
            job->bytes[q] = round_of(job, sent_rows(job, part, q), done).length *
                            sent_cols(job, q).length * job->item;
        pl_range rows = round_of(job, sent_rows(job, part, layer->rank), done);
        if (rows.length > 0 && status == PARLIN_SUCCESS)
            status = pl_param_read(layer, job->param, slot->at + rows.start - slot->range.start,
                                   rows.length, job->mine);
        parlin_status sent =
            pl_gather_host(layer->group, (int)job->root, job->bytes, job->mine, job->all);
        if (status == PARLIN_SUCCESS)
            status = sent;
        if (layer->rank == job->root && status == PARLIN_SUCCESS)
            place(job, part, base, done);
    }
    return status;
}

/* Checks this rank's arguments, and allocates. */
static parlin_status prepare(export_job *job, parlin_shard shard, int root, size_t bytes)
{
    const parlin_layer *layer = job->layer;
    const pl_spec *spec = &layer->spec;
    if (root < 0 || (size_t)root >= layer->size)
        return pl_layer_error(spec, PARLIN_ERROR_ARGUMENT, "export",
                              "root %d is no rank of a group of %zu", root, layer->size);
    PL_TRY(pl_param_find(layer, "export", job->param, shard, &job->first, &job->count));
    PL_TRY(pl_param_ready(layer, "export", job->param, job->first, job->count));
    job->root = (size_t)root;
    job->item = parlin_dtype_size(pl_param_dtype(layer, job->param));
    job->cols = job->param == PARLIN_BIAS ? 1 : spec->in_features;
    job->round_rows = pl_chunk_rows(job->cols * job->item * layer->size);
    bool is_root = layer->rank == job->root;
    if (is_root) {
        char text[PL_PARAM_TEXT];
        pl_param_text(layer, job->param, job->first, job->count, text);
        size_t rows = pl_param_rows(layer, job->first, job->count);
        size_t wanted = rows * job->cols * job->item;
        if (bytes != wanted)
            return pl_layer_error(spec, PARLIN_ERROR_SHAPE, "export",
                                  "%s is (%zu, %zu): bytes is %zu, wanted %zu", text, rows,
                                  job->cols, bytes, wanted);
        if (job->data == NULL)
            return pl_layer_error(spec, PARLIN_ERROR_ARGUMENT, "export", "data is NULL on root");
    }
    size_t round_bytes = job->round_rows * job->cols * job->item;
    job->mine = malloc(round_bytes);
    job->all = is_root ? calloc(layer->size, round_bytes) : NULL;
    job->bytes = calloc(layer->size, sizeof *job->bytes);
    if (job->mine == NULL || job->bytes == NULL || (is_root && job->all == NULL))
        return pl_layer_error(spec, PARLIN_ERROR_MEMORY, "export",
                              "no host memory for rounds of %zu bytes", round_bytes);
    return PARLIN_SUCCESS;
}

parlin_status parlin_layer_export(parlin_layer *layer, parlin_param param, parlin_shard shard,
                                  int root, void *data, size_t bytes)
{
    if (layer == NULL)
        return pl_error(PARLIN_ERROR_ARGUMENT, "parlin_layer_export: layer is NULL");
    static const char *const names[] = {"layer", "param", "shard", "root"};
    const pl_call call = {.operation = "export",
                          .object = layer->spec.common.name,
                          .names = names,
                          .number = {layer->number, (uint64_t)param, (uint64_t)(int64_t)shard,
                                     (uint64_t)(int64_t)root},
                          .count = sizeof names / sizeof *names};
    export_job job = {.layer = layer, .param = param, .data = data};
    parlin_status status = pl_agree(layer->group, prepare(&job, shard, root, bytes), &call);
    if (status == PARLIN_SUCCESS) {
        size_t base = 0;
        for (size_t i = job.first; i < job.first + job.count; ++i) {
            parlin_status part = send_part(&job, i, base);
            status = status == PARLIN_SUCCESS ? part : status;
            base += layer->spec.part_rows[i];
        }
        status = pl_agree(layer->group, status, &call);
    }
    free(job.mine);
    free(job.all);
    free(job.bytes);
    return status;
}
