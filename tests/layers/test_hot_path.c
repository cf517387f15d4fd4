/* SPDX-License-Identifier: Apache-2.0 */
/* After the first forward a forward takes nothing more: no device buffer, no program, no host
   memory by parlin itself. Counted, not timed. The test links the static library, so that
   allocations by parlin's code are those whose caller lies in this program; what OpenCL, CLBlast
   and MPI allocate for themselves is theirs. */
#define _GNU_SOURCE
#include "forward.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <parlin/opencl.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTS_MALLOC 0 /* the sanitizer has taken malloc's place */
#else
#define COUNTS_MALLOC 1
#endif

static _Thread_local bool counting;
static _Thread_local unsigned allocations, buffers;

/* Device buffers, CLBlast's included. */
cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *code)
{
    static cl_mem (*next)(cl_context, cl_mem_flags, size_t, void *, cl_int *);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "clCreateBuffer");
    buffers += counting;
    return next(context, flags, size, host, code);
}

#if COUNTS_MALLOC
extern const char __executable_start, etext;

static void count(const void *caller)
{
    const char *at = caller;
    allocations += counting && at >= &__executable_start && at < &etext;
}
#define COUNT() count(__builtin_extract_return_addr(__builtin_return_address(0)))

/* dlsym may ask for memory before it has found where memory comes from. */
static char early[4096];
static size_t early_used;

static void *early_take(size_t bytes)
{
    size_t at = early_used;
    early_used += (bytes + 15) / 16 * 16;
    return early_used <= sizeof early ? early + at : NULL;
}

void *malloc(size_t bytes)
{
    static void *(*next)(size_t);
    static bool looking;
    if (!next) {
        if (looking)
            return early_take(bytes);
        looking = true;
        *(void **)&next = dlsym(RTLD_NEXT, "malloc");
    }
    COUNT();
    return next(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    static void *(*next)(size_t, size_t);
    static bool looking;
    if (!next) {
        if (looking)
            return early_take(n * bytes);
        looking = true;
        *(void **)&next = dlsym(RTLD_NEXT, "calloc");
    }
    COUNT();
    return next(n, bytes);
}

void *realloc(void *old, size_t bytes)
{
    static void *(*next)(void *, size_t);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "realloc");
    COUNT();
    return next(old, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    static void *(*next)(size_t, size_t);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "aligned_alloc");
    COUNT();
    return next(alignment, bytes);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    static int (*next)(void **, size_t, size_t);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "posix_memalign");
    COUNT();
    return next(memory, alignment, bytes);
}

char *strdup(const char *text)
{
    static char *(*next)(const char *);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "strdup");
    COUNT();
    return next(text);
}

void free(void *memory)
{
    static void (*next)(void *);
    if ((char *)memory >= early && (char *)memory < early + sizeof early)
        return;
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "free");
    next(memory);
}
#endif

static void start_counting(void)
{
    allocations = buffers = 0;
    counting = true;
}

static void stop_counting(void)
{
    counting = false;
}

/* The counting counts. */
static void test_counters_see_a_creation(void **state)
{
    (void)state;
    layers_case c = {.kind = PARLIN_COLUMN, .in = 3, .out = 17};
    parlin_layer *layer = NULL;
    start_counting();
    parlin_status status = layers_try(support_group(), &c, &layer);
    stop_counting();
    assert_ok(status);
    assert_true(buffers > 0);
#if COUNTS_MALLOC
    assert_true(allocations > 0);
#endif
    parlin_layer_destroy(layer);
}

/* --- forwards --- */

typedef struct hot {
    parlin_layer *layer;
    parlin_tensor x, y, residual;
    parlin_heads q, k, v;
    int mode; /* 0 plain, 1 residual, 2 residual in place, 3 three views */
} hot;

static parlin_status once(const hot *h)
{
    switch (h->mode) {
    case 1:
        return parlin_layer_forward_residual(h->layer, h->x, h->residual, h->y);
    case 2:
        return parlin_layer_forward_residual(h->layer, h->x, h->y, h->y);
    case 3:
        return parlin_qkv_forward(h->layer, h->x, h->q, h->k, h->v);
    default:
        return parlin_layer_forward(h->layer, h->x, h->y);
    }
}

static void check(parlin_group *group, const layers_case *c, size_t rows, int mode)
{
    enum { MORE = 100 };
    parlin_device *device = parlin_group_device(group);
    forward f = forward_begin(group, c, 7000, false);
    parlin_layer_info info = parlin_layer_get_info(f.layer);
    view x = view_at(device, rows, 1, info.input_cols, 1, info.input_cols + 1, 1, 0);
    view y = view_at(device, rows, 1, info.output_cols, 1, info.output_cols + 1, 1, 0);
    view r = view_at(device, rows, 1, info.output_cols, 1, info.output_cols + 1, 1, 0);
    hot h = {.layer = f.layer, .x = x.tensor, .y = y.tensor, .residual = r.tensor, .mode = mode};
    if (mode == 3) {
        parlin_qkv_shape s = parlin_qkv_local(f.layer);
        size_t q = s.heads * s.head_size, k = s.kv_heads * s.head_size;
        h.q = parlin_tensor_heads(parlin_tensor_cols(y.tensor, 0, q), s.heads, s.head_size);
        h.k = parlin_tensor_heads(parlin_tensor_cols(y.tensor, q, k), s.kv_heads, s.head_size);
        h.v = parlin_tensor_heads(parlin_tensor_cols(y.tensor, q + k, info.output_cols - q - k),
                                  s.kv_heads, s.v_head_size);
    }
    assert_ok(once(&h));
    assert_ok(parlin_device_finish(device));

    parlin_device_counters before = parlin_device_get_counters(device);
    start_counting();
    parlin_status status = PARLIN_SUCCESS;
    for (int i = 0; i < MORE && !status; i++)
        status = once(&h);
    stop_counting();
    parlin_device_counters now = parlin_device_get_counters(device);
    assert_ok(status);
    assert_int_equal(allocations, 0);
    assert_int_equal(buffers, 0);
    assert_int_equal(now.buffers_created, before.buffers_created);
    assert_int_equal(now.buffers_live, before.buffers_live);
    assert_int_equal(now.bytes_peak, before.bytes_peak);
    assert_int_equal(now.programs_built, before.programs_built);
    assert_int_equal(now.programs_loaded, before.programs_loaded);
    assert_true(now.launches >= before.launches + MORE);
    assert_ok(parlin_device_finish(device));
    forward_check(&f, rows, NO_RESIDUAL); /* and it still computes */
    view_free(&x);
    view_free(&y);
    view_free(&r);
    forward_end(&f);
}

