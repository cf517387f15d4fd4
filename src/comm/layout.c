/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/layout.h"

void pl_layout_pieces(int size, size_t parts, const size_t *lengths, size_t across, size_t element,
                      pl_piece *pieces)
{
    size_t at = 0;
    for (int q = 0; q < size; q++) {
        size_t units = 0;
        for (size_t t = 0; t < parts; t++)
            units += lengths[t * (size_t)size + (size_t)q];
        pieces[q] = (pl_piece){.at = at, .bytes = units * across * element};
        at += pieces[q].bytes;
    }
}

/* A failed transfer may have left earlier ones pending on memory that is given back next. */
static parlin_status settle(parlin_device *device, parlin_status status)
{
    if (status != PARLIN_SUCCESS)
        parlin_device_finish(device);
    return status;
}

/* One of host and source is NULL. */
static parlin_status transfer(parlin_device *device, const parlin_tensor *tensor, size_t column,
                              size_t columns, char *host, const char *source, size_t host_pitch,
                              bool blocking)
{
    const size_t element = parlin_dtype_size(tensor->dtype);
    const pl_rect at = {.offset = (tensor->offset + column) * element,
                        .pitch = tensor->row_stride * element};
    if (source)
        return pl_rect_write(device, tensor->buffer, at, columns * element, tensor->rows, source,
                             host_pitch, blocking);
    return pl_rect_read(device, tensor->buffer, at, columns * element, tensor->rows, host,
                        host_pitch, blocking);
}

/* Only the last transfer blocks: the queue is in order. */
static parlin_status move(parlin_device *device, const pl_layout *layout, char *host,
                          const char *source)
{
    const parlin_tensor *tensor = layout->tensor;
    const size_t size = (size_t)layout->size, element = parlin_dtype_size(tensor->dtype);
    if (pl_empty(tensor))
        return PARLIN_SUCCESS;
    /* A single row of a single part has the same form here and there. */
    if (layout->dim == 0 || (tensor->rows == 1 && layout->parts == 1))
        return settle(device, transfer(device, tensor, 0, tensor->cols, host, source,
                                       tensor->cols * element, true));

    size_t runs = 0;
    for (size_t i = 0; i < layout->parts * size; i++)
        runs += layout->lengths[i] > 0;
    size_t column = 0;
    for (size_t t = 0; t < layout->parts; t++)
        for (size_t q = 0; q < size; q++) {
            size_t length = layout->lengths[t * size + q], inside = 0;
            if (length == 0)
                continue;
            for (size_t before = 0; before < t; before++)
                inside += layout->lengths[before * size + q];
            size_t at = layout->pieces[q].at + inside * element;
            size_t pitch = layout->pieces[q].bytes / tensor->rows;
            parlin_status status = transfer(device, tensor, column, length, host ? host + at : NULL,
                                            source ? source + at : NULL, pitch, --runs == 0);
            if (status != PARLIN_SUCCESS)
                return settle(device, status);
            column += length;
        }
    return PARLIN_SUCCESS;
}

parlin_status pl_layout_read(parlin_device *device, const pl_layout *layout, void *host)
{
    return move(device, layout, host, NULL);
}

parlin_status pl_layout_write(parlin_device *device, const pl_layout *layout, const void *host)
{
    return move(device, layout, NULL, host);
}

parlin_status pl_run_read(parlin_device *device, const parlin_tensor *tensor, void *host)
{
    const pl_layout whole = {.tensor = tensor, .dim = 0, .size = 1, .parts = 1};
    return move(device, &whole, host, NULL);
}

parlin_status pl_run_write(parlin_device *device, const parlin_tensor *tensor, const void *host)
{
    const pl_layout whole = {.tensor = tensor, .dim = 0, .size = 1, .parts = 1};
    return move(device, &whole, NULL, host);
}
