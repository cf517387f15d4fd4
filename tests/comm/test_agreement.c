/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong calls: one rank errs or differs, all get the same error and sentence, no output is
   written, and the group goes on. In a group of one the sentence has no rank before it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <parlin/opencl.h>

#include "comm/comm.h"
#include "core/status.h"
#include "device/device.h"
#include "views.h"

static int last_rank(void)
{
    return support_size() - 1;
}

/* All ranks hold rank 0's sentence. */
static void assert_same_sentence(void)
{
    static char text[PL_SENTENCE];
    snprintf(text, sizeof text, "%s", parlin_last_error());
    MPI_Bcast(text, sizeof text, MPI_CHAR, 0, MPI_COMM_WORLD);
    assert_string_equal(parlin_last_error(), text);
}

/* After any failure the group still works. */
static void assert_usable(void)
{
    parlin_group *group = support_group();
    const int p = parlin_group_size(group);
    float one = 1, sum = 0;
    parlin_tensor tensor;
    assert_ok(parlin_tensor_create(group, PARLIN_F32, 1, 1, &tensor));
    assert_ok(parlin_tensor_write(tensor, &one));
    assert_ok(parlin_all_reduce(group, tensor, tensor));
    assert_ok(parlin_tensor_read(tensor, &sum));
    assert_true(sum == (float)p);
    parlin_tensor_destroy(&tensor);
}

/* The call fails everywhere with one sentence that begins with the failing rank. */
static void refused_by(int rank, parlin_status status, parlin_status wanted, const char *text)
{
    char prefix[32] = "";
    if (support_size() > 1)
        snprintf(prefix, sizeof prefix, "rank %d: ", rank);
    assert_refused(status, wanted, text);
    if (strncmp(parlin_last_error(), prefix, strlen(prefix)) != 0)
        fail_msg("\"%s\" does not begin with \"%s\"", parlin_last_error(), prefix);
    assert_same_sentence();
    assert_usable();
}

static void differ(parlin_status status, const char *first, const char *second)
{
    char other[32];
    snprintf(other, sizeof other, "; rank %d: ", last_rank());
    assert_refused(status, PARLIN_ERROR_MISMATCH, "rank 0: ", first, other, second);
    assert_same_sentence();
    assert_usable();
}

static bool alone(void)
{
    return support_size() == 1;
}

/* C15: M = 3 on some ranks, 4 on another. */
static void case_C15_ranks_disagree_on_the_shape(void **state)
{
    (void)state;
    if (alone())
        return;
    parlin_group *group = support_group();
    const size_t rows = support_rank() == last_rank() ? 4 : 3;
    test_view in = view_make(group, PARLIN_F32, rows, 5);
    test_view out = view_make(group, PARLIN_F32, rows, 5);
    for (int times = 0; times < 3; times++) {
        differ(parlin_all_reduce(group, in.tensor, out.tensor), "all-reduce: rows 3; rank",
               "all-reduce: rows 4");
        assert_untouched(&out, "all-reduce of ranks that differ");
    }
    view_free(&in);
    view_free(&out);
}

static void test_ranks_differ(void **state)
{
    (void)state;
    if (alone())
        return;
    parlin_group *group = support_group();
    const bool odd = support_rank() == last_rank();
    const size_t p = (size_t)support_size();
    test_view in = view_make(group, PARLIN_F32, 2, 3);
    test_view out = view_make(group, PARLIN_F32, 2, 3);
    differ(odd ? parlin_barrier(group) : parlin_all_reduce(group, in.tensor, out.tensor),
           "all-reduce: rows 2", "barrier");
    differ(odd ? parlin_broadcast(group, 0, in.tensor)
               : parlin_all_reduce(group, in.tensor, out.tensor),
           "all-reduce: rows 2, cols 3, dtype f32", "broadcast: root 0");
    differ(parlin_broadcast(group, odd ? 1 : 0, in.tensor), "root 0", "root 1");
    assert_untouched(&in, "broadcast");
    assert_untouched(&out, "all-reduce");

    test_view half = view_make(group, odd ? PARLIN_F16 : PARLIN_BF16, 1, 3);
    differ(parlin_broadcast(group, 0, half.tensor), "dtype bf16", "dtype f16");
    assert_untouched(&half, "broadcast");

    /* the same total, cut in other places */
    size_t *lengths = support_alloc(p * sizeof *lengths);
    view_lengths(odd ? 2 : 0, p, (int)p, lengths);
    test_view run = view_make(group, PARLIN_F32, lengths[support_rank()], 3);
    test_view all = view_make(group, PARLIN_F32, p, 3);
    differ(parlin_all_gather(group, 0, lengths, run.tensor, all.tensor), "lengths hash",
           "lengths hash");
    assert_untouched(&all, "all-gather");
    free(lengths);
    view_free(&in);
    view_free(&out);
    view_free(&half);
    view_free(&run);
    view_free(&all);
}

