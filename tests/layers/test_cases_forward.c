/* SPDX-License-Identifier: Apache-2.0 */
/* Cases C14 (no rows), C15 (ranks that disagree, memory that one rank cannot have) and C26
   (outputs are not read). */
#include "forward.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "device/device.h"

/* Sizes 33 and 2 as in C26; enough units for 8 ranks. */
static const layers_case cases[] = {
    {.kind = PARLIN_COLUMN, .in = 2, .out = 33, .bias = true, .name = "column"},
    {.kind = PARLIN_COLUMN, .in = 2, .out = 33, .name = "column without bias"},
    {.kind = PARLIN_COLUMN,
     .in = 2,
     .out = 33,
     .bias = true,
     .gather_output = true,
     .name = "gathered"},
    {.kind = PARLIN_COLUMN, .in = 2, .out = 33, .activation = PARLIN_RELU, .name = "activated"},
    {.kind = PARLIN_MERGED,
     .in = 2,
     .parts = 2,
     .part_out = {33, 17},
     .bias = true,
     .name = "merged"},
    {.kind = PARLIN_MERGED,
     .in = 2,
     .parts = 2,
     .part_out = {33, 17},
     .gather_output = true,
     .name = "merged gathered"},
    {.kind = PARLIN_MERGED,
     .in = 2,
     .parts = 2,
     .part_out = {33, 33},
     .gated = true,
     .activation = PARLIN_RELU,
     .bias = true,
     .name = "gated"},
    {.kind = PARLIN_QKV, .in = 2, .heads = 11, .head_size = 3, .bias = true, .name = "qkv"},
    {.kind = PARLIN_QKV, .in = 2, .heads = 8, .kv_heads = 4, .head_size = 3, .name = "qkv shared"},
    {.kind = PARLIN_ROW, .in = 33, .out = 33, .bias = true, .name = "row"},
    {.kind = PARLIN_ROW,
     .in = 16,
     .out = 33,
     .whole_input = true,
     .bias = true,
     .name = "row whole"},
    {.kind = PARLIN_ROW, .in = 16, .out = 33, .partial = true, .name = "row partial"},
};
#define CASES (sizeof cases / sizeof *cases)

/* --- C14 --- */

static void no_rows(forward *f)
{
    parlin_device *device = parlin_group_device(f->group);
    parlin_layer_info info = parlin_layer_get_info(f->layer);
    parlin_tensor y = {0};
    assert_ok(parlin_layer_output(f->layer, 0, &y));
    assert_int_equal(y.rows, 0);
    assert_int_equal(y.cols, info.output_cols);
    assert_null(y.buffer);
    parlin_tensor x = parlin_tensor_wrap(NULL, PARLIN_F32, 0, 0, info.input_cols, info.input_cols);
    parlin_device_counters before = parlin_device_get_counters(device);
    assert_ok(parlin_layer_forward(f->layer, x, y));
    if (f->c.kind != PARLIN_QKV && !f->c.partial)
        assert_ok(parlin_layer_forward_residual(f->layer, x, y, y));
    if (f->c.kind == PARLIN_QKV) {
        parlin_qkv_shape s = parlin_qkv_local(f->layer);
        size_t k = s.kv_heads * s.head_size, q = s.heads * s.head_size;
        assert_ok(parlin_qkv_forward(
            f->layer, x,
            parlin_heads_wrap(NULL, PARLIN_F32, 0, 0, s.heads, s.head_size, q, s.head_size),
            parlin_heads_wrap(NULL, PARLIN_F32, 0, 0, s.kv_heads, s.head_size, k, s.head_size),
            parlin_heads_wrap(NULL, PARLIN_F32, 0, 0, s.kv_heads, s.v_head_size, k,
                              s.v_head_size)));
    }
    parlin_device_counters after = parlin_device_get_counters(device);
    assert_int_equal(after.launches, before.launches);
    assert_int_equal(after.buffers_created, before.buffers_created);

    /* a buffer may be there too, and is not touched */
    view vx = view_at(device, 0, 1, info.input_cols, 3, info.input_cols, 1, 20);
    view vy = view_at(device, 0, 1, info.output_cols, 3, info.output_cols, 1, 20);
    assert_ok(parlin_layer_forward(f->layer, vx.tensor, vy.tensor));
    view_unchanged(&vx);
    view_unchanged(&vy);
    view_free(&vx);
    view_free(&vy);
    parlin_tensor_destroy(&y);
}

