/* SPDX-License-Identifier: Apache-2.0 */
#include "forward.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- views --- */

static void upload(view *v)
{
    assert_ok(parlin_tensor_write(v->whole, v->holds));
}

view view_at(parlin_device *device, size_t rows, size_t heads, size_t head_size, size_t offset,
             size_t row_stride, size_t head_stride, size_t tail)
{
    view v = {0};
    v.n = offset + tail;
    if (rows && heads && head_size)
        v.n += (rows - 1) * row_stride + (heads - 1) * head_stride + head_size;
    v.n += v.n == 0;
    v.holds = support_alloc_floats(v.n);
    assert_ok(parlin_tensor_create_on(device, PARLIN_F32, 1, v.n, &v.whole));
    v.heads = parlin_heads_wrap(v.whole.buffer, PARLIN_F32, offset, rows, heads, head_size,
                                row_stride, head_stride);
    v.tensor = parlin_tensor_wrap(v.whole.buffer, PARLIN_F32, offset, rows, head_size, row_stride);
    v.heads.device = v.tensor.device = device;
    upload(&v);
    return v;
}

view view_random(parlin_device *device, support_random *random, size_t rows, size_t heads,
                 size_t head_size)
{
    bool head_major = support_below(random, 2), spaced = support_below(random, 2);
    size_t offset = spaced ? support_below(random, 70) : 0;
    size_t inner_pad = spaced ? support_below(random, 6) : 0;
    size_t outer_pad = spaced ? support_below(random, 40) : 0;
    size_t inner = head_size + (heads > 1 || head_major ? inner_pad : outer_pad);
    size_t outer = inner * (head_major ? rows : heads) + outer_pad;
    if (heads == 1)
        return view_at(device, rows, 1, head_size, offset, inner, inner, outer_pad);
    return view_at(device, rows, heads, head_size, offset, head_major ? inner : outer,
                   head_major ? outer : inner, outer_pad);
}

void view_free(view *v)
{
    parlin_tensor_destroy(&v->whole);
    free(v->holds);
    *v = (view){0};
}

void view_poison(view *v)
{
    support_poison(v->holds, v->n);
    upload(v);
}

/* Element i of the dense form (rows, heads, head_size) in the buffer. */
static size_t place(const view *v, size_t i)
{
    const parlin_heads *h = &v->heads;
    size_t d = i % h->head_size, head = i / h->head_size % h->heads;
    size_t row = i / h->head_size / h->heads;
    return h->offset + row * h->row_stride + head * h->head_stride + d;
}

static size_t elements(const view *v)
{
    return v->heads.rows * v->heads.heads * v->heads.head_size;
}

void view_write(view *v, const float *dense)
{
    for (size_t i = 0; i < elements(v); i++)
        v->holds[place(v, i)] = dense[i];
    upload(v);
}

static void read_and_compare(const view *v, float *dense)
{
    float *now = support_alloc_floats(v->n);
    assert_ok(parlin_tensor_read(v->whole, now));
    for (size_t i = 0; dense && i < elements(v); i++) {
        dense[i] = now[place(v, i)];
        now[place(v, i)] = v->holds[place(v, i)];
    }
    assert_same_floats(now, v->holds, v->n);
    free(now);
}

void view_read(const view *v, float *dense)
{
    read_and_compare(v, dense);
}

void view_unchanged(const view *v)
{
    read_and_compare(v, NULL);
}

/* --- one layer under test --- */

static void describe(const forward *f, size_t rows, const char *what)
{
    const layers_case *c = &f->c;
    static const char *const kinds[] = {"?", "column", "merged", "qkv", "row"};
    fprintf(stderr,
            "rank %d of %d: %s, %s layer: rows %zu in %zu out %zu (parts %zu: %zu %zu %zu %zu) "
            "heads %zu kv %zu sizes %zu %zu bias %d skip %d gather %d whole input %d partial %d "
            "gated %d activation %d integers %d\n",
            support_rank(), support_size(), what, kinds[c->kind], rows, c->in, c->out, c->parts,
            c->part_out[0], c->part_out[1], c->part_out[2], c->part_out[3], c->heads, c->kv_heads,
            c->head_size, c->v_head_size, c->bias, c->skip_bias_add, c->gather_output,
            c->whole_input, c->partial, c->gated, (int)c->activation, f->integers);
}

