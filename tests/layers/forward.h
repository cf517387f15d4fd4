/* SPDX-License-Identifier: Apache-2.0 */
/* What the forward tests share: views with poison around them, and one forward checked against
   the double reference: values, all of the buffers it touches, and the bits of a second call. */
#ifndef FORWARD_H
#define FORWARD_H

#include "layers.h"

/* --- views --- */

/* A view of (rows, heads, head_size) in a buffer of its own, and what that buffer holds on the
   host's side. With one head `tensor` is the same. */
typedef struct view {
    parlin_tensor whole; /* (1, n), owned */
    float *holds;        /* [n] */
    size_t n;
    parlin_heads heads;
    parlin_tensor tensor;
} view;

/* All poison. `tail`: elements of the buffer after the view. */
view view_at(parlin_device *device, size_t rows, size_t heads, size_t head_size, size_t offset,
             size_t row_stride, size_t head_stride, size_t tail);

/* Dense half of the time, else with an offset and strides; of heads token-major or head-major. */
view view_random(parlin_device *device, support_random *random, size_t rows, size_t heads,
                 size_t head_size);
void view_free(view *v);

void view_poison(view *v);
void view_write(view *v, const float *dense);

/* Reads the view; fails where anything outside of it has changed. */
void view_read(const view *v, float *dense);

/* Fails where anything in the whole buffer has changed. */
void view_unchanged(const view *v);

/* --- one layer under test --- */

typedef enum forward_residual { NO_RESIDUAL, RESIDUAL_APART, RESIDUAL_IN_PLACE } forward_residual;

typedef struct forward {
    parlin_group *group;
    layers_case c;
    parlin_layer *layer;
    float *weight, *bias;  /* full, stacked */
    support_random random; /* alike on all ranks */
    support_random own;    /* this rank's: layouts may differ from rank to rank */
    bool integers;         /* whole numbers, exact in f32: the result is compared exactly */
} forward;

/* Makes and loads the layer. `salt` tells the random numbers of cases apart. */
forward forward_begin(parlin_group *group, const layers_case *c, uint64_t salt, bool integers);
void forward_end(forward *f);

/* One forward (qkv: into one buffer), twice, with random views. */
void forward_check(forward *f, size_t rows, forward_residual residual);

/* parlin_qkv_forward, twice, into these views (freed here); rows are theirs. */
void forward_check_heads(forward *f, view q, view k, view v);

/* One layer through: every residual that it takes, one row and `more` other numbers of rows. */
void forward_case(parlin_group *group, const layers_case *c, uint64_t salt, bool integers,
                  int more);

/* This rank's output (rows, output_cols) by the double reference. x: (rows, in_features) of the
   full layer; residual: (rows, full output width) or NULL. */
void forward_expected(const forward *f, size_t rows, const float *x, const float *residual,
                      double *y);

/* This rank's columns of x, dense. */
void forward_own_input(const forward *f, size_t rows, const float *x, float *own);

/* Random numbers of the kind that the layer was begun with. */
void forward_numbers(forward *f, float *out, size_t n);

/* out against ref within the f32 bound. Where sums of random terms happen to cancel, the norm
   that such sums of `in` terms have on average is taken for the reference's. */
void forward_close(const forward *f, const float *out, const double *ref, size_t n);

/* Every rank of the world holds the same bits. */
void forward_same_on_all(const float *out, size_t n);

/* One of 1, 3, 17, 129, 1000, but at least `least`. */
size_t forward_size(support_random *random, size_t least);

/* How many rows to take next for a product of this size: 0, 1, 2, 3, 17, 129, .. */
size_t forward_rows(support_random *random, size_t in, size_t out);

#endif
