/* SPDX-License-Identifier: Apache-2.0 */
/* Forward of a qkv layer into one buffer and into three views of heads, against the double
   reference. */
#include "forward.h"

#include <stdlib.h>
#include <string.h>

/* query heads, kv heads (0: the default), of which groups of 1, 2, 3, 4 and 8 cut some evenly,
   some not, and repeat some kv heads */
static const size_t shapes[][2] = {{8, 0}, {8, 8},  {8, 4},  {8, 2},   {8, 1},
                                   {9, 3}, {24, 8}, {12, 3}, {40, 10}, {13, 0}};
#define SHAPES (sizeof shapes / sizeof *shapes)

static layers_case shaped(support_random *random, size_t i, int bias)
{
    layers_case c = {.kind = PARLIN_QKV,
                     .in = forward_size(random, 1),
                     .heads = shapes[i][0],
                     .kv_heads = shapes[i][1],
                     .head_size = 1 + support_below(random, 9),
                     .v_head_size = support_below(random, 2) ? 1 + support_below(random, 9) : 0,
                     .bias = bias > 0,
                     .skip_bias_add = bias == 2};
    return c;
}

/* Three views of this rank's heads, any layout. */
static void check_three(forward *f, size_t rows)
{
    parlin_device *device = parlin_group_device(f->group);
    parlin_qkv_shape s = parlin_qkv_local(f->layer);
    view q = view_random(device, &f->own, rows, s.heads, s.head_size);
    view k = view_random(device, &f->own, rows, s.kv_heads, s.head_size);
    view v = view_random(device, &f->own, rows, s.kv_heads, s.v_head_size);
    forward_check_heads(f, q, k, v);
}

/* bias: 0 none, 1 added, 2 skipped */
static void every_option(bool integers)
{
    support_random random = {support_seed() + 30 + integers};
    uint64_t salt = integers ? 3100 : 3200;
    for (size_t i = 0; i < SHAPES; i++)
        for (int bias = 0; bias < 3; bias++) {
            layers_case c = shaped(&random, i, bias);
            forward f = forward_begin(support_group(), &c, salt++, integers);
            forward_check(&f, 1, NO_RESIDUAL);
            forward_check(&f, forward_rows(&f.random, c.in, layers_out(&c)), NO_RESIDUAL);
            check_three(&f, 1);
            check_three(&f, forward_rows(&f.random, c.in, layers_out(&c)));
            check_three(&f, forward_rows(&f.random, c.in, layers_out(&c)));
            forward_end(&f);
        }
}

static void test_every_option(void **state)
{
    (void)state;
    every_option(false);
}

static void test_whole_numbers_are_exact(void **state)
{
    (void)state;
    every_option(true);
}

/* What the queries say is what the model says; every local query head reads the right kv head. */
static void test_queries(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    size_t p = (size_t)parlin_group_size(group), r = (size_t)parlin_group_rank(group);
    support_random random = {support_seed() + 32};
    for (size_t i = 0; i < SHAPES; i++) {
        layers_case c = shaped(&random, i, 0);
        size_t first, heads, first_kv, kv, all_kv = c.kv_heads ? c.kv_heads : c.heads;
        layers_heads(&c, p, r, &first, &heads, &first_kv, &kv);
        parlin_layer *layer = layers_create(group, &c);
        parlin_qkv_shape s = parlin_qkv_local(layer);
        assert_int_equal(s.heads, heads);
        assert_int_equal(s.kv_heads, kv);
        assert_int_equal(s.first_head, first);
        assert_int_equal(s.first_kv_head, first_kv);
        assert_int_equal(s.head_size, c.head_size);
        assert_int_equal(s.v_head_size, c.v_head_size ? c.v_head_size : c.head_size);
        for (size_t h = 0; h < heads; h++)
            assert_int_equal(parlin_qkv_kv_head(layer, h),
                             (first + h) / (c.heads / all_kv) - first_kv);
        assert_int_equal(parlin_qkv_kv_head(layer, heads), SIZE_MAX);
        assert_int_equal(parlin_layer_get_info(layer).output_cols,
                         (s.heads + s.kv_heads) * s.head_size + s.kv_heads * s.v_head_size);
        assert_false(parlin_layer_get_info(layer).collective);
        parlin_layer_destroy(layer);
    }
}

/* Keys and values of `rows` new tokens go to position `at` of a cache for `room` tokens,
   token-major or head-major; nothing else of the cache changes. q is dense. */
static void cache(forward *f, size_t rows, size_t at, size_t room, bool head_major)
{
    parlin_device *device = parlin_group_device(f->group);
    parlin_qkv_shape s = parlin_qkv_local(f->layer);
    view q = view_at(device, rows, s.heads, s.head_size, 0, s.heads * s.head_size, s.head_size, 0);
    view k, v;
    if (head_major) {
        k = view_at(device, rows, s.kv_heads, s.head_size, at * s.head_size, s.head_size,
                    room * s.head_size, (room - at - rows) * s.head_size);
        v = view_at(device, rows, s.kv_heads, s.v_head_size, at * s.v_head_size, s.v_head_size,
                    room * s.v_head_size, (room - at - rows) * s.v_head_size);
    } else {
        size_t k_row = s.kv_heads * s.head_size, v_row = s.kv_heads * s.v_head_size;
        k = view_at(device, rows, s.kv_heads, s.head_size, at * k_row, k_row, s.head_size,
                    (room - at - rows) * k_row);
        v = view_at(device, rows, s.kv_heads, s.v_head_size, at * v_row, v_row, s.v_head_size,
                    (room - at - rows) * v_row);
    }
    forward_check_heads(f, q, k, v);
}

