/* SPDX-License-Identifier: Apache-2.0 */
/* Different devices may be used by different threads at once. CLBlast, whose program cache races,
   must not: this program stands between it and OpenCL, and sees who is inside. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <parlin/opencl.h>

#include "gemm_case.h"

enum { THREADS = 2, ROUNDS = 20, REPEATS = 20, N = 64 };

/* Launches that began while another was under way; only products without an epilogue are made, so
   that every launch is CLBlast's. */
static atomic_int inside, overlaps;

__attribute__((visibility("default"))) cl_int
clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dims, const size_t *offset,
                       const size_t *global, const size_t *local, cl_uint count,
                       const cl_event *events, cl_event *done)
{
    cl_int (*real)(cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *,
                   const size_t *, cl_uint, const cl_event *, cl_event *);
    *(void **)&real = dlsym(RTLD_NEXT, "clEnqueueNDRangeKernel");
    if (!real)
        abort();
    if (atomic_fetch_add(&inside, 1) > 0)
        atomic_fetch_add(&overlaps, 1);
    for (int i = 0; i < 50; i++) /* gives the other thread its chance */
        sched_yield();
    cl_int code = real(queue, kernel, dims, offset, global, local, count, events, done);
    atomic_fetch_sub(&inside, 1);
    return code;
}

typedef struct worker {
    pthread_t thread;
    pthread_barrier_t *start;
    cl_device_id id;
    int repeats;
    char failure[256]; /* "": none. Checks that end a test belong to its own thread */
} worker;

#define STEP(call)                                                                                 \
    do {                                                                                           \
        if (!w->failure[0] && (call) != PARLIN_SUCCESS)                                            \
            snprintf(w->failure, sizeof w->failure, "%s: %.150s", #call, parlin_last_error());     \
    } while (0)

/* A context of its own, and the first product in it at the same time as in the other thread. */
static void *work(void *argument)
{
    worker *w = argument;
    float ones[N * N], y[N * N];
    for (int i = 0; i < N * N; i++)
        ones[i] = 1;
    support_poison(y, N * N);

    cl_int code;
    cl_context context = clCreateContext(NULL, 1, &w->id, NULL, NULL, &code);
    cl_command_queue queue = clCreateCommandQueue(context, w->id, 0, &code);
    parlin_device *device = NULL;
    pl_weight *weight = NULL;
    parlin_tensor x = {0}, out = {0};
    STEP(parlin_device_wrap(context, w->id, queue, &device));
    STEP(pl_weight_create(device, PARLIN_F32, N, N, &weight));
    STEP(pl_weight_write(weight, 0, N, ones));
    STEP(parlin_tensor_create_on(device, PARLIN_F32, N, N, &x));
    STEP(parlin_tensor_create_on(device, PARLIN_F32, N, N, &out));
    STEP(parlin_tensor_write(x, ones));
    pl_block block = {.out = pl_heads_of_tensor(&out)};
    pl_epilogue epilogue = {.block_count = 1, .blocks = &block};
    if (!w->failure[0])
        pl_weight_force(weight, "clblast");
    pthread_barrier_wait(w->start);
    for (int i = 0; i < w->repeats; i++) {
        STEP(pl_gemm(weight, &x, &epilogue));
        STEP(parlin_tensor_read(out, y));
        for (int j = 0; j < N * N && !w->failure[0]; j++)
            if (y[j] != N)
                snprintf(w->failure, sizeof w->failure, "element %d is %g, wanted %d", j,
                         (double)y[j], N);
    }
    if (!w->failure[0] && pl_weight_engine(weight) != pl_engine_clblast.name)
        snprintf(w->failure, sizeof w->failure, "engine %s", pl_weight_engine(weight));
    pl_weight_destroy(weight);
    parlin_tensor_destroy(&x);
    parlin_tensor_destroy(&out);
    parlin_device_close(device);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    return NULL;
}

static void run_workers(int repeats)
{
    const cl_device_id id = parlin_device_id(gemm_device());
    pthread_barrier_t start;
    worker workers[THREADS] = {0};
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        workers[i].start = &start;
        workers[i].id = id;
        workers[i].repeats = repeats;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    pthread_barrier_destroy(&start);
    for (int i = 0; i < THREADS; i++)
        assert_string_equal(workers[i].failure, "");
}

static void case_C24_first_products_at_once(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++)
        run_workers(1);
    assert_int_equal(atomic_load(&overlaps), 0);
}

static void case_C24_one_thread_in_clblast(void **state)
{
    (void)state;
    run_workers(REPEATS);
    assert_int_equal(atomic_load(&overlaps), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_C24_first_products_at_once),
        cmocka_unit_test(case_C24_one_thread_in_clblast),
    };
    int failed = SUPPORT_RUN("gemm/threads", tests);
    gemm_device_close();
    return failed;
}
