/* SPDX-License-Identifier: Apache-2.0 */
/* Forwards that are refused: status, sentence, nothing written, and the next call is right. */
#include "forward.h"

#include <stdio.h>
#include <stdlib.h>

#include <parlin/opencl.h>

enum { ROWS = 4, OFFSET = 5, PAD = 3 };

/* Good views of one layer; each wrong call changes a copy. Sizes as rank 0 has them where the
   layer is collective: its sentence is handed to all. */
typedef struct bench {
    forward f;
    view x, y, residual;
    size_t in, cols;           /* here */
    size_t told_in, told_cols; /* in the sentence */
} bench;

static bench bench_begin(const layers_case *c)
{
    bench b = {.f = forward_begin(support_group(), c, 4000, false)};
    parlin_device *device = parlin_group_device(b.f.group);
    parlin_layer_info info = parlin_layer_get_info(b.f.layer);
    b.in = b.told_in = info.input_cols;
    b.cols = b.told_cols = info.output_cols;
    if (info.collective && c->kind == PARLIN_ROW && !c->whole_input)
        b.told_in = layers_cols(c, (size_t)support_size(), 0, NULL);
    size_t room = ROWS * (b.cols + b.in + 20); /* for a y within x's buffer */
    b.x = view_at(device, ROWS, 1, b.in, OFFSET, b.in + PAD, 1, room);
    b.y = view_at(device, ROWS, 1, b.cols, OFFSET, b.cols + PAD, 1, room);
    b.residual = view_at(device, ROWS, 1, b.cols, OFFSET, b.cols + PAD, 1, room);
    return b;
}

static void unchanged(const bench *b)
{
    view_unchanged(&b->x);
    view_unchanged(&b->y);
    view_unchanged(&b->residual);
}

static void bench_end(bench *b)
{
    unchanged(b);
    forward_check(&b->f, ROWS, NO_RESIDUAL);
    view_free(&b->x);
    view_free(&b->y);
    view_free(&b->residual);
    forward_end(&b->f);
}

static const char *shape(char text[64], size_t rows, size_t cols)
{
    snprintf(text, 64, "(%zu, %zu)", rows, cols);
    return text;
}

/* "forward of column layer 'c': x" */
static const char *label(char text[96], const bench *b, const char *tensor)
{
    static const char *const kinds[] = {"?", "column", "merged", "qkv", "row"};
    snprintf(text, 96, "forward of %s layer '%s': %s", kinds[b->f.c.kind], b->f.c.name, tensor);
    return text;
}

#define REFUSED(b, call, status, ...)                                                              \
    do {                                                                                           \
        assert_refused(call, status, (b)->f.c.name, __VA_ARGS__);                                  \
        unchanged(b);                                                                              \
    } while (0)

