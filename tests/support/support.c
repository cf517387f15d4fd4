/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static parlin_group *world_group;
static uint64_t seed;
static size_t tests_skipped;

static int mpi_running(void)
{
    int started = 0, ended = 0;
    MPI_Initialized(&started);
    MPI_Finalized(&ended);
    return started && !ended;
}

int support_rank(void)
{
    int rank = 0;
    if (mpi_running())
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

int support_size(void)
{
    int size = 1;
    if (mpi_running())
        MPI_Comm_size(MPI_COMM_WORLD, &size);
    return size;
}

static void choose_seed(void)
{
    const char *text = getenv("PARLIN_TEST_SEED");
    seed = text ? strtoull(text, NULL, 0) : (uint64_t)time(NULL);
    if (mpi_running())
        MPI_Bcast(&seed, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    if (support_rank() == 0)
        fprintf(stderr, "PARLIN_TEST_SEED=%llu\n", (unsigned long long)seed);
}

uint64_t support_seed(void)
{
    return seed;
}

static int run(const char *name, const struct CMUnitTest *tests, size_t count)
{
    choose_seed();
    int failed = count == 0 ? 1 : _cmocka_run_group_tests(name, tests, count, NULL, NULL);
    if (count > 0 && tests_skipped == count)
        fprintf(stderr, "every test skipped\n");
    parlin_group_close(world_group);
    world_group = NULL;
    return failed;
}

int support_run(const char *name, const struct CMUnitTest *tests, size_t count)
{
    return run(name, tests, count) != 0;
}

int support_run_mpi(const char *name, int *argc, char ***argv, int level,
                    const struct CMUnitTest *tests, size_t count)
{
    int given;
    MPI_Init_thread(argc, argv, level, &given);
    int failed = run(name, tests, count), any = 0;
    if (failed)
        fprintf(stderr, "rank %d: %d of %zu tests failed\n", support_rank(), failed, count);
    MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
    return any != 0;
}

parlin_group *support_group(void)
{
    if (!world_group) {
        parlin_group_config config = parlin_group_defaults();
        config.timeout_seconds = 60;
        if (mpi_running())
            assert_ok(parlin_group_open(MPI_COMM_WORLD, &config, &world_group));
        else
            assert_ok(parlin_group_open_single(&config, &world_group));
    }
    return world_group;
}

void support_skipping(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "skipped: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    tests_skipped++;
}

/* splitmix64 (Steele, Lea and Flood, 2014) */
uint64_t support_next(support_random *random)
{
    uint64_t z = random->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

float support_float(support_random *random)
{
    return (float)(support_next(random) >> 40) * 0x1p-23f - 1.0f;
}

size_t support_below(support_random *random, size_t limit)
{
    return (size_t)(support_next(random) % limit);
}

void support_floats(support_random *random, float *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = support_float(random);
}

void support_integers(support_random *random, float *out, size_t n, int bound)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (float)((int)support_below(random, 2 * (size_t)bound + 1) - bound);
}

void support_assert_ok(parlin_status status, const char *call, const char *file, int line)
{
    if (status == PARLIN_SUCCESS)
        return;
    fprintf(stderr, "rank %d: %s\n  gave %s: %s\n", support_rank(), call,
            parlin_status_string(status), parlin_last_error());
    _fail(file, line);
}

void support_assert_refused(parlin_status status, parlin_status wanted, const char *call,
                            const char *file, int line, const char *const *texts)
{
    if (status != wanted) {
        fprintf(stderr, "rank %d: %s\n  gave %s (%s), wanted %s\n", support_rank(), call,
                parlin_status_string(status), status ? parlin_last_error() : "",
                parlin_status_string(wanted));
        _fail(file, line);
    }
    for (; *texts; texts++)
        if (!strstr(parlin_last_error(), *texts)) {
            fprintf(stderr, "rank %d: %s\n  said \"%s\", wanted \"%s\" in it\n", support_rank(),
                    call, parlin_last_error(), *texts);
            _fail(file, line);
        }
}

void support_poison(float *out, size_t n)
{
    const uint32_t bits = SUPPORT_POISON;
    for (size_t i = 0; i < n; i++)
        memcpy(&out[i], &bits, sizeof bits);
}

int support_is_poison(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits == SUPPORT_POISON;
}

double support_error(const float *out, const double *ref, size_t n)
{
    double difference = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        if (isnan(ref[i]) || isinf(ref[i])) {
            if (!(isnan(ref[i]) ? isnan(out[i]) : (double)out[i] == ref[i]))
                return INFINITY;
            continue;
        }
        if (!isfinite(out[i]))
            return INFINITY;
        difference += (out[i] - ref[i]) * (out[i] - ref[i]);
        norm += ref[i] * ref[i];
    }
    if (norm == 0)
        return difference == 0 ? 0 : INFINITY;
    return sqrt(difference / norm);
}

void support_assert_close(const float *out, const double *ref, size_t n, double bound,
                          const char *what, const char *file, int line)
{
    double error = support_error(out, ref, n);
    if (error <= bound)
        return;
    fprintf(stderr,
            "rank %d: %s: relative error %g over %zu elements, at most %g wanted (seed %llu)\n",
            support_rank(), what, error, n, bound, (unsigned long long)seed);
    for (size_t i = 0, shown = 0; i < n && shown < 4; i++)
        if (!(fabs(out[i] - ref[i]) <= bound * (1 + fabs(ref[i])))) {
            fprintf(stderr, "  [%zu] is %g%s, wanted %g\n", i, out[i],
                    support_is_poison(out[i]) ? " (never written)" : "", ref[i]);
            shown++;
        }
    _fail(file, line);
}

void support_assert_same(const float *out, const float *ref, size_t n, const char *what,
                         const char *file, int line)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&out[i], &ref[i], sizeof *out) != 0) {
            fprintf(stderr, "rank %d: %s[%zu] is %.9g%s, wanted %.9g (seed %llu)\n", support_rank(),
                    what, i, out[i], support_is_poison(out[i]) ? " (never written)" : "", ref[i],
                    (unsigned long long)seed);
            _fail(file, line);
        }
}

void *support_alloc(size_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory)
        fail_msg("no memory for %zu bytes", bytes);
    return memory;
}

float *support_alloc_floats(size_t n)
{
    float *memory = support_alloc(n * sizeof(float));
    support_poison(memory, n);
    return memory;
}
