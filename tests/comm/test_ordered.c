/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions in rank order: the bits are those of the plain f32 sum, on every rank, call after
   call, in pieces or whole, and on an out-of-order queue; a repeated call allocates nothing. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <parlin/opencl.h>

#include "comm/transport.h"
#include "views.h"

/* Small (gathered whole), at the border for some p, and formed by owners. */
static const size_t counts[] = {1, 7, 100, 1024, 4097, 30001};
enum { COUNTS = sizeof counts / sizeof *counts };

/* Of many magnitudes, so that another order of the sum gives other bits. */
static void random_part(int r, uint64_t salt, float *out, size_t n)
{
    support_random random = {support_seed() + 1000 * salt + (uint64_t)r};
    for (size_t i = 0; i < n; i++)
        out[i] = ldexpf(support_float(&random), (int)support_below(&random, 12));
}

/* out = ((part 0 + part 1) + part 2) + .. */
static void ordered_sum(int p, uint64_t salt, float *out, size_t n)
{
    float *part = support_alloc_floats(n);
    random_part(0, salt, out, n);
    for (int r = 1; r < p; r++) {
        random_part(r, salt, part, n);
        for (size_t i = 0; i < n; i++)
            out[i] += part[i];
    }
    free(part);
}

static void check_all_reduce(parlin_group *group, uint64_t salt, size_t n)
{
    const int p = parlin_group_size(group), r = parlin_group_rank(group);
    float *part = support_alloc_floats(n), *wanted = support_alloc_floats(n);
    random_part(r, salt, part, n);
    ordered_sum(p, salt, wanted, n);
    test_view source = view_make(group, PARLIN_F32, 1, n);
    test_view result = view_make(group, PARLIN_F32, 1, n);
    view_write(&source, part);
    for (int again = 0; again < 3; again++) {
        assert_ok(parlin_all_reduce(group, source.tensor, result.tensor));
        assert_view(&result, wanted, "ordered all-reduce");
    }
    view_free(&source);
    view_free(&result);
    free(part);
    free(wanted);
}

static void test_all_reduce_is_the_sum_in_rank_order(void **state)
{
    (void)state;
    for (size_t c = 0; c < COUNTS; c++)
        check_all_reduce(support_group(), c, counts[c]);
}

static void test_reduce_scatter_is_the_sum_in_rank_order(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    const int p = parlin_group_size(group), r = parlin_group_rank(group);
    const size_t rows = 9, run = 131, cols = run * (size_t)p, n = rows * cols;
    float *part = support_alloc_floats(n), *sum = support_alloc_floats(n);
    float *wanted = support_alloc_floats(rows * run);
    random_part(r, 77, part, n);
    ordered_sum(p, 77, sum, n);
    for (size_t i = 0; i < rows; i++)
        memcpy(wanted + i * run, sum + i * cols + (size_t)r * run, run * sizeof *wanted);
    test_view source = view_make(group, PARLIN_F32, rows, cols);
    test_view result = view_make(group, PARLIN_F32, rows, run);
    view_write(&source, part);
    assert_ok(parlin_reduce_scatter(group, 1, NULL, source.tensor, result.tensor));
    assert_view(&result, wanted, "ordered reduce-scatter");
    view_free(&source);
    view_free(&result);
    free(part);
    free(sum);
    free(wanted);
}

/* All collectives once on f32 tensors of `n` elements and more, with exact values. */
static void all_once(parlin_group *group, size_t n)
{
    const int p = parlin_group_size(group), r = parlin_group_rank(group);
    const size_t all = n * (size_t)p;
    float *own = support_alloc_floats(n), *whole = support_alloc_floats(all);
    float *other = support_alloc_floats(all);
    for (size_t i = 0; i < n; i++)
        own[i] = value_of(r, 0, i);
    for (int q = 0; q < p; q++)
        for (size_t i = 0; i < n; i++)
            whole[(size_t)q * n + i] = value_of(q, 0, i);
    test_view source = view_make(group, PARLIN_F32, 1, n);
    test_view gathered = view_make(group, PARLIN_F32, (size_t)p, n);
    view_write(&source, own);
    assert_ok(parlin_all_gather(group, 0, NULL, source.tensor, gathered.tensor));
    assert_view(&gathered, whole, "all-gather");

    for (size_t i = 0; i < n; i++) {
        other[i] = 0;
        for (int q = 0; q < p; q++)
            other[i] += value_of(q, 0, i);
    }
    test_view sum = view_make(group, PARLIN_F32, 1, n);
    assert_ok(parlin_all_reduce(group, source.tensor, sum.tensor));
    assert_view(&sum, other, "all-reduce");

    for (size_t i = 0; i < n; i++)
        other[i] = (float)p * value_of(r, 0, i);
    test_view run = view_make(group, PARLIN_F32, 1, n);
    assert_ok(parlin_reduce_scatter(group, 0, NULL, gathered.tensor, run.tensor));
    assert_view(&run, other, "reduce-scatter");

    /* rank q's row r is value_of(r, ..) on every rank */
    for (int q = 0; q < p; q++)
        for (size_t i = 0; i < n; i++)
            other[(size_t)q * n + i] = value_of(r, 0, i);
    test_view swapped = view_make(group, PARLIN_F32, (size_t)p, n);
    assert_ok(parlin_all_to_all(group, 0, NULL, NULL, gathered.tensor, swapped.tensor));
    assert_view(&swapped, other, "all-to-all");

    for (size_t i = 0; i < n; i++)
        other[i] = value_of(p - 1, 0, i);
    assert_ok(parlin_broadcast(group, p - 1, source.tensor));
    assert_view(&source, other, "broadcast");
    view_free(&source);
    view_free(&gathered);
    view_free(&sum);
    view_free(&run);
    view_free(&swapped);
    free(own);
    free(whole);
    free(other);
}