/* Everything that can be wrong with one tensor; `which` is 0 x, 1 y, 2 residual. */
static void wrong_tensor(bench *b, int which, cl_mem foreign)
{
    static const char *const names[] = {"x", "y", "residual"};
    const parlin_tensor good = which == 0   ? b->x.tensor
                               : which == 1 ? b->y.tensor
                                            : b->residual.tensor;
    size_t cols = which == 0 ? b->told_in : b->told_cols;
    char what[96], given[64], wanted[64];
    parlin_tensor bad = good;
    label(what, b, names[which]);
#define CALL                                                                                       \
    (which == 0   ? parlin_layer_forward(b->f.layer, bad, b->y.tensor)                             \
     : which == 1 ? parlin_layer_forward(b->f.layer, b->x.tensor, bad)                             \
                  : parlin_layer_forward_residual(b->f.layer, b->x.tensor, bad, b->y.tensor))

    bad.cols = good.cols + 1;
    REFUSED(b, CALL, PARLIN_ERROR_SHAPE, what, shape(given, ROWS, cols + 1),
            shape(wanted, ROWS, cols));
    bad.cols = good.cols - 1;
    REFUSED(b, CALL, PARLIN_ERROR_SHAPE, what, shape(given, ROWS, cols - 1),
            shape(wanted, ROWS, cols));
    bad = good;
    bad.rows = ROWS - 1; /* x tells how many rows y must have */
    if (which == 0)
        REFUSED(b, CALL, PARLIN_ERROR_SHAPE, label(what, b, "y"), shape(given, ROWS, b->told_cols),
                shape(wanted, ROWS - 1, b->told_cols));
    else
        REFUSED(b, CALL, PARLIN_ERROR_SHAPE, what, shape(given, ROWS - 1, cols),
                shape(wanted, ROWS, cols));
    bad.rows = 0;
    REFUSED(b, CALL, PARLIN_ERROR_SHAPE, "(0, ");
    label(what, b, names[which]);

    bad = good;
    bad.row_stride = good.cols - 1;
    snprintf(given, sizeof given, "stride %zu", cols - 1);
    snprintf(wanted, sizeof wanted, "%zu", cols);
    REFUSED(b, CALL, PARLIN_ERROR_SHAPE, what, given, wanted);

    bad = good;
    bad.offset = b->x.n + b->y.n; /* beyond the end of either buffer */
    REFUSED(b, CALL, PARLIN_ERROR_SHAPE, what, "buffer");
    bad.offset = SIZE_MAX / 2;
    REFUSED(b, CALL, PARLIN_ERROR_SHAPE, what, "buffer");
    bad = good;
    bad.row_stride = SIZE_MAX / 3;
    REFUSED(b, CALL, PARLIN_ERROR_SHAPE, what, "buffer");
    bad.row_stride = SIZE_MAX / 4 + 2; /* wraps to a few bytes */
    REFUSED(b, CALL, PARLIN_ERROR_SHAPE, what, "buffer");

    bad = good;
    bad.dtype = PARLIN_F16;
    REFUSED(b, CALL, PARLIN_ERROR_ARGUMENT, what, "f16", "f32");
    bad.dtype = PARLIN_DTYPE_DEFAULT;
    REFUSED(b, CALL, PARLIN_ERROR_ARGUMENT, what, "dtype 0");
    bad.dtype = (parlin_dtype)77;
    REFUSED(b, CALL, PARLIN_ERROR_ARGUMENT, what, "dtype 77");

    bad = good;
    bad.buffer = NULL;
    REFUSED(b, CALL, PARLIN_ERROR_ARGUMENT, what, "no buffer");
    bad.buffer = foreign;
    REFUSED(b, CALL, PARLIN_ERROR_ARGUMENT, what, "context");

    bad = parlin_tensor_rows(good, 3, 2);
    REFUSED(b, CALL, PARLIN_ERROR_SHAPE, what, "2 rows from 3 on", "4 rows");
    bad = parlin_tensor_rows(good, SIZE_MAX, 1);
    REFUSED(b, CALL, PARLIN_ERROR_SHAPE, what, "rows");
    bad = parlin_tensor_cols(good, 1, good.cols);
    snprintf(wanted, sizeof wanted, "%zu columns", cols);
    REFUSED(b, CALL, PARLIN_ERROR_SHAPE, what, "from 1 on", wanted);
    /* a slice of a refused view is refused too */
    bad = parlin_tensor_cols(parlin_tensor_rows(good, 3, 2), 0, good.cols);
    REFUSED(b, CALL, PARLIN_ERROR_SHAPE, what, "2 rows from 3 on");
#undef CALL
}

static void wrong_overlaps(bench *b)
{
    parlin_layer *layer = b->f.layer;
    parlin_tensor x = b->x.tensor, y = b->y.tensor, residual = b->residual.tensor;
    y.buffer = x.buffer;
    REFUSED(b, parlin_layer_forward(layer, x, y), PARLIN_ERROR_ARGUMENT, "y overlaps x");
    y.offset = x.offset + b->in - 1; /* the last element of x's first row */
    y.row_stride = x.row_stride > y.cols ? x.row_stride : y.cols;
    REFUSED(b, parlin_layer_forward(layer, x, y), PARLIN_ERROR_ARGUMENT, "y overlaps x");

    y = b->y.tensor;
    residual.buffer = y.buffer;
    residual.offset = y.offset + 1;
    if (b->cols > 1)
        REFUSED(b, parlin_layer_forward_residual(layer, x, residual, y), PARLIN_ERROR_ARGUMENT,
                "residual overlaps y");
    residual.offset = y.offset + y.row_stride; /* y's rows, one later */
    REFUSED(b, parlin_layer_forward_residual(layer, x, residual, y), PARLIN_ERROR_ARGUMENT,
            "residual overlaps y");
}