/* The product's columns (stacked rows of W) that this rank's output is made of. */
static size_t product_columns(const forward *f, size_t *list)
{
    size_t p = (size_t)parlin_group_size(f->group), r = (size_t)parlin_group_rank(f->group);
    if (f->c.kind != PARLIN_ROW && !f->c.gather_output)
        return layers_rows(&f->c, p, r, list);
    for (size_t i = 0; list && i < layers_out(&f->c); i++)
        list[i] = i;
    return layers_out(&f->c);
}

static size_t output_cols(const forward *f)
{
    return product_columns(f, NULL) / (f->c.gated ? 2 : 1);
}

static size_t input_list(const forward *f, size_t *list)
{
    size_t p = (size_t)parlin_group_size(f->group), r = (size_t)parlin_group_rank(f->group);
    return layers_cols(&f->c, f->c.whole_input ? 1 : p, f->c.whole_input ? 0 : r, list);
}

void forward_numbers(forward *f, float *out, size_t n)
{
    if (f->integers)
        support_integers(&f->random, out, n, 4);
    else
        support_floats(&f->random, out, n);
}

forward forward_begin(parlin_group *group, const layers_case *c, uint64_t salt, bool integers)
{
    forward f = {.group = group, .c = *c, .integers = integers};
    f.random.state = support_seed() + salt * 1000003;
    f.own.state = f.random.state ^ ((uint64_t)support_rank() + 1) << 40;
    size_t out = layers_out(c);
    f.weight = support_alloc_floats(out * c->in);
    f.bias = support_alloc_floats(out);
    forward_numbers(&f, f.weight, out * c->in);
    forward_numbers(&f, f.bias, out);
    parlin_status status = layers_try(group, c, &f.layer);
    if (status)
        describe(&f, 0, "creation");
    assert_ok(status);
    layers_load(f.layer, c, f.weight, f.bias);
    parlin_layer_info info = parlin_layer_get_info(f.layer);
    assert_int_equal(info.input_cols, input_list(&f, NULL));
    assert_int_equal(info.output_cols, output_cols(&f));
    return f;
}

void forward_end(forward *f)
{
    parlin_layer_destroy(f->layer);
    free(f->weight);
    free(f->bias);
    f->layer = NULL;
}

void forward_own_input(const forward *f, size_t rows, const float *x, float *own)
{
    size_t *list = support_alloc(f->c.in * sizeof *list), n = input_list(f, list);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < n; j++)
            own[i * n + j] = x[i * f->c.in + list[j]];
    free(list);
}

/* y = act(x[columns] w[rows of `list`, columns]^T + b) */
static void product(const forward *f, size_t rows, const float *x, const size_t *list, size_t n,
                    parlin_activation activation, double *y)
{
    const layers_case *c = &f->c;
    size_t *col = support_alloc(c->in * sizeof *col), in = c->in;
    for (size_t i = 0; i < in; i++)
        col[i] = i;
    if (c->partial)
        in = layers_cols(c, (size_t)parlin_group_size(f->group),
                         (size_t)parlin_group_rank(f->group), col);
    float *own_x = support_alloc_floats(rows * in), *own_w = support_alloc_floats(n * in);
    float *own_b = support_alloc_floats(n);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < in; j++)
            own_x[i * in + j] = x[i * c->in + col[j]];
    for (size_t i = 0; i < n; i++) {
        own_b[i] = f->bias[list[i]];
        for (size_t j = 0; j < in; j++)
            own_w[i * in + j] = f->weight[list[i] * c->in + col[j]];
    }
    reference_linear(rows, n, in, own_x, own_w, c->bias && !c->skip_bias_add ? own_b : NULL,
                     activation, y);
    free(own_x);
    free(own_w);
    free(own_b);
    free(col);
}

