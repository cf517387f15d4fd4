/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor that is cut over the ranks, and its form in staging: the runs of the ranks one after
   the other, each dense and row-major.

     dim 0: rank q has rows             [l_0 + .. + l_(q-1), + l_q)
     dim 1: rank q has columns of every part, side by side; part t begins after the parts before
            it, and in it q's columns   [l_t0 + .. + l_t(q-1), + l_tq) */
#ifndef PL_COMM_LAYOUT_H
#define PL_COMM_LAYOUT_H

#include "comm/transport.h"
#include "device/device.h"

typedef struct pl_layout {
    const parlin_tensor *tensor; /* the whole */
    int dim;
    int size;
    size_t parts;           /* 1 where dim is 0 */
    const size_t *lengths;  /* [parts * size] */
    const pl_piece *pieces; /* [size], see pl_layout_pieces */
} pl_layout;

/* pieces[q]: where rank q's run lies in staging, in bytes. `across` is the extent along the other
   dimension. */
void pl_layout_pieces(int size, size_t parts, const size_t *lengths, size_t across, size_t element,
                      pl_piece *pieces);

/* The whole tensor to or from staging; done when it returns, whatever it returns. */
parlin_status pl_layout_read(parlin_device *device, const pl_layout *layout, void *host);
parlin_status pl_layout_write(parlin_device *device, const pl_layout *layout, const void *host);

/* One dense run, likewise. */
parlin_status pl_run_read(parlin_device *device, const parlin_tensor *tensor, void *host);
parlin_status pl_run_write(parlin_device *device, const parlin_tensor *tensor, const void *host);

static inline bool pl_empty(const parlin_tensor *tensor)
{
    return tensor->rows == 0 || tensor->cols == 0;
}

/* In bytes, without gaps. The tensor was checked, so that it fits. */
static inline size_t pl_dense_bytes(const parlin_tensor *tensor)
{
    return tensor->rows * tensor->cols * parlin_dtype_size(tensor->dtype);
}

#endif