/* C16: chunks of 7 elements; 20 elements at p = 3 among others. Then larger chunks and tensors that
   owners sum; no count is a multiple of a chunk. */
static void case_C16_counts_beyond_the_limit_go_in_pieces(void **state)
{
    (void)state;
    const size_t whole = pl_wire_limit;
    all_once(support_group(), 20);
    all_once(support_group(), 5001);
    pl_wire_limit = 7 * sizeof(float);
    all_once(support_group(), 20);
    check_all_reduce(support_group(), 16, 20);
    pl_wire_limit = 701 * sizeof(float);
    all_once(support_group(), 5001);
    check_all_reduce(support_group(), 17, 5001);
    pl_wire_limit = whole;
}

static void test_a_repeated_call_allocates_nothing(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    parlin_device *device = parlin_group_device(group);
    const size_t p = (size_t)parlin_group_size(group);
    const size_t sizes[] = {16, 20000};
    for (int s = 0; s < 2; s++) {
        parlin_tensor a, b, c;
        assert_ok(parlin_tensor_create(group, PARLIN_F32, sizes[s], 3, &a));
        assert_ok(parlin_tensor_create(group, PARLIN_F32, sizes[s], 3, &b));
        assert_ok(parlin_tensor_create(group, PARLIN_F32, sizes[s], 3 * p, &c));
        uint64_t created = 0;
        for (int times = 0; times < 4; times++) {
            assert_ok(parlin_all_reduce(group, a, b));
            assert_ok(parlin_all_gather(group, 1, NULL, a, c));
            assert_ok(parlin_reduce_scatter(group, 1, NULL, c, b));
            assert_ok(parlin_broadcast(group, 0, a));
            assert_ok(parlin_barrier(group));
            if (times == 0)
                created = parlin_device_get_counters(device).buffers_created;
        }
        assert_int_equal(parlin_device_get_counters(device).buffers_created, created);
        parlin_tensor_destroy(&a);
        parlin_tensor_destroy(&b);
        parlin_tensor_destroy(&c);
    }
}

/* C27: out-of-order queue given by the caller, outputs filled with -1, 256 x 256, two all-reduces
   back to back through the same staging with other data, 100 times. */
static void case_C27_out_of_order_queue(void **state)
{
    (void)state;
    parlin_device *own;
    parlin_device_info info;
    assert_ok(parlin_device_open(NULL, &own));
    assert_ok(parlin_device_get_info(own, &info));
    if (!info.out_of_order) {
        parlin_device_close(own);
        SUPPORT_SKIP("the device has no out-of-order queue");
    }
    cl_int code;
    cl_command_queue queue = clCreateCommandQueue(parlin_device_context(own), parlin_device_id(own),
                                                  CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &code);
    assert_int_equal(code, CL_SUCCESS);
    parlin_device *device;
    parlin_group *group;
    assert_ok(
        parlin_device_wrap(parlin_device_context(own), parlin_device_id(own), queue, &device));
    assert_ok(parlin_group_create(device, MPI_COMM_WORLD, NULL, &group));
    const int p = parlin_group_size(group), r = parlin_group_rank(group);
    enum { N = 256 };
    parlin_tensor in[2], out[2];
    float *host = support_alloc_floats(N * N);
    for (int k = 0; k < 2; k++) {
        assert_ok(parlin_tensor_create(group, PARLIN_F32, N, N, &in[k]));
        assert_ok(parlin_tensor_create(group, PARLIN_F32, N, N, &out[k]));
    }
    for (int times = 0; times < 100; times++) {
        for (int k = 0; k < 2; k++) {
            for (size_t i = 0; i < N * N; i++)
                host[i] = (float)(times + 1000 * k + r) + (float)(i % 7);
            assert_ok(parlin_tensor_write(in[k], host));
            for (size_t i = 0; i < N * N; i++)
                host[i] = -1;
            assert_ok(parlin_tensor_write(out[k], host));
        }
        assert_ok(parlin_all_reduce(group, in[0], out[0]));
        assert_ok(parlin_all_reduce(group, in[1], out[1]));
        for (int k = 0; k < 2; k++) {
            assert_ok(parlin_tensor_read(out[k], host));
            for (size_t i = 0; i < N * N; i++) {
                float wanted =
                    (float)(p * (times + 1000 * k) + p * (p - 1) / 2) + (float)p * (float)(i % 7);
                if (host[i] != wanted)
                    fail_msg("time %d, all-reduce %d: element %zu is %g, wanted %g", times, k, i,
                             (double)host[i], (double)wanted);
            }
        }
    }
    for (int k = 0; k < 2; k++) {
        parlin_tensor_destroy(&in[k]);
        parlin_tensor_destroy(&out[k]);
    }
    free(host);
    clReleaseCommandQueue(queue);
    parlin_device_close(own);
    parlin_device_close(device);
    parlin_group_close(group);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_reduce_is_the_sum_in_rank_order),
        cmocka_unit_test(test_reduce_scatter_is_the_sum_in_rank_order),
        cmocka_unit_test(case_C16_counts_beyond_the_limit_go_in_pieces),
        cmocka_unit_test(test_a_repeated_call_allocates_nothing),
        cmocka_unit_test(case_C27_out_of_order_queue),
    };
    return SUPPORT_RUN_MPI("comm_ordered", tests);
}
