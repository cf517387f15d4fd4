/* SPDX-License-Identifier: Apache-2.0 */
/* Threads and MPI's thread levels. `test_comm_threads LEVEL` starts MPI with it. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/group.h"
#include "support.h"

typedef struct job {
    parlin_group *group;
    int times;
    parlin_status status;
    char sentence[512];
} job;

static void *run_job(void *data)
{
    job *j = data;
    for (int i = 0; i < j->times && j->status == PARLIN_SUCCESS; i++)
        j->status = parlin_barrier(j->group);
    snprintf(j->sentence, sizeof j->sentence, "%s", parlin_last_error());
    return NULL;
}

static void in_a_thread(job *j)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_job, j), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static int level(void)
{
    int given;
    MPI_Query_thread(&given);
    return given;
}

static void refused_in_a_thread(const char *text)
{
    job j = {.group = support_group(), .times = 1};
    in_a_thread(&j);
    assert_int_equal(j.status, PARLIN_ERROR_STATE);
    if (!strstr(j.sentence, text) || !strstr(j.sentence, "MPI_THREAD_MULTIPLE"))
        fail_msg("said \"%s\", wanted \"%s\" and MPI_THREAD_MULTIPLE in it", j.sentence, text);
    assert_ok(parlin_barrier(support_group()));
}

static void test_a_thread_beside_the_main_one(void **state)
{
    (void)state;
    assert_ok(parlin_barrier(support_group()));
    if (level() <= MPI_THREAD_FUNNELED) {
        refused_in_a_thread("called from another thread than the one that started MPI");
        return;
    }
    job j = {.group = support_group(), .times = 3};
    in_a_thread(&j);
    assert_int_equal(j.status, PARLIN_SUCCESS);
}

/* The main thread is inside a call, another comes. */
static void test_two_threads_at_once(void **state)
{
    (void)state;
    pl_transport *transport = support_group()->transport;
    if (level() < MPI_THREAD_MULTIPLE) {
        assert_ok(pl_transport_enter(transport, "first", NULL));
        job j = {.group = support_group(), .times = 1};
        in_a_thread(&j);
        pl_transport_leave(transport);
        assert_int_equal(j.status, PARLIN_ERROR_STATE);
        assert_ok(parlin_barrier(support_group()));
        return;
    }
    /* two groups, a thread each */
    job a = {.group = support_group(), .times = 50}, b = {.times = 50};
    pthread_t thread;
    assert_ok(parlin_group_open(MPI_COMM_WORLD, NULL, &b.group));
    assert_int_equal(pthread_create(&thread, NULL, run_job, &a), 0);
    run_job(&b);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(a.status, PARLIN_SUCCESS);
    assert_int_equal(b.status, PARLIN_SUCCESS);
    parlin_group_close(b.group);
}

/* The sentence for a level that lets threads in one after the other. */
static void test_serialized_second_thread(void **state)
{
    (void)state;
    if (level() != MPI_THREAD_SERIALIZED)
        return;
    pl_transport *transport = support_group()->transport;
    job j = {.group = support_group(), .times = 1};
    assert_ok(pl_transport_enter(transport, "first", NULL));
    in_a_thread(&j);
    pl_transport_leave(transport);
    assert_non_null(strstr(j.sentence, "barrier: another thread is inside a collective"));
    assert_non_null(strstr(j.sentence, "MPI_THREAD_SERIALIZED"));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int level;
    } levels[] = {{"single", MPI_THREAD_SINGLE},
                  {"funneled", MPI_THREAD_FUNNELED},
                  {"serialized", MPI_THREAD_SERIALIZED},
                  {"multiple", MPI_THREAD_MULTIPLE}};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_thread_beside_the_main_one),
        cmocka_unit_test(test_two_threads_at_once),
        cmocka_unit_test(test_serialized_second_thread),
    };
    int wanted = MPI_THREAD_SINGLE;
    for (size_t i = 0; i < 4; i++)
        if (argc > 1 && strcmp(argv[1], levels[i].name) == 0)
            wanted = levels[i].level;
    return support_run_mpi("comm_threads", &argc, &argv, wanted, tests,
                           sizeof tests / sizeof *tests);
}