static cl_mem foreign_buffer(cl_context *context)
{
    cl_device_id id = parlin_device_id(parlin_group_device(support_group()));
    cl_int code;
    *context = clCreateContext(NULL, 1, &id, NULL, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    cl_mem buffer = clCreateBuffer(*context, CL_MEM_READ_WRITE, 1 << 16, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    return buffer;
}

static const layers_case cases[] = {
    {.kind = PARLIN_COLUMN, .in = 7, .out = 20, .bias = true, .name = "c1"},
    {.kind = PARLIN_COLUMN, .in = 7, .out = 20, .gather_output = true, .name = "c2"},
    {.kind = PARLIN_MERGED, .in = 7, .parts = 3, .part_out = {9, 20, 11}, .name = "m1"},
    {.kind = PARLIN_MERGED,
     .in = 7,
     .parts = 2,
     .part_out = {17, 17},
     .gather_output = true,
     .gated = true,
     .activation = PARLIN_SILU,
     .name = "m2"},
    {.kind = PARLIN_ROW, .in = 20, .out = 7, .bias = true, .name = "r1"},
    {.kind = PARLIN_ROW, .in = 20, .out = 7, .bias = true, .whole_input = true, .name = "r2"},
    {.kind = PARLIN_ROW, .in = 20, .out = 7, .partial = true, .name = "r3"},
    {.kind = PARLIN_QKV, .in = 7, .heads = 8, .kv_heads = 4, .head_size = 2, .name = "q1"},
};
#define CASES (sizeof cases / sizeof *cases)

static void test_wrong_tensors(void **state)
{
    (void)state;
    cl_context context;
    cl_mem foreign = foreign_buffer(&context);
    for (size_t i = 0; i < CASES; i++) {
        bench b = bench_begin(&cases[i]);
        wrong_tensor(&b, 0, foreign);
        wrong_tensor(&b, 1, foreign);
        if (cases[i].kind != PARLIN_QKV && !cases[i].partial) {
            wrong_tensor(&b, 2, foreign);
            wrong_overlaps(&b);
        }
        bench_end(&b);
    }
    clReleaseMemObject(foreign);
    clReleaseContext(context);
}

static void test_residual_where_it_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        bench b = bench_begin(&cases[i]);
        parlin_status status = PARLIN_SUCCESS;
        if (cases[i].kind == PARLIN_QKV || cases[i].partial) {
            status =
                parlin_layer_forward_residual(b.f.layer, b.x.tensor, b.residual.tensor, b.y.tensor);
            REFUSED(&b, status, PARLIN_ERROR_ARGUMENT, "residual",
                    cases[i].partial ? "reduce_results" : "qkv");
        }
        bench_end(&b);
    }
}

/* x may be the residual: both are only read. */
static void test_residual_may_be_x(void **state)
{
    (void)state;
    layers_case c = {.kind = PARLIN_ROW, .in = 17, .out = 17, .bias = true, .whole_input = true};
    forward f = forward_begin(support_group(), &c, 4100, true);
    float x[2 * 17], out[2 * 17];
    double ref[2 * 17];
    forward_numbers(&f, x, 2 * 17);
    view vx = view_at(parlin_group_device(f.group), 2, 1, 17, 1, 20, 1, 3);
    view vy = view_at(parlin_group_device(f.group), 2, 1, 17, 2, 18, 1, 4);
    view_write(&vx, x);
    assert_ok(parlin_layer_forward_residual(f.layer, vx.tensor, vx.tensor, vy.tensor));
    view_read(&vy, out);
    view_unchanged(&vx);
    forward_expected(&f, 2, x, x, ref);
    forward_close(&f, out, ref, 2 * 17);
    view_free(&vx);
    view_free(&vy);
    forward_end(&f);
}

