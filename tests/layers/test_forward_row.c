/* SPDX-License-Identifier: Apache-2.0 */
/* Forward of a row layer, every option, and of chains that end in one, against the double
   reference. */
#include "forward.h"

#include <stdlib.h>
#include <string.h>

/* bias: 0 none, 1 added, 2 skipped */
static void every_option(bool integers)
{
    support_random random = {support_seed() + 20 + integers};
    uint64_t salt = integers ? 2100 : 2200;
    for (int bias = 0; bias < 3; bias++)
        for (int whole = 0; whole < 2; whole++)
            for (int partial = 0; partial < (bias == 1 ? 1 : 2); partial++)
                for (int draw = 0; draw < 3; draw++) {
                    layers_case c = {.kind = PARLIN_ROW,
                                     .in = forward_size(&random, (size_t)support_size()),
                                     .out = forward_size(&random, 1),
                                     .bias = bias > 0,
                                     .skip_bias_add = bias == 2,
                                     .whole_input = whole,
                                     .partial = partial};
                    forward_case(support_group(), &c, salt++, integers, 2);
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

static void test_every_size(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 3, 17, 129, 1000};
    for (size_t i = 0; i < 5; i++)
        for (size_t j = 0; j < 5; j++) {
            if (sizes[i] < (size_t)support_size())
                continue;
            layers_case c = {.kind = PARLIN_ROW,
                             .in = sizes[i],
                             .out = sizes[j],
                             .bias = true,
                             .whole_input = (i + j) % 2};
            forward f = forward_begin(support_group(), &c, 2300 + 5 * i + j, false);
            forward_check(&f, 1, NO_RESIDUAL);
            forward_check(&f, 2, NO_RESIDUAL);
            forward_check(&f, forward_rows(&f.random, c.in, c.out), NO_RESIDUAL);
            forward_end(&f);
        }
}

static void test_rows_change_from_call_to_call(void **state)
{
    (void)state;
    layers_case c = {.kind = PARLIN_ROW, .in = 40, .out = 33, .bias = true};
    forward f = forward_begin(support_group(), &c, 2400, false);
    static const size_t rows[] = {129, 1, 0, 1000, 2, 0, 1, 17};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        forward_check(&f, rows[i], (forward_residual)(i % 3));
    forward_end(&f);
}

/* The parts of the ranks, added by the caller with parlin_all_reduce, are the whole; the skipped
   bias is the full one on every rank. */
static void test_partial_results_add_up(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    layers_case c = {.kind = PARLIN_ROW,
                     .in = 129,
                     .out = 17,
                     .bias = true,
                     .skip_bias_add = true,
                     .partial = true};
    forward f = forward_begin(group, &c, 2500, true);
    forward whole = f;
    whole.c.partial = false;
    enum { ROWS = 5 };
    size_t in = parlin_layer_get_info(f.layer).input_cols;
    float *x = support_alloc_floats(ROWS * c.in), *own = support_alloc_floats(ROWS * in);
    float out[ROWS * 17], bias[17];
    double ref[ROWS * 17];
    forward_numbers(&f, x, ROWS * c.in);
    forward_own_input(&f, ROWS, x, own);
    view vx = view_random(parlin_group_device(group), &f.own, ROWS, 1, in);
    view vy = view_random(parlin_group_device(group), &f.own, ROWS, 1, 17);
    view_write(&vx, own);
    assert_ok(parlin_layer_forward(f.layer, vx.tensor, vy.tensor));
    assert_ok(parlin_all_reduce(group, vy.tensor, vy.tensor));
    view_read(&vy, out);
    forward_expected(&whole, ROWS, x, NULL, ref);
    forward_close(&f, out, ref, ROWS * 17);
    parlin_tensor skipped = {0};
    assert_ok(parlin_layer_bias(f.layer, &skipped));
    assert_ok(parlin_tensor_read(skipped, bias));
    assert_same_floats(bias, f.bias, 17);
    view_free(&vx);
    view_free(&vy);
    free(x);
    free(own);
    forward_end(&f);
}

/* --- chains: every rank's own output of the first layer is the input of the second --- */

/* Runs first and second on this rank's views; y is compared with `ref`. `middle` is the view of
   the first layer's output that the second reads. */
static void run_second(forward *second, parlin_tensor middle, const double *ref)
{
    size_t n = middle.rows * second->c.out;
    float *out = support_alloc_floats(n);
    view vy = view_random(parlin_group_device(second->group), &second->own, middle.rows, 1,
                          second->c.out);
    assert_ok(parlin_layer_forward(second->layer, middle, vy.tensor));
    view_read(&vy, out);
    forward_close(second, out, ref, n);
    forward_same_on_all(out, n);
    view_free(&vy);
    free(out);
}

/* The double reference of the second layer on a full double input, rounded to f32 once as a
   stored activation is. */
static double *second_reference(const forward *second, size_t rows, const double *middle)
{
    size_t in = second->c.in, out = second->c.out;
    double *ref = support_alloc(rows * out * sizeof *ref);
    for (size_t i = 0; i < rows; i++)
        for (size_t o = 0; o < out; o++) {
            double sum = second->bias[o];
            for (size_t k = 0; k < in; k++)
                sum += middle[i * in + k] * second->weight[o * in + k];
            ref[i * out + o] = sum;
        }
    return ref;
}

/* column or gated merged, then row: the usual feed-forward block */
static void feed_forward(size_t rows, size_t in, size_t inner, bool gated, bool like)
{
    parlin_group *group = support_group();
    layers_case up = {.kind = gated ? PARLIN_MERGED : PARLIN_COLUMN,
                      .in = in,
                      .out = inner,
                      .parts = 2,
                      .part_out = {inner, inner},
                      .bias = true,
                      .gated = gated,
                      .activation = gated ? PARLIN_SILU : PARLIN_GELU};
    forward first = forward_begin(group, &up, 2600, false);
    layers_case down = {.kind = PARLIN_ROW, .in = inner, .out = in, .bias = true};
    down.input_like = like ? first.layer : NULL;
    forward second = forward_begin(group, &down, 2700, false);

    float *x = support_alloc_floats(rows * in);
    double *middle = support_alloc(rows * inner * 2 * sizeof *middle);
    forward_numbers(&first, x, rows * in);
    reference_linear(rows, inner, in, x, first.weight, first.bias, up.activation, middle);
    if (gated) {
        double *part1 = middle + rows * inner;
        reference_linear(rows, inner, in, x, first.weight + inner * in, first.bias + inner,
                         PARLIN_NO_ACTIVATION, part1);
        for (size_t i = 0; i < rows * inner; i++)
            middle[i] *= part1[i];
    }
    double *ref = second_reference(&second, rows, middle);

    view vx = view_random(parlin_group_device(group), &first.own, rows, 1, in);
    view vm = view_random(parlin_group_device(group), &first.own, rows, 1,
                          parlin_layer_get_info(first.layer).output_cols);
    view_write(&vx, x);
    assert_ok(parlin_layer_forward(first.layer, vx.tensor, vm.tensor));
    run_second(&second, vm.tensor, ref);
    view_free(&vx);
    view_free(&vm);
    free(x);
    free(middle);
    free(ref);
    forward_end(&first);
    forward_end(&second);
}

static void test_feed_forward(void **state)
{
    (void)state;
    static const size_t rows[] = {1, 3, 17};
    for (size_t i = 0; i < 3; i++)
        for (int gated = 0; gated < 2; gated++)
            for (int like = 0; like < 2; like++) {
                feed_forward(rows[i], 17, 129, gated, like);
                feed_forward(rows[i], 33, 9, gated, like);
            }
}

/* qkv, then row cut like it. The program between them reads q as it is (v_head_size =
   head_size), or gives each query head the values of the kv head that it reads. */
static void attention(size_t rows, const layers_case *heads, bool values)
{
    parlin_group *group = support_group();
    forward first = forward_begin(group, heads, 2800, false);
    size_t v_size = heads->v_head_size ? heads->v_head_size : heads->head_size;
    size_t kv = heads->kv_heads ? heads->kv_heads : heads->heads, in = heads->in;
    layers_case out = {.kind = PARLIN_ROW,
                       .in = heads->heads * v_size,
                       .out = in,
                       .heads = heads->heads,
                       .kv_heads = heads->kv_heads,
                       .v_head_size = v_size,
                       .bias = true,
                       .input_like = first.layer};
    forward second = forward_begin(group, &out, 2900, false);
    parlin_qkv_shape s = parlin_qkv_local(first.layer);

    /* all heads on one rank: q is (rows, heads head_size), v (rows, kv v_head_size) */
    size_t q_cols = heads->heads * heads->head_size, v_cols = kv * v_size;
    size_t v_row = layers_part_start(heads, 2);
    float *x = support_alloc_floats(rows * in);
    double *q = support_alloc(rows * q_cols * sizeof *q),
           *v = support_alloc(rows * v_cols * sizeof *v);
    double *middle = support_alloc(rows * out.in * sizeof *middle);
    forward_numbers(&first, x, rows * in);
    reference_linear(rows, q_cols, in, x, first.weight, first.bias, PARLIN_NO_ACTIVATION, q);
    reference_linear(rows, v_cols, in, x, first.weight + v_row * in, first.bias + v_row,
                     PARLIN_NO_ACTIVATION, v);
    for (size_t i = 0; i < rows; i++)
        for (size_t h = 0; h < heads->heads; h++)
            for (size_t d = 0; d < v_size; d++)
                middle[(i * heads->heads + h) * v_size + d] =
                    values ? v[(i * kv + h * kv / heads->heads) * v_size + d]
                           : q[(i * heads->heads + h) * v_size + d];
    double *ref = second_reference(&second, rows, middle);

    parlin_device *device = parlin_group_device(group);
    size_t width = parlin_layer_get_info(first.layer).output_cols;
    view vx = view_random(device, &first.own, rows, 1, in);
    view vm = view_random(device, &first.own, rows, 1, width);
    view va = view_random(device, &first.own, rows, 1, s.heads * v_size);
    view_write(&vx, x);
    assert_ok(parlin_layer_forward(first.layer, vx.tensor, vm.tensor));
    if (values) {
        float *all = support_alloc_floats(rows * width);
        float *attended = support_alloc_floats(rows * s.heads * v_size);
        view_read(&vm, all);
        for (size_t i = 0; i < rows; i++)
            for (size_t h = 0; h < s.heads; h++)
                memcpy(attended + (i * s.heads + h) * v_size,
                       all + i * width + (s.heads + s.kv_heads) * s.head_size +
                           parlin_qkv_kv_head(first.layer, h) * v_size,
                       v_size * sizeof *all);
        view_write(&va, attended);
        run_second(&second, va.tensor, ref);
        free(all);
        free(attended);
    } else {
        run_second(&second, parlin_tensor_cols(vm.tensor, 0, s.heads * s.head_size), ref);
    }
    view_free(&vx);
    view_free(&vm);
    view_free(&va);
    free(x);
    free(q);
    free(v);
    free(middle);
    free(ref);
    forward_end(&first);
    forward_end(&second);
}

static void test_attention(void **state)
{
    (void)state;
    static const size_t rows[] = {1, 2, 17};
    static const layers_case shapes[] = {
        {.kind = PARLIN_QKV, .in = 17, .heads = 8, .kv_heads = 4, .head_size = 8, .bias = true},
        {.kind = PARLIN_QKV, .in = 9, .heads = 9, .head_size = 3, .bias = true},
        {.kind = PARLIN_QKV, .in = 33, .heads = 12, .kv_heads = 1, .head_size = 5, .bias = true},
        {.kind = PARLIN_QKV, .in = 5, .heads = 40, .kv_heads = 10, .head_size = 2, .bias = true},
    };
    for (size_t i = 0; i < 3; i++)
        for (size_t j = 0; j < 4; j++) {
            attention(rows[i], &shapes[j], false);
            attention(rows[i], &shapes[j], true);
            layers_case other = shapes[j];
            other.v_head_size = 7;
            attention(rows[i], &other, true);
        }
}

/* The row layer alone, cut on head borders, takes its own slice of a whole input too. */
static void test_cut_like_heads(void **state)
{
    (void)state;
    layers_case heads = {
        .kind = PARLIN_QKV, .in = 5, .heads = 8, .kv_heads = 4, .head_size = 4, .v_head_size = 3};
    parlin_layer *qkv = layers_create(support_group(), &heads);
    for (int whole = 0; whole < 2; whole++) {
        layers_case c = {.kind = PARLIN_ROW,
                         .in = 24,
                         .out = 17,
                         .heads = 8,
                         .kv_heads = 4,
                         .whole_input = whole,
                         .bias = true,
                         .input_like = qkv};
        forward_case(support_group(), &c, 3000 + (uint64_t)whole, true, 2);
    }
    parlin_layer_destroy(qkv);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_option),
        cmocka_unit_test(test_whole_numbers_are_exact),
        cmocka_unit_test(test_every_size),
        cmocka_unit_test(test_rows_change_from_call_to_call),
        cmocka_unit_test(test_partial_results_add_up),
        cmocka_unit_test(test_feed_forward),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_cut_like_heads),
    };
    return SUPPORT_RUN_MPI("layers: forward, row", tests);
}
