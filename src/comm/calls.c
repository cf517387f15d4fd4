/* SPDX-License-Identifier: Apache-2.0 */
/* The public collectives: arguments are checked here, once. A refused call still takes part, so
   that all ranks get the same error; only a NULL group cannot. */
#include <parlin/group.h>

#include "comm/flow.h"
#include "core/size.h"
#include "core/status.h"

static parlin_status no_group(const char *name)
{
    return pl_error(PARLIN_ERROR_ARGUMENT, "%s: group is NULL", name);
}

static parlin_status check_dim(const char *name, int dim)
{
    if (dim == 0 || dim == 1)
        return PARLIN_SUCCESS;
    return pl_error(PARLIN_ERROR_ARGUMENT, "%s: dim is %d, wanted 0 (rows) or 1 (columns)", name,
                    dim);
}

/* Source and destination are views, of one type, and share no element. */
static parlin_status check_pair(const parlin_group *group, const char *name,
                                const char *source_name, const char *destination_name,
                                const parlin_tensor *source, const parlin_tensor *destination)
{
    PL_TRY(pl_tensor_check(group->device, source, source_name));
    PL_TRY(pl_tensor_check(group->device, destination, destination_name));
    PL_TRY(pl_writable_check(destination->buffer, group->size > 1, destination_name));
    if (source->dtype != destination->dtype)
        return pl_error(PARLIN_ERROR_ARGUMENT, "%s: source is %s, but destination is %s", name,
                        parlin_dtype_name(source->dtype), parlin_dtype_name(destination->dtype));
    if (pl_tensor_overlap(source, destination))
        return pl_error(PARLIN_ERROR_ARGUMENT, "%s: source and destination overlap", name);
    return PARLIN_SUCCESS;
}

static parlin_status check_f32(const char *name, const parlin_tensor *tensor)
{
    if (tensor->dtype == PARLIN_F32)
        return PARLIN_SUCCESS;
    return pl_error(PARLIN_ERROR_UNSUPPORTED, "%s: the tensors are %s; this version sums f32 only",
                    name, parlin_dtype_name(tensor->dtype));
}

static size_t along(const parlin_tensor *tensor, int dim)
{
    return dim == 0 ? tensor->rows : tensor->cols;
}

static void even_lengths(size_t extent, int p, size_t *lengths)
{
    for (int q = 0; q < p; q++)
        lengths[q] = pl_even_length(extent, p, q);
}

/* The runs fill the whole. */
static parlin_status check_lengths(const char *name, const char *lengths_name, int p,
                                   const size_t *lengths, const char *whole_name,
                                   const parlin_tensor *whole, int dim)
{
    size_t sum = 0;
    for (int q = 0; q < p; q++)
        if (!pl_size_add(sum, lengths[q], &sum))
            return pl_error(PARLIN_ERROR_SHAPE, "%s: the sum of %s is beyond size_t", name,
                            lengths_name);
    if (sum != along(whole, dim))
        return pl_error(PARLIN_ERROR_SHAPE, "%s: %s sum up to %zu, but %s has %zu %s", name,
                        lengths_name, sum, whole_name, along(whole, dim),
                        dim == 0 ? "rows" : "columns");
    return PARLIN_SUCCESS;
}

/* `run` is this rank's part of `whole`. */
static parlin_status check_run(const parlin_group *group, const char *name, int dim,
                               const size_t *lengths, const char *run_name,
                               const parlin_tensor *run, const parlin_tensor *whole)
{
    const size_t length = lengths[group->rank];
    const size_t rows = dim == 0 ? length : whole->rows, cols = dim == 0 ? whole->cols : length;
    if (run->rows == rows && run->cols == cols)
        return PARLIN_SUCCESS;
    return pl_error(PARLIN_ERROR_SHAPE,
                    "%s: %s is (%zu, %zu), wanted (%zu, %zu) on rank %d of %d for a whole of "
                    "(%zu, %zu)",
                    name, run_name, run->rows, run->cols, rows, cols, group->rank, group->size,
                    whole->rows, whole->cols);
}

/* FNV-1a over words, for the record. */
static uint64_t lengths_hash(const size_t *lengths, int p)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (int q = 0; q < p; q++)
        hash = (hash ^ lengths[q]) * 0x100000001b3u;
    return hash;
}