static void test_no_layer(void **state)
{
    (void)state;
    parlin_tensor t = {0};
    parlin_heads h = {0};
    size_t start = 77, length = 78;
    assert_refused(parlin_layer_forward(NULL, t, t), PARLIN_ERROR_ARGUMENT, "parlin_layer_forward",
                   "NULL");
    assert_refused(parlin_layer_forward_residual(NULL, t, t, t), PARLIN_ERROR_ARGUMENT, "NULL");
    assert_refused(parlin_qkv_forward(NULL, t, h, h, h), PARLIN_ERROR_ARGUMENT,
                   "parlin_qkv_forward", "NULL");
    assert_refused(parlin_layer_output(NULL, 1, &t), PARLIN_ERROR_ARGUMENT, "parlin_layer_output",
                   "NULL");
    assert_refused(parlin_layer_bias(NULL, &t), PARLIN_ERROR_ARGUMENT, "parlin_layer_bias", "NULL");
    assert_refused(parlin_layer_part(NULL, 0, &start, &length), PARLIN_ERROR_ARGUMENT,
                   "parlin_layer_part", "NULL");
    assert_int_equal(start, 77);
    assert_int_equal(length, 78);
    assert_null(t.buffer);
    assert_int_equal(parlin_qkv_local(NULL).heads, 0);
    assert_int_equal(parlin_qkv_kv_head(NULL, 0), SIZE_MAX);
    assert_int_equal(parlin_layer_get_info(NULL).in_features, 0);
    parlin_layer_destroy(NULL);
}

/* Queries that a layer cannot answer. */
static void test_wrong_queries(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        parlin_layer *layer = layers_create(support_group(), &cases[i]);
        parlin_tensor bias = {.offset = 5};
        size_t start = 77, length = 78, parts = layers_parts(&cases[i]);
        char given[32];
        snprintf(given, sizeof given, "part %zu", parts);
        assert_refused(parlin_layer_part(layer, parts, &start, &length), PARLIN_ERROR_ARGUMENT,
                       cases[i].name, given);
        assert_int_equal(start, 77);
        assert_int_equal(length, 78);
        assert_refused(parlin_layer_bias(layer, &bias), PARLIN_ERROR_STATE, cases[i].name, "bias");
        assert_int_equal(bias.offset, 5);
        assert_refused(parlin_layer_bias(layer, NULL), PARLIN_ERROR_ARGUMENT, "NULL");
        assert_refused(parlin_layer_output(layer, 1, NULL), PARLIN_ERROR_ARGUMENT, "NULL");
        if (cases[i].kind != PARLIN_QKV) {
            assert_int_equal(parlin_qkv_local(layer).heads, 0);
            assert_int_equal(parlin_qkv_kv_head(layer, 0), SIZE_MAX);
        }
        parlin_layer_destroy(layer);
    }
    layers_case skipped = cases[0];
    skipped.bias = skipped.skip_bias_add = true;
    parlin_layer *layer = layers_create(support_group(), &skipped);
    parlin_tensor bias = {.offset = 5};
    assert_refused(parlin_layer_bias(layer, &bias), PARLIN_ERROR_STATE, "c1", "bias",
                   "never loaded");
    assert_int_equal(bias.offset, 5);
    parlin_layer_destroy(layer);
}

