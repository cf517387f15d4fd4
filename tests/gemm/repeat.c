/* SPDX-License-Identifier: Apache-2.0 */
/* A repeated product allocates nothing on the device and builds nothing, CLBlast's own calls
   included: this program stands between all callers and OpenCL, and counts. Memory stays flat. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <parlin/opencl.h>

#include "gemm_case.h"

static size_t buffers, programs;

static void *next(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (!found)
        abort();
    return found;
}

#define SEEN __attribute__((visibility("default")))

SEEN cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host,
                           cl_int *code)
{
    cl_mem (*real)(cl_context, cl_mem_flags, size_t, void *, cl_int *);
    *(void **)&real = next("clCreateBuffer");
    buffers++;
    return real(context, flags, size, host, code);
}

SEEN cl_int clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices,
                           const char *options, void (*notify)(cl_program, void *), void *data)
{
    cl_int (*real)(cl_program, cl_uint, const cl_device_id *, const char *,
                   void (*)(cl_program, void *), void *);
    *(void **)&real = next("clBuildProgram");
    programs++;
    return real(program, count, devices, options, notify, data);
}

/* Resident memory in KiB. AddressSanitizer holds back what was freed, so that it says nothing
   there, and the leak check at the end takes its place. */
static long resident(void)
{
#ifdef __SANITIZE_ADDRESS__
    return 0;
#endif
    long total, pages;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld", &total, &pages), 2);
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

typedef struct product {
    parlin_device *device;
    pl_weight *weight;
    parlin_tensor x, y;
    cl_mem bias;
    pl_block block;
    pl_epilogue epilogue;
} product;

static void product_make(product *p, parlin_device *device, const char *engine, size_t rows,
                         size_t out, size_t in, bool bias)
{
    float *zeros = support_alloc_floats((out + rows) * in);
    memset(zeros, 0, (out + rows) * in * sizeof *zeros);
    p->device = device;
    assert_ok(pl_weight_create(device, PARLIN_F32, out, in, &p->weight));
    assert_ok(pl_weight_write(p->weight, 0, out, zeros));
    assert_true(pl_weight_force(p->weight, engine));
    assert_ok(parlin_tensor_create_on(device, PARLIN_F32, rows, in, &p->x));
    assert_ok(parlin_tensor_create_on(device, PARLIN_F32, rows, out, &p->y));
    assert_ok(parlin_tensor_write(p->x, zeros));
    assert_ok(pl_buffer_create(device, out * sizeof(float), &p->bias));
    p->block = (pl_block){.out = pl_heads_of_tensor(&p->y)};
    p->epilogue =
        (pl_epilogue){.bias = bias ? p->bias : NULL, .block_count = 1, .blocks = &p->block};
    free(zeros);
}

static void product_run(product *p)
{
    assert_ok(pl_gemm(p->weight, &p->x, &p->epilogue));
}

static void product_end(product *p)
{
    parlin_tensor_destroy(&p->x);
    parlin_tensor_destroy(&p->y);
    pl_buffer_release(p->device, p->bias, p->weight->out * sizeof(float));
    pl_weight_destroy(p->weight);
}

static void nothing_is_made_again(void **state)
{
    (void)state;
    /* One row, CLBlast's kernel for small products, and, from 896 cubed on, that for large ones. */
    static const size_t sizes[][3] = {{1, 64, 48}, {4, 64, 48}, {96, 2700, 2800}};
    static const char *const engines[] = {"plain", "clblast"};
    for (int e = 0; e < 2; e++)
        for (size_t s = 0; s < 3; s++)
            for (int bias = 0; bias < 2; bias++) {
                product p;
                product_make(&p, gemm_device(), engines[e], sizes[s][0], sizes[s][1], sizes[s][2],
                             bias);
                const size_t buffers_before = buffers, programs_before = programs;
                product_run(&p);
                assert_ok(parlin_device_finish(p.device));
                if (e == 1 && s == 2) /* the scratch of this size is new: we do stand between */
                    assert_true(p.weight->plan.temp_bytes > 0 &&
                                (bias || buffers > buffers_before));
                if (e == 0 && s == 0 && bias == 0)
                    assert_true(programs > programs_before);
                const parlin_device_counters first = parlin_device_get_counters(p.device);
                const size_t buffers_first = buffers, programs_first = programs;
                for (int i = 0; i < 5; i++)
                    product_run(&p);
                assert_ok(parlin_device_finish(p.device));
                const parlin_device_counters last = parlin_device_get_counters(p.device);
                assert_int_equal(buffers, buffers_first);
                assert_int_equal(programs, programs_first);
                assert_int_equal(last.buffers_created, first.buffers_created);
                assert_int_equal(last.bytes_live, first.bytes_live);
                assert_int_equal(last.programs_built, first.programs_built);
                assert_int_equal(last.programs_loaded, first.programs_loaded);
                /* CLBlast's call; the zeros before it for one row; the epilogue after it */
                const uint64_t launches = e == 0 ? 1 : 1 + (s == 0) + (bias == 1);
                assert_int_equal(last.launches - first.launches, 5 * launches);
                product_end(&p);
            }
}

/* M = 4, K = 8, N = 8. What a product may keep: nothing; less than 1 KiB in 100 is within the
   noise of the allocator. */
static void case_C25_products_keep_nothing(void **state)
{
    (void)state;
    for (int bias = 0; bias < 2; bias++) {
        product p;
        product_make(&p, gemm_device(), "clblast", 4, 8, 8, bias);
        long before = 0;
        for (int i = 0; i < 10000; i++) {
            if (i == 1000)
                before = resident();
            product_run(&p);
            if (i % 100 == 0)
                assert_ok(parlin_device_finish(p.device));
        }
        assert_ok(parlin_device_finish(p.device));
        assert_in_range(resident() - before + 4096, 0, 4096 + 90);
        product_end(&p);
    }
}

/* CLBlast alone would keep 1.5 MB for every context; 100 KiB of other people's memory for an
   opening are let pass. */
static void case_C25_devices_keep_nothing(void **state)
{
    (void)state;
    gemm_device_close();
    long before = 0;
    enum { WARM = 10, TIMES = 100 };
    for (int i = 0; i < TIMES; i++) {
        if (i == WARM)
            before = resident();
        parlin_device *device;
        product p;
        assert_ok(parlin_device_open(NULL, &device));
        product_make(&p, device, "clblast", 4, 8, 8, true);
        product_run(&p);
        assert_ok(parlin_device_finish(device));
        assert_string_equal(pl_weight_engine(p.weight), "clblast");
        product_end(&p);
        parlin_device_close(device);
    }
    assert_in_range(resident() - before + 65536, 0, 65536 + (TIMES - WARM) * 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_made_again),
        cmocka_unit_test(case_C25_products_keep_nothing),
        cmocka_unit_test(case_C25_devices_keep_nothing),
    };
    int failed = SUPPORT_RUN("gemm/repeat", tests);
    gemm_device_close();
    return failed;
}