void forward_expected(const forward *f, size_t rows, const float *x, const float *residual,
                      double *y)
{
    size_t *list = support_alloc(layers_out(&f->c) * sizeof *list);
    size_t cols = output_cols(f), full = layers_out(&f->c) / (f->c.gated ? 2 : 1);
    product_columns(f, list);
    product(f, rows, x, list, cols, f->c.activation, y);
    if (f->c.gated) {
        double *up = support_alloc(rows * cols * sizeof *up);
        product(f, rows, x, list + cols, cols, PARLIN_NO_ACTIVATION, up);
        for (size_t i = 0; i < rows * cols; i++)
            y[i] *= up[i];
        free(up);
    }
    for (size_t i = 0; residual && i < rows * cols; i++)
        y[i] += residual[i / cols * full + list[i % cols]];
    free(list);
}

/* NULL: right. Else what is wrong, in `text`. */
static const char *wrong(const forward *f, const float *out, const double *ref, size_t n,
                         char text[200])
{
    double norm = 0, difference = 0, usual = sqrt((double)n * (double)f->c.in) / 3;
    for (size_t i = 0; i < n; i++) {
        if (f->integers ? !((double)out[i] == ref[i]) : !isfinite(out[i])) {
            snprintf(text, 200, "[%zu] is %.9g%s, wanted %.9g", i, out[i],
                     support_is_poison(out[i]) ? " (never written)" : "", ref[i]);
            return text;
        }
        norm += ref[i] * ref[i];
        difference += (out[i] - ref[i]) * (out[i] - ref[i]);
    }
    norm = sqrt(norm) > usual ? sqrt(norm) : usual;
    if (sqrt(difference) <= SUPPORT_F32_BOUND * norm)
        return NULL;
    snprintf(text, 200, "relative error %g over %zu elements", sqrt(difference) / norm, n);
    return text;
}

void forward_close(const forward *f, const float *out, const double *ref, size_t n)
{
    char text[200];
    if (wrong(f, out, ref, n, text))
        fail_msg("rank %d: %s (seed %llu)", support_rank(), text,
                 (unsigned long long)support_seed());
}

void forward_same_on_all(const float *out, size_t n)
{
    if (support_size() == 1)
        return;
    float *first = support_alloc_floats(n);
    if (support_rank() == 0)
        memcpy(first, out, n * sizeof *out);
    MPI_Bcast(first, (int)n, MPI_FLOAT, 0, MPI_COMM_WORLD);
    assert_same_floats(out, first, n);
    free(first);
}

static void check_values(const forward *f, size_t rows, const float *out, const double *ref,
                         size_t n)
{
    char text[200];
    if (wrong(f, out, ref, n, text))
        describe(f, rows, "values");
    forward_close(f, out, ref, n);
}