static void case_C14_no_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        forward f = forward_begin(support_group(), &cases[i], 6000 + i, true);
        no_rows(&f); /* as the very first call */
        forward_check(&f, 1, NO_RESIDUAL);
        no_rows(&f);
        no_rows(&f);
        forward_check(&f, 33, NO_RESIDUAL);
        forward_end(&f);
    }
}

/* --- C15 --- */

static bool is_collective(const layers_case *c)
{
    return c->gather_output || (c->kind == PARLIN_ROW && !c->partial);
}

/* Rank 0 calls with `rows0` rows, rank `other` with `rows1`, the rest as rank 0. */
static void disagree(forward *f, int other, size_t rows0, size_t rows1)
{
    parlin_device *device = parlin_group_device(f->group);
    parlin_layer_info info = parlin_layer_get_info(f->layer);
    size_t rows = support_rank() == other ? rows1 : rows0;
    view x = view_random(device, &f->own, rows, 1, info.input_cols);
    view y = view_random(device, &f->own, rows, 1, info.output_cols);
    char given[3][32];
    snprintf(given[0], sizeof given[0], "rows %zu", rows0);
    snprintf(given[1], sizeof given[1], "rows %zu", rows1);
    snprintf(given[2], sizeof given[2], "rank %d", other);
    assert_refused(parlin_layer_forward(f->layer, x.tensor, y.tensor), PARLIN_ERROR_MISMATCH,
                   f->c.name, given[0], given[1], "rank 0", given[2]);
    layers_check_same_sentence(support_size());
    view_unchanged(&x);
    view_unchanged(&y);
    view_free(&x);
    view_free(&y);
}

static void case_C15_ranks_disagree(void **state)
{
    (void)state;
    if (support_size() == 1)
        SUPPORT_SKIP("needs two ranks");
    for (size_t i = 0; i < CASES; i++) {
        if (!is_collective(&cases[i]))
            continue;
        forward f = forward_begin(support_group(), &cases[i], 6100 + i, true);
        forward_check(&f, 2, NO_RESIDUAL);
        disagree(&f, 1, 3, 4);
        forward_check(&f, 3, NO_RESIDUAL);
        disagree(&f, support_size() - 1, 1, 0);
        disagree(&f, support_size() - 1, 0, 1);
        forward_check(&f, 1, RESIDUAL_IN_PLACE);
        forward_end(&f);
    }
}

/* Two layers of one shape are two layers; with and without residual are two calls. */
static void case_C15_another_layer_on_one_rank(void **state)
{
    (void)state;
    if (support_size() == 1)
        SUPPORT_SKIP("needs two ranks");
    layers_case c = {.kind = PARLIN_ROW, .in = 16, .out = 5, .name = "one"};
    forward one = forward_begin(support_group(), &c, 6200, true);
    c.name = "two";
    forward two = forward_begin(support_group(), &c, 6201, true);
    parlin_device *device = parlin_group_device(one.group);
    size_t in = parlin_layer_get_info(one.layer).input_cols;
    view x = view_at(device, 2, 1, in, 0, in, 1, 0), y = view_at(device, 2, 1, 5, 0, 5, 1, 0);
    assert_refused(parlin_layer_forward(support_rank() ? two.layer : one.layer, x.tensor, y.tensor),
                   PARLIN_ERROR_MISMATCH, "'one'", "'two'");
    view_unchanged(&y);
    parlin_status status =
        support_rank() ? parlin_layer_forward(one.layer, x.tensor, y.tensor)
                       : parlin_layer_forward_residual(one.layer, x.tensor, y.tensor, y.tensor);
    assert_refused(status, PARLIN_ERROR_MISMATCH, "'one'", "residual");
    view_unchanged(&y);
    forward_check(&one, 2, NO_RESIDUAL);
    forward_check(&two, 2, NO_RESIDUAL);
    view_free(&x);
    view_free(&y);
    forward_end(&one);
    forward_end(&two);
}