static const layers_case cases[] = {
    {.kind = PARLIN_COLUMN, .in = 17, .out = 40, .bias = true, .activation = PARLIN_GELU},
    {.kind = PARLIN_COLUMN, .in = 17, .out = 40, .bias = true, .gather_output = true},
    {.kind = PARLIN_MERGED, .in = 17, .parts = 3, .part_out = {9, 20, 11}, .bias = true},
    {.kind = PARLIN_MERGED,
     .in = 17,
     .parts = 2,
     .part_out = {20, 20},
     .gated = true,
     .activation = PARLIN_SILU,
     .gather_output = true},
    {.kind = PARLIN_ROW, .in = 40, .out = 17, .bias = true},
    {.kind = PARLIN_ROW, .in = 40, .out = 17, .bias = true, .whole_input = true},
    {.kind = PARLIN_ROW, .in = 40, .out = 17, .partial = true},
    {.kind = PARLIN_QKV, .in = 17, .heads = 8, .kv_heads = 4, .head_size = 4, .bias = true},
};

static void test_repeated_forwards_take_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int mode = 0; mode < 4; mode++) {
            bool is_qkv = cases[i].kind == PARLIN_QKV;
            if (mode == 3 ? !is_qkv : mode > 0 && (is_qkv || cases[i].partial))
                continue;
            check(support_group(), &cases[i], 1, mode);
            check(support_group(), &cases[i], 17, mode);
        }
}

/* Rows that come and go: what the largest needed serves the smaller ones. */
static void test_changing_rows_take_nothing(void **state)
{
    (void)state;
    static const size_t rows[] = {64, 1, 33, 0, 2, 64, 17};
    parlin_group *group = support_group();
    parlin_device *device = parlin_group_device(group);
    layers_case c = {.kind = PARLIN_ROW, .in = 40, .out = 17, .bias = true};
    forward f = forward_begin(group, &c, 7100, true);
    size_t in = parlin_layer_get_info(f.layer).input_cols;
    view x = view_at(device, 64, 1, in, 0, in, 1, 0), y = view_at(device, 64, 1, 17, 0, 17, 1, 0);
    parlin_device_counters before = {0};
    parlin_status status = PARLIN_SUCCESS;
    for (int round = 0; round < 11 && !status; round++) {
        if (round == 1) {
            assert_ok(parlin_device_finish(device));
            before = parlin_device_get_counters(device);
            start_counting();
        }
        for (size_t i = 0; i < sizeof rows / sizeof *rows && !status; i++)
            status = parlin_layer_forward(f.layer, parlin_tensor_rows(x.tensor, 0, rows[i]),
                                          parlin_tensor_rows(y.tensor, 0, rows[i]));
    }
    stop_counting();
    parlin_device_counters now = parlin_device_get_counters(device);
    assert_ok(status);
    assert_int_equal(allocations, 0);
    assert_int_equal(buffers, 0);
    assert_int_equal(now.buffers_created, before.buffers_created);
    assert_int_equal(now.programs_built + now.programs_loaded,
                     before.programs_built + before.programs_loaded);
    view_free(&x);
    view_free(&y);
    forward_end(&f);
}

/* A refused forward may format its sentence, and takes no memory either. */
static void test_refused_forwards_take_nothing(void **state)
{
    (void)state;
    layers_case c = {.kind = PARLIN_ROW, .in = 40, .out = 17, .bias = true};
    forward f = forward_begin(support_group(), &c, 7200, true);
    forward_check(&f, 2, NO_RESIDUAL);
    parlin_tensor x = {0};
    start_counting();
    parlin_status status = PARLIN_SUCCESS;
    for (int i = 0; i < 10; i++)
        status = parlin_layer_forward(f.layer, x, x);
    stop_counting();
    assert_int_equal(status, PARLIN_ERROR_ARGUMENT);
    assert_int_equal(allocations, 0);
    assert_int_equal(buffers, 0);
    forward_end(&f);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counters_see_a_creation),
        cmocka_unit_test(test_repeated_forwards_take_nothing),
        cmocka_unit_test(test_changing_rows_take_nothing),
        cmocka_unit_test(test_refused_forwards_take_nothing),
    };
    return SUPPORT_RUN_MPI("layers: hot path", tests);
}