void forward_check(forward *f, size_t rows, forward_residual residual)
{
    parlin_device *device = parlin_group_device(f->group);
    size_t in = input_list(f, NULL), cols = output_cols(f);
    size_t full = layers_out(&f->c) / (f->c.gated ? 2 : 1);
    float *x = support_alloc_floats(rows * f->c.in), *own_x = support_alloc_floats(rows * in);
    float *added = support_alloc_floats(rows * full), *own = support_alloc_floats(rows * cols);
    float *out = support_alloc_floats(rows * cols), *again = support_alloc_floats(rows * cols);
    double *ref = support_alloc(rows * cols * sizeof *ref);
    size_t *list = support_alloc(layers_out(&f->c) * sizeof *list);
    forward_numbers(f, x, rows * f->c.in);
    forward_numbers(f, added, rows * full);
    forward_own_input(f, rows, x, own_x);
    product_columns(f, list);
    for (size_t i = 0; i < rows * cols; i++)
        own[i] = added[i / cols * full + list[i % cols]];

    view vx = view_random(device, &f->own, rows, 1, in);
    view vy = view_random(device, &f->own, rows, 1, cols);
    view vr = view_random(device, &f->own, rows, 1, cols);
    view_write(&vx, own_x);
    view_write(&vr, own);
    for (int call = 0; call < 2; call++) {
        view_poison(&vy);
        if (residual == RESIDUAL_IN_PLACE)
            view_write(&vy, own);
        parlin_status status =
            residual == NO_RESIDUAL
                ? parlin_layer_forward(f->layer, vx.tensor, vy.tensor)
                : parlin_layer_forward_residual(f->layer, vx.tensor,
                                                residual == RESIDUAL_APART ? vr.tensor : vy.tensor,
                                                vy.tensor);
        if (status)
            describe(f, rows, "forward");
        assert_ok(status);
        view_read(&vy, call ? again : out);
        view_unchanged(&vx);
        view_unchanged(&vr);
    }
    forward_expected(f, rows, x, residual ? added : NULL, ref);
    check_values(f, rows, out, ref, rows * cols);
    assert_same_floats(again, out, rows * cols);
    if (parlin_group_size(f->group) == support_size() &&
        (f->c.gather_output || (f->c.kind == PARLIN_ROW && !f->c.partial)))
        forward_same_on_all(out, rows * cols);

    view_free(&vx);
    view_free(&vy);
    view_free(&vr);
    free(x);
    free(own_x);
    free(added);
    free(own);
    free(out);
    free(again);
    free(ref);
    free(list);
}

void forward_check_heads(forward *f, view q, view k, view v)
{
    view *part[3] = {&q, &k, &v};
    size_t rows = q.heads.rows, in = f->c.in, cols = output_cols(f);
    float *x = support_alloc_floats(rows * in), *out = support_alloc_floats(rows * cols);
    float *some = support_alloc_floats(rows * cols), *again = support_alloc_floats(rows * cols);
    double *ref = support_alloc(rows * cols * sizeof *ref);
    forward_numbers(f, x, rows * in);
    view vx = view_random(parlin_group_device(f->group), &f->own, rows, 1, in);
    view_write(&vx, x);
    for (int call = 0; call < 2; call++) {
        for (int i = 0; i < 3; i++)
            view_poison(part[i]);
        parlin_status status = parlin_qkv_forward(f->layer, vx.tensor, q.heads, k.heads, v.heads);
        if (status)
            describe(f, rows, "qkv forward");
        assert_ok(status);
        for (size_t i = 0, start = 0; i < 3; i++) {
            size_t width = part[i]->heads.heads * part[i]->heads.head_size;
            view_read(part[i], some);
            for (size_t j = 0; j < rows * width; j++)
                (call ? again : out)[j / width * cols + start + j % width] = some[j];
            start += width;
        }
        view_unchanged(&vx);
    }
    forward_expected(f, rows, x, NULL, ref);
    check_values(f, rows, out, ref, rows * cols);
    assert_same_floats(again, out, rows * cols);
    view_free(&vx);
    for (int i = 0; i < 3; i++)
        view_free(part[i]);
    free(x);
    free(out);
    free(some);
    free(again);
    free(ref);
}

void forward_case(parlin_group *group, const layers_case *c, uint64_t salt, bool integers, int more)
{
    forward f = forward_begin(group, c, salt, integers);
    int residuals = c->kind == PARLIN_QKV || c->partial ? 1 : 3;
    for (int residual = 0; residual < residuals; residual++) {
        forward_check(&f, 1, (forward_residual)residual);
        for (int i = 0; i < more; i++)
            forward_check(&f, forward_rows(&f.random, c->in, layers_out(c)),
                          (forward_residual)residual);
    }
    forward_end(&f);
}

size_t forward_size(support_random *random, size_t least)
{
    static const size_t sizes[] = {1, 3, 17, 129, 1000};
    size_t size;
    do
        size = sizes[support_below(random, 5)];
    while (size < least);
    return size;
}

size_t forward_rows(support_random *random, size_t in, size_t out)
{
    static const size_t rows[] = {0, 2, 3, 5, 17, 64, 129};
    size_t n;
    do
        n = rows[support_below(random, 7)];
    while (n * in * out > 4000000);
    return n;
}