static parlin_status check_all_reduce(const parlin_group *group, const parlin_tensor *source,
                                      const parlin_tensor *destination)
{
    if (pl_tensor_same(source, destination))
        PL_TRY(pl_tensor_check(group->device, source, "all-reduce: source"));
    else
        PL_TRY(check_pair(group, "all-reduce", "all-reduce: source", "all-reduce: destination",
                          source, destination));
    PL_TRY(check_f32("all-reduce", source));
    if (source->rows != destination->rows || source->cols != destination->cols)
        return pl_error(PARLIN_ERROR_SHAPE,
                        "all-reduce: source is (%zu, %zu), but destination is (%zu, %zu)",
                        source->rows, source->cols, destination->rows, destination->cols);
    return PARLIN_SUCCESS;
}

parlin_status parlin_all_reduce(parlin_group *group, parlin_tensor source,
                                parlin_tensor destination)
{
    static const char *const names[] = {"rows", "cols", "dtype"};
    if (!group)
        return no_group("all-reduce");
    const pl_call call = {.operation = "all-reduce",
                          .names = names,
                          .number = {source.rows, source.cols, (uint64_t)source.dtype},
                          .count = 3};
    return pl_all_reduce(group, check_all_reduce(group, &source, &destination), &call, &source,
                         &destination);
}

static parlin_status check_all_gather(const parlin_group *group, int dim, const size_t **lengths,
                                      const parlin_tensor *source, const parlin_tensor *destination)
{
    PL_TRY(check_dim("all-gather", dim));
    PL_TRY(check_pair(group, "all-gather", "all-gather: source", "all-gather: destination", source,
                      destination));
    if (!*lengths) {
        even_lengths(along(destination, dim), group->size, group->lengths);
        *lengths = group->lengths;
    }
    PL_TRY(check_lengths("all-gather", "lengths", group->size, *lengths, "destination", destination,
                         dim));
    return check_run(group, "all-gather", dim, *lengths, "source", source, destination);
}

parlin_status parlin_all_gather(parlin_group *group, int dim, const size_t *lengths,
                                parlin_tensor source, parlin_tensor destination)
{
    static const char *const names[] = {"dim", "rows", "cols", "dtype", "lengths hash"};
    if (!group)
        return no_group("all-gather");
    parlin_status local = check_all_gather(group, dim, &lengths, &source, &destination);
    pl_call call = {.operation = "all-gather", .names = names, .count = 5};
    if (local == PARLIN_SUCCESS) {
        call.number[0] = (uint64_t)dim;
        call.number[1] = destination.rows;
        call.number[2] = destination.cols;
        call.number[3] = (uint64_t)destination.dtype;
        call.number[4] = lengths_hash(lengths, group->size);
    }
    return pl_all_gather(group, local, &call, dim, 1, lengths, &source, &destination);
}

static parlin_status check_reduce_scatter(const parlin_group *group, int dim,
                                          const size_t **lengths, const parlin_tensor *source,
                                          const parlin_tensor *destination)
{
    PL_TRY(check_dim("reduce-scatter", dim));
    PL_TRY(check_pair(group, "reduce-scatter", "reduce-scatter: source",
                      "reduce-scatter: destination", source, destination));
    PL_TRY(check_f32("reduce-scatter", source));
    if (!*lengths) {
        even_lengths(along(source, dim), group->size, group->lengths);
        *lengths = group->lengths;
    }
    PL_TRY(
        check_lengths("reduce-scatter", "lengths", group->size, *lengths, "source", source, dim));
    return check_run(group, "reduce-scatter", dim, *lengths, "destination", destination, source);
}

parlin_status parlin_reduce_scatter(parlin_group *group, int dim, const size_t *lengths,
                                    parlin_tensor source, parlin_tensor destination)
{
    static const char *const names[] = {"dim", "rows", "cols", "dtype", "lengths hash"};
    if (!group)
        return no_group("reduce-scatter");
    parlin_status local = check_reduce_scatter(group, dim, &lengths, &source, &destination);
    pl_call call = {.operation = "reduce-scatter", .names = names, .count = 5};
    if (local == PARLIN_SUCCESS) {
        call.number[0] = (uint64_t)dim;
        call.number[1] = source.rows;
        call.number[2] = source.cols;
        call.number[3] = (uint64_t)source.dtype;
        call.number[4] = lengths_hash(lengths, group->size);
    }
    return pl_reduce_scatter(group, local, &call, dim, lengths, &source, &destination);
}