static void test_refused_on_one_rank(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    const int who = last_rank();
    const bool bad = support_rank() == who;
    const size_t p = (size_t)support_size(), r = (size_t)support_rank();
    test_view in = view_make(group, PARLIN_F32, 2 * p, 3);
    test_view out = view_make(group, PARLIN_F32, 2 * p, 3);
    test_view run = view_make(group, PARLIN_F32, 2, 3);
    test_view half = view_make(group, PARLIN_F16, 2 * p, 3);
    parlin_tensor none = in.tensor, rows = out.tensor, shifted = in.tensor;
    none.buffer = NULL;
    rows = parlin_tensor_rows(out.tensor, 0, 1);
    shifted = parlin_tensor_rows(in.around, 2, 2 * p);
    shifted = parlin_tensor_cols(shifted, 2, 3);

    refused_by(who, parlin_all_reduce(group, bad ? none : in.tensor, out.tensor),
               PARLIN_ERROR_ARGUMENT, "all-reduce: source");
    refused_by(who, parlin_all_reduce(group, in.tensor, bad ? rows : out.tensor),
               PARLIN_ERROR_SHAPE, "but destination is (1, 3)");
    refused_by(who, parlin_all_reduce(group, in.tensor, bad ? shifted : out.tensor),
               PARLIN_ERROR_ARGUMENT, "source and destination overlap");
    refused_by(who, parlin_all_reduce(group, in.tensor, bad ? half.tensor : out.tensor),
               PARLIN_ERROR_ARGUMENT, "source is f32, but destination is f16");
    refused_by(
        who,
        parlin_all_reduce(group, bad ? half.tensor : in.tensor, bad ? half.tensor : out.tensor),
        PARLIN_ERROR_UNSUPPORTED, "sums f32 only");
    refused_by(who, parlin_reduce_scatter(group, bad ? 2 : 0, NULL, in.tensor, run.tensor),
               PARLIN_ERROR_ARGUMENT, "reduce-scatter: dim is 2, wanted 0 (rows) or 1 (columns)");
    refused_by(who, parlin_all_gather(group, bad ? -1 : 0, NULL, run.tensor, out.tensor),
               PARLIN_ERROR_ARGUMENT, "all-gather: dim is -1");
    refused_by(who, parlin_broadcast(group, bad ? (int)p : 0, in.tensor), PARLIN_ERROR_ARGUMENT,
               "broadcast: root is");
    refused_by(who, parlin_broadcast(group, bad ? -1 : 0, in.tensor), PARLIN_ERROR_ARGUMENT,
               "broadcast: root is -1");

    size_t *lengths = support_alloc(p * sizeof *lengths);
    for (size_t q = 0; q < p; q++)
        lengths[q] = 2 + (bad && q == 0);
    refused_by(who, parlin_all_gather(group, 0, lengths, run.tensor, out.tensor),
               PARLIN_ERROR_SHAPE, "all-gather: lengths sum up to");
    lengths[0] = bad ? SIZE_MAX : 2;
    if (bad && p > 1)
        lengths[1] = 3;
    refused_by(who, parlin_reduce_scatter(group, 0, lengths, in.tensor, run.tensor),
               PARLIN_ERROR_SHAPE, "reduce-scatter: ");
    refused_by(who,
               parlin_all_gather(group, 0, NULL,
                                 bad ? parlin_tensor_rows(run.tensor, 0, 1) : run.tensor,
                                 out.tensor),
               PARLIN_ERROR_SHAPE, "all-gather: source is (1, 3), wanted (2, 3)");
    refused_by(who,
               parlin_all_to_all(group, 0, NULL, NULL,
                                 bad ? parlin_tensor_cols(in.tensor, 0, 2) : in.tensor, out.tensor),
               PARLIN_ERROR_SHAPE, "all-to-all: source has 2 columns, but destination 3");
    free(lengths);
    assert_untouched(&in, "source of refused calls");
    assert_untouched(&out, "destination of refused calls");
    assert_untouched(&run, "run of refused calls");
    assert_true(r < p);
    view_free(&in);
    view_free(&out);
    view_free(&run);
    view_free(&half);
}

