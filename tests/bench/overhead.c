/* SPDX-License-Identifier: Apache-2.0 */
/* Host time that a column layer's forward adds to the bare CLBlast call for the same product.

     bench_overhead [COUNT [ROWS OUT IN]]      default 2000 4 64 64

   "call" is the time until the call returns, "done" until the device has finished. Both kinds of
   call are made in turn on one queue and in one context, so that both see the same machine. The
   median is printed with the quartiles around it. Nothing is asserted. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <clblast_c.h>

#include <parlin/opencl.h>
#include <parlin/parlin.h>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        if ((call) != PARLIN_SUCCESS) {                                                            \
            fprintf(stderr, "%s: %s\n", #call, parlin_last_error());                               \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* One thing that is timed, and its samples in microseconds. */
typedef struct subject {
    const char *name;
    parlin_layer *layer; /* NULL: the bare call */
    double *call, *done;
} subject;

typedef struct bench {
    size_t rows, out, in, count;
    parlin_device *device;
    cl_command_queue queue;
    parlin_tensor x, w, y;
} bench;

static parlin_layer *make_layer(parlin_group *group, const bench *b, bool bias)
{
    parlin_column_config config = parlin_column_defaults();
    config.in_features = b->in;
    config.out_features = b->out;
    config.bias = bias;
    config.weight_init.kind = PARLIN_INIT_ONES;
    config.bias_init.kind = bias ? PARLIN_INIT_ONES : PARLIN_INIT_NONE;
    parlin_layer *layer;
    CHECK(parlin_column_create(group, &config, &layer));
    return layer;
}

static void run(bench *b, subject *s, size_t sample)
{
    const double start = seconds();
    if (s->layer) {
        CHECK(parlin_layer_forward(s->layer, b->x, b->y));
    } else {
        CLBlastStatusCode code =
            CLBlastSgemm(CLBlastLayoutRowMajor, CLBlastTransposeNo, CLBlastTransposeYes, b->rows,
                         b->out, b->in, 1.0f, b->x.buffer, 0, b->in, b->w.buffer, 0, b->in, 0.0f,
                         b->y.buffer, 0, b->out, &b->queue, NULL);
        if (code != CLBlastSuccess) {
            fprintf(stderr, "CLBlastSgemm: status %d\n", (int)code);
            exit(1);
        }
    }
    const double called = seconds();
    CHECK(parlin_device_finish(b->device));
    s->call[sample] = 1e6 * (called - start);
    s->done[sample] = 1e6 * (seconds() - start);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The value below which a fraction `part` of the sorted samples lies. */
static double quantile(const double *sorted, size_t count, double part)
{
    return sorted[(size_t)(part * (double)(count - 1) + 0.5)];
}

int main(int argc, char **argv)
{
    bench b = {.count = 2000, .rows = 4, .out = 64, .in = 64};
    size_t *const numbers[] = {&b.count, &b.rows, &b.out, &b.in};
    for (int i = 1; i < argc && i <= 4; i++)
        *numbers[i - 1] = strtoul(argv[i], NULL, 10);
    if (argc > 5 || !b.count || !b.rows || !b.out || !b.in) {
        fprintf(stderr, "usage: bench_overhead [COUNT [ROWS OUT IN]], all above 0\n");
        return 2;
    }

    parlin_group *group;
    CHECK(parlin_group_open_single(NULL, &group));
    b.device = parlin_group_device(group);
    b.queue = parlin_device_queue(b.device);
    CHECK(parlin_tensor_create(group, PARLIN_F32, b.rows, b.in, &b.x));
    CHECK(parlin_tensor_create(group, PARLIN_F32, b.out, b.in, &b.w));
    CHECK(parlin_tensor_create(group, PARLIN_F32, b.rows, b.out, &b.y));
    float *zeros = calloc((b.rows + b.out) * b.in, sizeof *zeros);
    if (!zeros)
        return 1;
    CHECK(parlin_tensor_write(b.x, zeros));
    CHECK(parlin_tensor_write(b.w, zeros));

    subject subjects[] = {{.name = "CLBlastSgemm"},
                          {.name = "column", .layer = make_layer(group, &b, false)},
                          {.name = "column with bias", .layer = make_layer(group, &b, true)}};
    enum { SUBJECTS = sizeof subjects / sizeof *subjects };
    for (int s = 0; s < SUBJECTS; s++) {
        subjects[s].call = calloc(b.count, sizeof(double));
        subjects[s].done = calloc(b.count, sizeof(double));
        if (!subjects[s].call || !subjects[s].done)
            return 1;
    }
    for (size_t i = 0; i < b.count + 10; i++) /* ten rounds of warming up */
        for (int s = 0; s < SUBJECTS; s++)
            run(&b, &subjects[s], i < 10 ? 0 : i - 10);

    parlin_device_info info;
    CHECK(parlin_device_get_info(b.device, &info));
    printf("%zu rows, (%zu, %zu), f32, on %s; %zu calls each, microseconds\n\n", b.rows, b.out,
           b.in, info.name, b.count);
    printf(
        "                       call   quartiles        added    done   quartiles        added\n");
    double call_0 = 0, done_0 = 0;
    for (int s = 0; s < SUBJECTS; s++) {
        subject *now = &subjects[s];
        qsort(now->call, b.count, sizeof(double), ascending);
        qsort(now->done, b.count, sizeof(double), ascending);
        const double call = quantile(now->call, b.count, 0.5);
        const double done = quantile(now->done, b.count, 0.5);
        if (s == 0) {
            call_0 = call;
            done_0 = done;
        }
        printf("%-18s %8.2f %7.2f %7.2f %9.2f %8.2f %7.2f %7.2f %9.2f\n", now->name, call,
               quantile(now->call, b.count, 0.25), quantile(now->call, b.count, 0.75),
               call - call_0, done, quantile(now->done, b.count, 0.25),
               quantile(now->done, b.count, 0.75), done - done_0);
        parlin_layer_destroy(now->layer);
        free(now->call);
        free(now->done);
    }
    parlin_tensor_destroy(&b.x);
    parlin_tensor_destroy(&b.w);
    parlin_tensor_destroy(&b.y);
    parlin_group_close(group);
    free(zeros);
    return 0;
}
