/* SPDX-License-Identifier: Apache-2.0 */
/* What all tests share: start and end, seeds, and checks that print call, given, wanted and
   rank. */
#ifndef SUPPORT_H
#define SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <parlin/mpi.h>
#include <parlin/parlin.h>

/* Runs the tests in this process alone, MPI not started. The value is main's. A run of no test
   is a failure. */
int support_run(const char *name, const struct CMUnitTest *tests, size_t count);

/* The same with MPI started (thread level `level`), on every rank; fails on all ranks where it
   fails on one. */
int support_run_mpi(const char *name, int *argc, char ***argv, int level,
                    const struct CMUnitTest *tests, size_t count);

#define SUPPORT_RUN(name, tests) support_run(name, tests, sizeof(tests) / sizeof *(tests))
#define SUPPORT_RUN_MPI(name, tests)                                                               \
    support_run_mpi(name, &argc, &argv, MPI_THREAD_SINGLE, tests, sizeof(tests) / sizeof *(tests))

/* MPI_COMM_WORLD's place; 0 of 1 where MPI is not started. */
int support_rank(void);
int support_size(void);

/* A group over the world with a time limit of 60 s, opened once and kept until the end of the
   run; in a run without MPI a single group. */
parlin_group *support_group(void);

/* Marks the running test as skipped, with a reason on stderr. */
#define SUPPORT_SKIP(...)                                                                          \
    do {                                                                                           \
        support_skipping(__VA_ARGS__);                                                             \
        skip();                                                                                    \
    } while (0)
__attribute__((format(printf, 1, 2))) void support_skipping(const char *format, ...);

/* --- random numbers: a seed that is printed, alike on all ranks (PARLIN_TEST_SEED repeats a
   run) --- */
uint64_t support_seed(void);

typedef struct support_random {
    uint64_t state;
} support_random;

uint64_t support_next(support_random *random);
float support_float(support_random *random);                       /* in [-1, 1) */
size_t support_below(support_random *random, size_t limit);        /* in [0, limit) */
void support_floats(support_random *random, float *out, size_t n); /* in [-1, 1) */
void support_integers(support_random *random, float *out, size_t n,
                      int bound); /* whole, in [-bound, bound] */

/* --- checks --- */

/* The call succeeds; else the sentence is printed with the rank and the test fails. */
#define assert_ok(call) support_assert_ok(call, #call, __FILE__, __LINE__)
void support_assert_ok(parlin_status status, const char *call, const char *file, int line);

/* The call fails with this status, and its sentence holds every one of the given texts. */
#define assert_refused(call, status, ...)                                                          \
    support_assert_refused(call, status, #call, __FILE__, __LINE__,                                \
                           (const char *const[]){__VA_ARGS__, NULL})
void support_assert_refused(parlin_status status, parlin_status wanted, const char *call,
                            const char *file, int line, const char *const *texts);

/* What an output is filled with before a check: a NaN whose bits are told from any computed one. */
#define SUPPORT_POISON 0x7fc0dead
void support_poison(float *out, size_t n);
int support_is_poison(float value);

/* ||out - ref|| / ||ref|| (Frobenius); infinite where out has a NaN or infinity that ref has
   not. */
double support_error(const float *out, const double *ref, size_t n);

/* The bounds of DESIGN section 10, by compute type. */
#define SUPPORT_F32_BOUND 1e-5
#define assert_close(out, ref, n)                                                                  \
    support_assert_close(out, ref, n, SUPPORT_F32_BOUND, #out, __FILE__, __LINE__)
void support_assert_close(const float *out, const double *ref, size_t n, double bound,
                          const char *what, const char *file, int line);

/* Bit for bit equal; prints the first difference. */
#define assert_same_floats(out, ref, n) support_assert_same(out, ref, n, #out, __FILE__, __LINE__)
void support_assert_same(const float *out, const float *ref, size_t n, const char *what,
                         const char *file, int line);

/* --- reference.c: the double-precision host reference --- */

/* y = act(x w^T + b), x (rows, in), w (out, in), b NULL or [out]; all dense. */
void reference_linear(size_t rows, size_t out, size_t in, const float *x, const float *w,
                      const float *b, parlin_activation activation, double *y);
double reference_activation(parlin_activation activation, double z);

/* malloc that fails the test. */
void *support_alloc(size_t bytes);
float *support_alloc_floats(size_t n); /* n may be 0 */

#endif