/* Every rank's lengths are right by themselves; together they are not. */
static void test_all_to_all_lengths_that_do_not_meet(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    const int p = support_size(), r = support_rank();
    size_t *out = support_alloc((size_t)p * sizeof *out),
           *in = support_alloc((size_t)p * sizeof *in);
    size_t n_in = 0;
    for (int q = 0; q < p; q++) {
        out[q] = 1;
        in[q] = r == p - 1 && q == 0 ? 2 : 1;
        n_in += in[q];
    }
    test_view source = view_make(group, PARLIN_F32, (size_t)p, 2);
    test_view result = view_make(group, PARLIN_F32, n_in, 2);
    refused_by(p - 1, parlin_all_to_all(group, 0, out, in, source.tensor, result.tensor),
               PARLIN_ERROR_SHAPE, "all-to-all: rank 0 sends 1, but receive_lengths[0] is 2");
    assert_untouched(&result, "all-to-all");
    view_free(&source);
    view_free(&result);
    free(out);
    free(in);
}

/* Of several that fail the lowest rank speaks. */
static void test_the_lowest_failing_rank_is_named(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    const int first = support_size() > 2 ? 1 : support_size() - 1;
    parlin_tensor tensor;
    assert_ok(parlin_tensor_create(group, PARLIN_F32, 1, 1, &tensor));
    refused_by(first,
               parlin_broadcast(group, support_rank() >= first ? 100 + support_rank() : 0, tensor),
               PARLIN_ERROR_ARGUMENT, first == 1 ? "root is 101" : "root is 100");
    parlin_tensor_destroy(&tensor);
}

/* C15: buffer creation fails on one rank alone. */
static void case_C15_an_allocation_fails_on_one_rank(void **state)
{
    (void)state;
    if (alone())
        return;
    parlin_group *group = support_group();
    const bool bad = support_rank() == last_rank();
    /* a size for which no staging is pooled yet */
    const size_t n = 1500007;
    parlin_tensor in;
    assert_ok(parlin_tensor_create(group, PARLIN_F32, 1, n, &in));
    float *host = support_alloc_floats(n), *after = support_alloc_floats(n);
    test_view out = view_make(group, PARLIN_F32, 1, n);
    memset(host, 0, n * sizeof *host);
    assert_ok(parlin_tensor_write(in, host));
    if (bad)
        pl_buffer_fail(parlin_group_device(group), 1);
    refused_by(last_rank(), parlin_all_reduce(group, in, out.tensor), PARLIN_ERROR_MEMORY,
               "CL_MEM_OBJECT_ALLOCATION_FAILURE");
    assert_untouched(&out, "all-reduce without memory on one rank");
    assert_ok(parlin_all_reduce(group, in, out.tensor));
    assert_view(&out, host, "all-reduce after a failed one");
    parlin_tensor_destroy(&in);
    view_free(&out);
    free(host);
    free(after);
}

