/* SPDX-License-Identifier: Apache-2.0 */
#include "gemm_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static parlin_device *opened;

parlin_device *gemm_device(void)
{
    if (!opened)
        assert_ok(parlin_device_open(NULL, &opened));
    return opened;
}

void gemm_device_close(void)
{
    parlin_device_close(opened);
    opened = NULL;
}

cl_mem gemm_buffer(const float *values, size_t n)
{
    cl_mem buffer;
    assert_ok(pl_buffer_create(gemm_device(), n * sizeof(float), &buffer));
    gemm_buffer_write(buffer, values, n);
    return buffer;
}

void gemm_buffer_write(cl_mem buffer, const float *values, size_t n)
{
    const size_t bytes = n * sizeof(float);
    assert_ok(
        pl_rect_write(gemm_device(), buffer, (pl_rect){0, bytes}, bytes, 1, values, bytes, true));
}

void gemm_buffer_read(cl_mem buffer, float *values, size_t n)
{
    const size_t bytes = n * sizeof(float);
    assert_ok(
        pl_rect_read(gemm_device(), buffer, (pl_rect){0, bytes}, bytes, 1, values, bytes, true));
}

void gemm_buffer_release(cl_mem buffer, size_t n)
{
    pl_buffer_release(gemm_device(), buffer, n * sizeof(float));
}

pl_weight *gemm_weight(size_t out, size_t in, const float *values, const char *engine)
{
    pl_weight *weight;
    assert_ok(pl_weight_create(gemm_device(), PARLIN_F32, out, in, &weight));
    assert_ok(pl_weight_write(weight, 0, out, values));
    assert_true(pl_weight_force(weight, engine));
    return weight;
}

parlin_tensor gemm_tensor(cl_mem buffer, size_t rows, size_t cols)
{
    return parlin_tensor_wrap(buffer, PARLIN_F32, 0, rows, cols, cols);
}

void gemm_simple(pl_weight *weight, size_t rows, const float *x, float *y)
{
    const size_t nx = rows * weight->in, ny = rows * weight->out;
    cl_mem xs = gemm_buffer(x, nx), ys = gemm_buffer(y, ny);
    parlin_tensor xt = gemm_tensor(xs, rows, weight->in), yt = gemm_tensor(ys, rows, weight->out);
    pl_block block = {.out = pl_heads_of_tensor(&yt)};
    pl_epilogue epilogue = {.block_count = 1, .blocks = &block};
    assert_ok(pl_gemm(weight, &xt, &epilogue));
    gemm_buffer_read(ys, y, ny);
    gemm_buffer_release(xs, nx);
    gemm_buffer_release(ys, ny);
}

/* --- the general case --- */

static void fill(const gemm_case *c, support_random *random, float *values, size_t n)
{
    if (c->integers)
        support_integers(random, values, n, 4);
    else
        support_floats(random, values, n);
}

/* Lays the blocks out in one buffer; returns its elements. */
static size_t lay_out(const gemm_case *c, size_t cols, pl_block *blocks, size_t count)
{
    size_t at = c->padding, column = 0;
    for (size_t b = 0; b < count; b++) {
        parlin_heads *out = &blocks[b].out;
        *out = (parlin_heads){.dtype = PARLIN_F32, .rows = c->rows};
        out->heads = c->blocks ? c->block[b].heads : 1;
        out->head_size = c->blocks ? c->block[b].head_size : cols;
        const size_t block_cols = out->heads * out->head_size;
        out->head_stride = out->head_size;
        out->row_stride = block_cols + c->padding;
        out->offset = at;
        if (c->layout == GEMM_SIDE_BY_SIDE) {
            out->row_stride = cols + c->padding;
            out->offset = c->padding + column;
            at = c->padding + c->rows * out->row_stride;
        } else if (c->layout == GEMM_HEAD_MAJOR) {
            out->row_stride = out->head_size + c->padding;
            out->head_stride = c->rows * out->row_stride;
            at += out->heads * out->head_stride;
        } else {
            at += c->rows * out->row_stride;
        }
        column += block_cols;
    }
    assert_int_equal(column, cols);
    return at + c->padding;
}

/* Calls `each` for every output element: its place in the buffer and in dense (rows, cols). */
static void gather(const pl_block *blocks, size_t count, size_t rows, size_t cols,
                   const float *buffer, float *dense, bool *covered)
{
    size_t column = 0;
    for (size_t b = 0; b < count; b++) {
        const parlin_heads *out = &blocks[b].out;
        for (size_t i = 0; i < rows; i++)
            for (size_t h = 0; h < out->heads; h++)
                for (size_t d = 0; d < out->head_size; d++) {
                    size_t at = out->offset + i * out->row_stride + h * out->head_stride + d;
                    dense[i * cols + column + h * out->head_size + d] = buffer[at];
                    covered[at] = true;
                }
        column += out->heads * out->head_size;
    }
}