static void test_straight_into_a_cache(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        layers_case c = {.kind = PARLIN_QKV,
                         .in = 17,
                         .heads = 8,
                         .kv_heads = i ? 4 : 0,
                         .head_size = 6,
                         .v_head_size = i ? 5 : 0,
                         .bias = true};
        forward f = forward_begin(support_group(), &c, 3300 + i, false);
        for (int head_major = 0; head_major < 2; head_major++) {
            cache(&f, 7, 0, 16, head_major); /* a prompt */
            cache(&f, 1, 7, 16, head_major); /* and token after token */
            cache(&f, 1, 15, 16, head_major);
            cache(&f, 16, 0, 16, head_major);
        }
        forward_end(&f);
    }
}

/* Keys and values interleaved in one cache buffer: [token][k v][head][d]. */
static void test_keys_and_values_in_one_buffer(void **state)
{
    (void)state;
    layers_case c = {
        .kind = PARLIN_QKV, .in = 5, .heads = 8, .kv_heads = 4, .head_size = 3, .bias = true};
    parlin_group *group = support_group();
    forward f = forward_begin(group, &c, 3400, true);
    parlin_qkv_shape s = parlin_qkv_local(f.layer);
    enum { ROWS = 4, ROOM = 9, AT = 2 };
    size_t half = s.kv_heads * 3, width = 2 * half, n = ROOM * width, q_n = ROWS * s.heads * 3;
    size_t cols = s.heads * 3 + width;
    float x[ROWS * 5], *host = support_alloc_floats(n), *all = support_alloc_floats(ROWS * cols);
    double *ref = support_alloc(ROWS * cols * sizeof *ref);
    parlin_tensor vx = {0}, q = {0}, kv = {0};
    forward_numbers(&f, x, ROWS * 5);
    assert_ok(parlin_tensor_create(group, PARLIN_F32, ROWS, 5, &vx));
    assert_ok(parlin_tensor_create(group, PARLIN_F32, ROWS, s.heads * 3, &q));
    assert_ok(parlin_tensor_create(group, PARLIN_F32, ROOM, width, &kv));
    assert_ok(parlin_tensor_write(vx, x));
    assert_ok(parlin_tensor_write(kv, host));
    parlin_tensor place = parlin_tensor_rows(kv, AT, ROWS);
    assert_ok(parlin_qkv_forward(
        f.layer, vx, parlin_tensor_heads(q, s.heads, 3),
        parlin_tensor_heads(parlin_tensor_cols(place, 0, half), s.kv_heads, 3),
        parlin_tensor_heads(parlin_tensor_cols(place, half, half), s.kv_heads, 3)));
    float *q_host = support_alloc_floats(q_n);
    assert_ok(parlin_tensor_read(q, q_host));
    assert_ok(parlin_tensor_read(kv, host));
    for (size_t i = 0; i < n; i++)
        if (i < AT * width || i >= (AT + ROWS) * width)
            assert_true(support_is_poison(host[i]));
    for (size_t i = 0; i < ROWS; i++) {
        memcpy(all + i * cols, q_host + i * s.heads * 3, s.heads * 3 * sizeof *all);
        memcpy(all + i * cols + s.heads * 3, host + (AT + i) * width, width * sizeof *all);
    }
    forward_expected(&f, ROWS, x, NULL, ref);
    forward_close(&f, all, ref, ROWS * cols);
    parlin_tensor_destroy(&vx);
    parlin_tensor_destroy(&q);
    parlin_tensor_destroy(&kv);
    free(host);
    free(all);
    free(ref);
    free(q_host);
    forward_end(&f);
}

/* parlin_heads_write and _read go by both strides. */
static void test_heads_views_read_and_write(void **state)
{
    (void)state;
    support_random random = {support_seed() + 35 + (uint64_t)support_rank()};
    for (int draw = 0; draw < 20; draw++) {
        size_t rows = support_below(&random, 5), heads = 1 + support_below(&random, 4);
        size_t size = 1 + support_below(&random, 5), n = rows * heads * size;
        view v = view_random(parlin_group_device(support_group()), &random, rows, heads, size);
        float *dense = support_alloc_floats(n), *read = support_alloc_floats(n);
        support_floats(&random, dense, n);
        assert_ok(parlin_heads_write(v.heads, dense));
        view_read(&v, read);
        assert_same_floats(read, dense, n);
        support_poison(read, n);
        assert_ok(parlin_heads_read(v.heads, read));
        assert_same_floats(read, dense, n);
        view_free(&v);
        free(dense);
        free(read);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_option),
        cmocka_unit_test(test_whole_numbers_are_exact),
        cmocka_unit_test(test_queries),
        cmocka_unit_test(test_straight_into_a_cache),
        cmocka_unit_test(test_keys_and_values_in_one_buffer),
        cmocka_unit_test(test_heads_views_read_and_write),
    };
    return SUPPORT_RUN_MPI("layers: forward, qkv", tests);
}