/* What the layers use: a record with a name, and a failure found before. */
static void test_agreement_on_a_record(void **state)
{
    (void)state;
    static const char *const names[] = {"rows", "in"};
    parlin_group *group = support_group();
    const bool bad = support_rank() == last_rank();
    pl_call call = {.operation = "row layer forward",
                    .object = "o",
                    .names = names,
                    .number = {3, 64},
                    .count = 2};
    assert_ok(pl_agree(group, PARLIN_SUCCESS, &call));
    parlin_status local = bad ? pl_error(PARLIN_ERROR_STATE, "weight of 'o' was never loaded") : 0;
    refused_by(last_rank(), pl_agree(group, local, &call), PARLIN_ERROR_STATE,
               "weight of 'o' was never loaded");
    if (alone())
        return;
    call.number[1] = bad ? 65 : 64;
    differ(pl_agree(group, PARLIN_SUCCESS, &call), "row layer forward 'o': in 64; rank",
           "row layer forward 'o': in 65");
    call.number[1] = 64;
    call.object = bad ? "p" : "o";
    differ(pl_agree(group, PARLIN_SUCCESS, &call), "'o': rows", "'p': rows");
    call.object = "o";
    call.count = bad ? 1 : 2;
    differ(pl_agree(group, PARLIN_SUCCESS, &call), "rows 3, in 64", "rows 3");
}

/* A buffer that the host may not write to, on the last rank alone, is told before data moves. */
static void test_destination_not_writable(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    if (alone())
        return;
    cl_int code;
    cl_mem_flags flags = support_rank() == last_rank() ? CL_MEM_HOST_READ_ONLY : CL_MEM_READ_WRITE;
    cl_mem buffer = clCreateBuffer(parlin_device_context(parlin_group_device(group)), flags,
                                   6 * sizeof(float), NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    parlin_tensor out = parlin_tensor_wrap(buffer, PARLIN_F32, 0, 2, 3, 3);
    test_view in = view_make(group, PARLIN_F32, 2, 3);
    refused_by(last_rank(), parlin_all_reduce(group, in.tensor, out), PARLIN_ERROR_ARGUMENT,
               "CL_MEM_HOST_READ_ONLY");
    refused_by(last_rank(), parlin_broadcast(group, 0, out), PARLIN_ERROR_ARGUMENT,
               "CL_MEM_HOST_READ_ONLY");
    view_free(&in);
    clReleaseMemObject(buffer);
}

static void test_no_group(void **state)
{
    (void)state;
    const parlin_tensor t = {0};
    assert_refused(parlin_all_reduce(NULL, t, t), PARLIN_ERROR_ARGUMENT, "group is NULL");
    assert_refused(parlin_all_gather(NULL, 0, NULL, t, t), PARLIN_ERROR_ARGUMENT, "all-gather");
    assert_refused(parlin_reduce_scatter(NULL, 0, NULL, t, t), PARLIN_ERROR_ARGUMENT,
                   "reduce-scatter: group is NULL");
    assert_refused(parlin_broadcast(NULL, 0, t), PARLIN_ERROR_ARGUMENT, "broadcast");
    assert_refused(parlin_all_to_all(NULL, 0, NULL, NULL, t, t), PARLIN_ERROR_ARGUMENT,
                   "all-to-all");
    assert_refused(parlin_barrier(NULL), PARLIN_ERROR_ARGUMENT, "barrier");
    assert_int_equal(parlin_group_size(NULL), 0);
    assert_int_equal(parlin_group_rank(NULL), -1);
    assert_null(parlin_group_device(NULL));
    parlin_group_close(NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_C15_ranks_disagree_on_the_shape),
        cmocka_unit_test(test_ranks_differ),
        cmocka_unit_test(test_refused_on_one_rank),
        cmocka_unit_test(test_all_to_all_lengths_that_do_not_meet),
        cmocka_unit_test(test_the_lowest_failing_rank_is_named),
        cmocka_unit_test(case_C15_an_allocation_fails_on_one_rank),
        cmocka_unit_test(test_agreement_on_a_record),
        cmocka_unit_test(test_destination_not_writable),
        cmocka_unit_test(test_no_group),
    };
    return SUPPORT_RUN_MPI("comm_agreement", tests);
}