static void describe(const gemm_case *c)
{
    fprintf(stderr,
            "case: engine %s, rows %zu, out %zu, in %zu, bias %d, gated %d, activation %d, "
            "residual %d, layout %d, blocks %zu, padding %zu\n",
            c->engine, c->rows, c->out, c->in, c->bias, c->gated, (int)c->activation,
            (int)c->residual, (int)c->layout, c->blocks, c->padding);
}

void gemm_check(const gemm_case *given, support_random *random)
{
    const gemm_case *c = given;
    const size_t rows = c->rows, out = c->out, in = c->in, cols = c->gated ? out / 2 : out;
    const size_t x_stride = in + c->padding, x_size = c->padding + rows * x_stride;

    /* Values. x has NaN around its view: reading there would show. */
    float *x = support_alloc_floats(rows * in), *x_all = support_alloc_floats(x_size);
    float *w = support_alloc_floats(out * in), *bias = support_alloc_floats(out);
    fill(c, random, x, rows * in);
    fill(c, random, w, out * in);
    fill(c, random, bias, out);
    support_poison(x_all, x_size);
    for (size_t i = 0; i < rows; i++)
        memcpy(x_all + c->padding + i * x_stride, x + i * in, in * sizeof *x);

    /* Outputs: all poison, or the residual in place. */
    pl_block blocks[GEMM_CASE_BLOCKS] = {0};
    const size_t count = c->blocks ? c->blocks : 1, y_size = lay_out(c, cols, blocks, count);
    float *y_all = support_alloc_floats(y_size), *r_all = support_alloc_floats(y_size);
    float *y = support_alloc_floats(rows * cols), *r = support_alloc_floats(rows * cols);
    bool *covered = support_alloc(y_size * sizeof *covered);
    memset(covered, 0, y_size * sizeof *covered);
    support_poison(y_all, y_size);
    fill(c, random, r_all, y_size);
    gather(blocks, count, rows, cols, r_all, r, covered);
    if (c->residual == GEMM_IN_PLACE)
        for (size_t i = 0; i < y_size; i++)
            if (covered[i])
                y_all[i] = r_all[i];

    cl_mem xs = gemm_buffer(x_all, x_size), bs = gemm_buffer(bias, out);
    cl_mem ys = gemm_buffer(y_all, y_size), rs = gemm_buffer(r_all, y_size);
    for (size_t b = 0; b < count; b++) {
        blocks[b].out.buffer = ys;
        if (c->residual != GEMM_NO_RESIDUAL) {
            blocks[b].residual = blocks[b].out;
            if (c->residual == GEMM_SEPARATE)
                blocks[b].residual.buffer = rs;
        }
    }
    pl_weight *weight = gemm_weight(out, in, w, c->engine);
    if (c->scratch_limit)
        weight->scratch_limit = c->scratch_limit;
    if (c->index_limit)
        weight->index_limit = c->index_limit;

    parlin_tensor xt = parlin_tensor_wrap(xs, PARLIN_F32, c->padding, rows, in, x_stride);
    pl_epilogue epilogue = {.bias = c->bias ? bs : NULL,
                            .activation = c->activation,
                            .gated = c->gated,
                            .block_count = count,
                            .blocks = blocks};
    assert_ok(pl_gemm(weight, &xt, &epilogue));
    gemm_buffer_read(ys, y_all, y_size);
    gather(blocks, count, rows, cols, y_all, y, covered);

    /* y = act(x w^T + b) [* (x w^T + b) of the other half] + residual */
    double *z = support_alloc(rows * out * sizeof *z),
           *ref = support_alloc(rows * cols * sizeof *z);
    reference_linear(rows, out, in, x, w, c->bias ? bias : NULL, PARLIN_NO_ACTIVATION, z);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++) {
            double v = reference_activation(c->activation, z[i * out + j]);
            if (c->gated)
                v *= z[i * out + cols + j];
            if (c->residual != GEMM_NO_RESIDUAL)
                v += r[i * cols + j];
            ref[i * cols + j] = v;
        }
    double error = support_error(y, ref, rows * cols);
    size_t outside = 0;
    for (size_t i = 0; i < y_size; i++)
        outside += !covered[i] && !support_is_poison(y_all[i]);
    const char *ran = c->ran ? c->ran : c->engine;
    if (!(error <= (c->integers ? 0 : SUPPORT_F32_BOUND)) || outside ||
        strcmp(pl_weight_engine(weight), ran) != 0) {
        describe(c);
        fprintf(stderr,
                "  error %g, %zu elements written outside the views, engine %s, wanted %s\n", error,
                outside, pl_weight_engine(weight), ran);
        fail();
    }

    pl_weight_destroy(weight);
    gemm_buffer_release(xs, x_size);
    gemm_buffer_release(bs, out);
    gemm_buffer_release(ys, y_size);
    gemm_buffer_release(rs, y_size);
    free(x), free(x_all), free(w), free(bias), free(y_all), free(r_all), free(y), free(r);
    free(covered), free(z), free(ref);
}