/* One rank's tensor is refused there; all ranks return, name it, and go on. */
static void case_C15_one_rank_is_refused(void **state)
{
    (void)state;
    if (support_size() == 1)
        SUPPORT_SKIP("needs two ranks");
    for (size_t i = 0; i < CASES; i++) {
        if (!is_collective(&cases[i]))
            continue;
        forward f = forward_begin(support_group(), &cases[i], 6300 + i, true);
        parlin_device *device = parlin_group_device(f.group);
        parlin_layer_info info = parlin_layer_get_info(f.layer);
        view x = view_random(device, &f.own, 3, 1, info.input_cols);
        view y = view_random(device, &f.own, 3, 1, info.output_cols);
        for (int bad = 0; bad < support_size(); bad += support_size() - 1) {
            parlin_tensor wrong = y.tensor;
            char name[32];
            snprintf(name, sizeof name, "rank %d: ", bad);
            if (support_rank() == bad)
                wrong.cols++;
            assert_refused(parlin_layer_forward(f.layer, x.tensor, wrong), PARLIN_ERROR_SHAPE, name,
                           f.c.name, ": y");
            layers_check_same_sentence(support_size());
            view_unchanged(&y);
            view_unchanged(&x);
            forward_check(&f, 3, NO_RESIDUAL);
        }
        view_free(&x);
        view_free(&y);
        forward_end(&f);
    }
}

/* The device of one rank has no memory for the weight, then none for the bias. */
static void case_C15_creation_without_memory(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    parlin_device *device = parlin_group_device(group);
    int bad = support_size() - 1;
    char name[32] = "";
    if (support_size() > 1)
        snprintf(name, sizeof name, "rank %d: ", bad);
    for (size_t i = 0; i < CASES; i++)
        for (unsigned after = 1; after <= (cases[i].bias ? 2u : 1u); after++) {
            parlin_layer *layer = NULL;
            parlin_device_counters before = parlin_device_get_counters(device);
            if (support_rank() == bad)
                pl_buffer_fail(device, after);
            assert_refused(layers_try(group, &cases[i], &layer), PARLIN_ERROR_MEMORY, name,
                           "creation of ", "CL_MEM_OBJECT_ALLOCATION_FAILURE");
            layers_check_same_sentence(support_size());
            assert_null(layer);
            parlin_device_counters now = parlin_device_get_counters(device);
            assert_int_equal(now.buffers_live, before.buffers_live);
            assert_int_equal(now.bytes_live, before.bytes_live);
            forward f = forward_begin(group, &cases[i], 6400 + i, true);
            forward_check(&f, 2, NO_RESIDUAL);
            forward_end(&f);
        }
}

/* One rank has no memory for what a forward needs beyond its tensors. */
static void case_C15_forward_without_memory(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    parlin_device *device = parlin_group_device(group);
    int bad = support_size() - 1, refused = 0;
    size_t rows = 2000;
    for (size_t i = 0; i < CASES; i++) {
        if (!is_collective(&cases[i]))
            continue;
        rows += 1500; /* more than the pools have seen */
        forward f = forward_begin(group, &cases[i], 6500 + i, true);
        parlin_layer_info info = parlin_layer_get_info(f.layer);
        view x = view_at(device, rows, 1, info.input_cols, 0, info.input_cols, 1, 3);
        view y = view_at(device, rows, 1, info.output_cols, 0, info.output_cols + 1, 1, 3);
        /* the first buffer fails, then each later one: those made before it stay in the pools */
        for (unsigned after = 1;; after = 2) {
            if (support_rank() == bad)
                pl_buffer_fail(device, after);
            parlin_status status = parlin_layer_forward(f.layer, x.tensor, y.tensor);
            pl_buffer_fail(device, 0);
            if (status == PARLIN_SUCCESS)
                break;
            assert_refused(status, PARLIN_ERROR_MEMORY, "CL_MEM_OBJECT_ALLOCATION_FAILURE");
            layers_check_same_sentence(support_size());
            view_unchanged(&y);
            assert_true(++refused < 100);
        }
        view_free(&x);
        view_free(&y);
        forward_check(&f, 3, NO_RESIDUAL);
        forward_end(&f);
    }
    assert_true(support_size() == 1 || refused > 0);
}