/* A part that was never loaded is named, on every rank, and the output stays as it was. */
static void test_never_loaded(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        layers_case c = cases[i];
        c.bias = !c.partial;
        forward f = forward_begin(support_group(), &c, 4200, false);
        parlin_layer *empty = layers_create(support_group(), &c);
        parlin_layer_info info = parlin_layer_get_info(empty);
        parlin_device *device = parlin_group_device(f.group);
        view x = view_at(device, ROWS, 1, info.input_cols, 0, info.input_cols, 1, 0);
        view y = view_at(device, ROWS, 1, info.output_cols, 0, info.output_cols, 1, 0);
        size_t last = layers_parts(&c) - 1;
        for (size_t part = 0; part <= last; part++) {
            char name[32] = "the weight";
            if (c.kind == PARLIN_QKV)
                snprintf(name, sizeof name, "part %c", "qkv"[part]);
            else if (c.kind == PARLIN_MERGED)
                snprintf(name, sizeof name, "part %zu", part);
            assert_refused(parlin_layer_forward(empty, x.tensor, y.tensor), PARLIN_ERROR_STATE,
                           c.name, "weight", name);
            view_unchanged(&y);
            assert_ok(
                parlin_layer_load(empty, PARLIN_WEIGHT, layers_shard(&c, part),
                                  parlin_host_2d(f.weight + layers_part_start(&c, part) * c.in,
                                                 PARLIN_F32, layers_part_rows(&c, part), c.in)));
        }
        if (c.bias)
            assert_refused(parlin_layer_forward(empty, x.tensor, y.tensor), PARLIN_ERROR_STATE,
                           c.name, "bias");
        view_unchanged(&y);
        layers_load(empty, &c, f.weight, f.bias);
        parlin_layer *whole = f.layer;
        f.layer = empty;
        forward_check(&f, 3, NO_RESIDUAL);
        f.layer = whole;
        parlin_layer_destroy(empty);
        view_free(&x);
        view_free(&y);
        forward_end(&f);
    }
}

/* --- three views of heads --- */

typedef struct trio {
    bench b;
    view q, k, v;
} trio;

static void trio_unchanged(const trio *t)
{
    view_unchanged(&t->q);
    view_unchanged(&t->k);
    view_unchanged(&t->v);
    unchanged(&t->b);
}

#define HEADS_REFUSED(t, call, status, ...)                                                        \
    do {                                                                                           \
        assert_refused(call, status, __VA_ARGS__);                                                 \
        trio_unchanged(t);                                                                         \
    } while (0)

static parlin_status call_with(const trio *t, int which, parlin_heads bad)
{
    return parlin_qkv_forward(t->b.f.layer, t->b.x.tensor, which == 0 ? bad : t->q.heads,
                              which == 1 ? bad : t->k.heads, which == 2 ? bad : t->v.heads);
}

static void wrong_heads(const trio *t, int which)
{
    static const char *const names[] = {"q", "k", "v"};
    const parlin_heads good = which == 0 ? t->q.heads : which == 1 ? t->k.heads : t->v.heads;
    parlin_heads bad = good;
    char what[96], given[64], wanted[64];
    label(what, &t->b, names[which]);
    snprintf(wanted, sizeof wanted, "(%d, %zu, %zu)", ROWS, good.heads, good.head_size);
#define CHECK(status, ...) HEADS_REFUSED(t, call_with(t, which, bad), status, what, __VA_ARGS__)
#define CHECK_SHAPE()                                                                              \
    do {                                                                                           \
        snprintf(given, sizeof given, "(%zu, %zu, %zu)", bad.rows, bad.heads, bad.head_size);      \
        CHECK(PARLIN_ERROR_SHAPE, given, wanted);                                                  \
        bad = good;                                                                                \
    } while (0)
    bad.rows = ROWS - 1;
    CHECK_SHAPE();
    bad.rows = 0;
    CHECK_SHAPE();
    bad.heads = good.heads - 1;
    CHECK_SHAPE();
    bad.head_size = good.head_size - 1;
    CHECK_SHAPE();
    bad.heads = 0;
    CHECK_SHAPE();
#undef CHECK_SHAPE
    bad.head_stride = good.head_size - 1; /* heads would lie on each other */
    CHECK(PARLIN_ERROR_SHAPE, "stride");
    bad = good;
    bad.row_stride = good.head_stride; /* neither token-major nor head-major */
    CHECK(PARLIN_ERROR_SHAPE, "stride");
    bad = good;
    bad.row_stride = 0;
    CHECK(PARLIN_ERROR_SHAPE, "stride");
    bad = good;
    bad.offset = t->q.n + t->k.n;
    CHECK(PARLIN_ERROR_SHAPE, "buffer");
    bad.offset = SIZE_MAX / 2;
    CHECK(PARLIN_ERROR_SHAPE, "buffer");
    bad = good;
    bad.head_stride = SIZE_MAX / 5;
    CHECK(PARLIN_ERROR_SHAPE, what);
    bad = good;
    bad.buffer = NULL;
    CHECK(PARLIN_ERROR_ARGUMENT, "no buffer");
    bad = good;
    bad.dtype = PARLIN_BF16;
    CHECK(PARLIN_ERROR_ARGUMENT, "bf16", "f32");
    bad.dtype = (parlin_dtype)-3;
    CHECK(PARLIN_ERROR_ARGUMENT, "dtype -3");
    /* heads of a tensor that is not so wide */
    parlin_tensor tensor = parlin_tensor_wrap(good.buffer, PARLIN_F32, 0, ROWS,
                                              good.heads * good.head_size + 1, good.row_stride);
    bad = parlin_tensor_heads(tensor, good.heads, good.head_size);
    snprintf(given, sizeof given, "%zu columns", good.heads * good.head_size + 1);
    snprintf(wanted, sizeof wanted, "%zu heads of %zu", good.heads, good.head_size);
    CHECK(PARLIN_ERROR_SHAPE, given, wanted);
#undef CHECK
}