parlin_status parlin_broadcast(parlin_group *group, int root, parlin_tensor tensor)
{
    static const char *const names[] = {"root", "rows", "cols", "dtype"};
    if (!group)
        return no_group("broadcast");
    parlin_status local = pl_tensor_check(group->device, &tensor, "broadcast: tensor");
    if (local == PARLIN_SUCCESS && group->rank != root)
        local = pl_writable_check(tensor.buffer, group->size > 1, "broadcast: tensor");
    if (local == PARLIN_SUCCESS && (root < 0 || root >= group->size))
        local = pl_error(PARLIN_ERROR_ARGUMENT, "broadcast: root is %d, wanted 0 to %d", root,
                         group->size - 1);
    const pl_call call = {
        .operation = "broadcast",
        .names = names,
        .number = {(uint64_t)root, tensor.rows, tensor.cols, (uint64_t)tensor.dtype},
        .count = 4};
    return pl_broadcast(group, local, &call, root, &tensor);
}

static parlin_status check_all_to_all(const parlin_group *group, int dim,
                                      const size_t **send_lengths, const size_t **receive_lengths,
                                      const parlin_tensor *source, const parlin_tensor *destination)
{
    PL_TRY(check_dim("all-to-all", dim));
    PL_TRY(check_pair(group, "all-to-all", "all-to-all: source", "all-to-all: destination", source,
                      destination));
    if (!*send_lengths) {
        even_lengths(along(source, dim), group->size, group->lengths);
        *send_lengths = group->lengths;
    }
    if (!*receive_lengths) {
        even_lengths(along(destination, dim), group->size, group->lengths_in);
        *receive_lengths = group->lengths_in;
    }
    PL_TRY(check_lengths("all-to-all", "send_lengths", group->size, *send_lengths, "source", source,
                         dim));
    PL_TRY(check_lengths("all-to-all", "receive_lengths", group->size, *receive_lengths,
                         "destination", destination, dim));
    if (along(source, 1 - dim) != along(destination, 1 - dim))
        return pl_error(PARLIN_ERROR_SHAPE, "all-to-all: source has %zu %s, but destination %zu",
                        along(source, 1 - dim), dim == 0 ? "columns" : "rows",
                        along(destination, 1 - dim));
    return PARLIN_SUCCESS;
}

parlin_status parlin_all_to_all(parlin_group *group, int dim, const size_t *send_lengths,
                                const size_t *receive_lengths, parlin_tensor source,
                                parlin_tensor destination)
{
    static const char *const names_0[] = {"dim", "cols", "dtype"};
    static const char *const names_1[] = {"dim", "rows", "dtype"};
    if (!group)
        return no_group("all-to-all");
    parlin_status local =
        check_all_to_all(group, dim, &send_lengths, &receive_lengths, &source, &destination);
    pl_call call = {.operation = "all-to-all", .names = dim == 0 ? names_0 : names_1, .count = 3};
    if (local == PARLIN_SUCCESS) {
        call.number[0] = (uint64_t)dim;
        call.number[1] = along(&source, 1 - dim);
        call.number[2] = (uint64_t)source.dtype;
        /* In a group of one that is known here; in a larger one after an exchange of lengths. */
        if (group->size == 1 && send_lengths[0] != receive_lengths[0])
            local = pl_error(PARLIN_ERROR_SHAPE,
                             "all-to-all: rank 0 sends %zu, but receive_lengths[0] is %zu",
                             send_lengths[0], receive_lengths[0]);
    }
    return pl_all_to_all(group, local, &call, dim, send_lengths, receive_lengths, &source,
                         &destination);
}

parlin_status parlin_barrier(parlin_group *group)
{
    static const pl_call call = {.operation = "barrier"};
    if (!group)
        return no_group("barrier");
    return pl_agree(group, PARLIN_SUCCESS, &call);
}