/* --- C26 --- */

/* Integers, exact; views are filled with NaN before every call. */
static void case_C26_output_is_not_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        forward f = forward_begin(support_group(), &cases[i], 6600 + i, true);
        forward_check(&f, 33, NO_RESIDUAL);
        forward_check(&f, 1, NO_RESIDUAL);
        if (cases[i].kind != PARLIN_QKV && !cases[i].partial) {
            forward_check(&f, 33, RESIDUAL_APART);
            forward_check(&f, 1, RESIDUAL_APART);
        } else if (cases[i].kind == PARLIN_QKV) {
            parlin_device *device = parlin_group_device(f.group);
            parlin_qkv_shape s = parlin_qkv_local(f.layer);
            for (size_t rows = 1; rows <= 33; rows += 32)
                forward_check_heads(&f, view_random(device, &f.own, rows, s.heads, s.head_size),
                                    view_random(device, &f.own, rows, s.kv_heads, s.head_size),
                                    view_random(device, &f.own, rows, s.kv_heads, s.v_head_size));
        }
        forward_end(&f);
    }
}

/* One forward of full x and weight with NaN or infinity in them; the reference has them too. */
static void carries(const layers_case *c, size_t rows, float value, bool in_weight, uint64_t salt)
{
    forward f = forward_begin(support_group(), c, salt, false);
    parlin_device *device = parlin_group_device(f.group);
    parlin_layer_info info = parlin_layer_get_info(f.layer);
    float *x = support_alloc_floats(rows * c->in);
    float *own = support_alloc_floats(rows * info.input_cols);
    float *out = support_alloc_floats(rows * info.output_cols);
    double *ref = support_alloc(rows * info.output_cols * sizeof *ref);
    forward_numbers(&f, x, rows * c->in);
    if (in_weight) {
        f.weight[(layers_out(c) - 1) * c->in + c->in - 1] = value;
        layers_load(f.layer, c, f.weight, f.bias);
    } else {
        x[(rows - 1) * c->in + c->in - 1] = value;
    }
    forward_own_input(&f, rows, x, own);
    view vx = view_random(device, &f.own, rows, 1, info.input_cols);
    view vy = view_random(device, &f.own, rows, 1, info.output_cols);
    view_write(&vx, own);
    assert_ok(parlin_layer_forward(f.layer, vx.tensor, vy.tensor));
    view_read(&vy, out);
    forward_expected(&f, rows, x, NULL, ref);
    for (size_t i = 0; i < rows * info.output_cols; i++) {
        bool same = isnan(ref[i])   ? isnan(out[i]) && !support_is_poison(out[i])
                    : isinf(ref[i]) ? (double)out[i] == ref[i]
                                    : fabs(out[i] - ref[i]) < 1e-4;
        if (!same)
            fail_msg("rank %d: %s: [%zu] is %g, wanted %g", support_rank(), c->name, i, out[i],
                     ref[i]);
    }
    view_free(&vx);
    view_free(&vy);
    free(x);
    free(own);
    free(out);
    free(ref);
    forward_end(&f);
}

static void case_C26_NaN_and_infinity_come_through(void **state)
{
    (void)state;
    static const float values[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < CASES; i++)
        for (size_t v = 0; v < 3; v++)
            for (size_t rows = 1; rows <= 3; rows += 2) {
                carries(&cases[i], rows, values[v], false, 6700 + i);
                carries(&cases[i], rows, values[v], true, 6800 + i);
            }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_C14_no_rows),
        cmocka_unit_test(case_C15_ranks_disagree),
        cmocka_unit_test(case_C15_another_layer_on_one_rank),
        cmocka_unit_test(case_C15_one_rank_is_refused),
        cmocka_unit_test(case_C15_creation_without_memory),
        cmocka_unit_test(case_C15_forward_without_memory),
        cmocka_unit_test(case_C26_output_is_not_read),
        cmocka_unit_test(case_C26_NaN_and_infinity_come_through),
    };
    return SUPPORT_RUN_MPI("layers: cases of forwards", tests);
}