static void test_wrong_heads(void **state)
{
    (void)state;
    layers_case c = {.kind = PARLIN_QKV,
                     .in = 7,
                     .heads = 40,
                     .kv_heads = 20,
                     .head_size = 3,
                     .v_head_size = 4,
                     .bias = true,
                     .name = "q2"};
    trio t = {.b = bench_begin(&c)};
    parlin_device *device = parlin_group_device(t.b.f.group);
    parlin_qkv_shape s = parlin_qkv_local(t.b.f.layer);
    size_t heads = s.heads, kv = s.kv_heads;
    t.q = view_at(device, ROWS, heads, 3, 1, heads * 3 + 6, 3, 900);
    t.k = view_at(device, ROWS, kv, 3, 2, kv * 3 + 6, 3, 900);
    t.v = view_at(device, ROWS, kv, 4, 3, kv * 4 + 6, 4, 900);
    for (int which = 0; which < 3; which++)
        wrong_heads(&t, which);

    /* on each other, on x */
    parlin_heads bad = t.k.heads;
    bad.buffer = t.q.heads.buffer;
    HEADS_REFUSED(&t, call_with(&t, 1, bad), PARLIN_ERROR_ARGUMENT, "q2", "k overlaps q");
    bad = t.v.heads;
    bad.buffer = t.q.heads.buffer;
    HEADS_REFUSED(&t, call_with(&t, 2, bad), PARLIN_ERROR_ARGUMENT, "q2", "v overlaps q");
    bad = t.v.heads;
    bad.buffer = t.k.heads.buffer;
    HEADS_REFUSED(&t, call_with(&t, 2, bad), PARLIN_ERROR_ARGUMENT, "q2", "v overlaps k");
    bad = t.q.heads;
    bad.buffer = t.b.x.tensor.buffer;
    HEADS_REFUSED(&t, call_with(&t, 0, bad), PARLIN_ERROR_ARGUMENT, "q2", "q overlaps x");

    /* a wrong x, and another kind of layer */
    parlin_tensor x = t.b.x.tensor;
    x.cols--;
    HEADS_REFUSED(&t, parlin_qkv_forward(t.b.f.layer, x, t.q.heads, t.k.heads, t.v.heads),
                  PARLIN_ERROR_SHAPE, "q2", "x is (4, 6)", "(4, 7)");
    parlin_layer *column = layers_create(support_group(), &cases[0]);
    HEADS_REFUSED(&t, parlin_qkv_forward(column, t.b.x.tensor, t.q.heads, t.k.heads, t.v.heads),
                  PARLIN_ERROR_ARGUMENT, "c1", "qkv");
    parlin_layer_destroy(column);

    forward_check_heads(&t.b.f, t.q, t.k, t.v); /* frees them */
    bench_end(&t.b);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_tensors),
        cmocka_unit_test(test_residual_where_it_is_refused),
        cmocka_unit_test(test_residual_may_be_x),
        cmocka_unit_test(test_no_layer),
        cmocka_unit_test(test_wrong_queries),
        cmocka_unit_test(test_never_loaded),
        cmocka_unit_test(test_wrong_heads),
    };
    return SUPPORT_RUN_MPI("layers: refused forwards", tests);
}
