/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/status.h"

static void test_table(void **state)
{
    (void)state;
    static const struct {
        parlin_status status;
        int value;
        const char *name;
    } wanted[] = {
        {PARLIN_SUCCESS, 0, "PARLIN_SUCCESS"},
        {PARLIN_ERROR_ARGUMENT, 1, "PARLIN_ERROR_ARGUMENT"},
        {PARLIN_ERROR_SHAPE, 2, "PARLIN_ERROR_SHAPE"},
        {PARLIN_ERROR_UNSUPPORTED, 3, "PARLIN_ERROR_UNSUPPORTED"},
        {PARLIN_ERROR_STATE, 4, "PARLIN_ERROR_STATE"},
        {PARLIN_ERROR_MEMORY, 5, "PARLIN_ERROR_MEMORY"},
        {PARLIN_ERROR_NO_DEVICE, 6, "PARLIN_ERROR_NO_DEVICE"},
        {PARLIN_ERROR_DEVICE, 7, "PARLIN_ERROR_DEVICE"},
        {PARLIN_ERROR_BUILD, 8, "PARLIN_ERROR_BUILD"},
        {PARLIN_ERROR_COMM, 9, "PARLIN_ERROR_COMM"},
        {PARLIN_ERROR_MISMATCH, 10, "PARLIN_ERROR_MISMATCH"},
        {PARLIN_ERROR_GROUP_LOST, 11, "PARLIN_ERROR_GROUP_LOST"},
        {PARLIN_ERROR_FILE, 12, "PARLIN_ERROR_FILE"},
    };
    /* The numbers are part of the binary interface: once given, they stay. */
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        assert_int_equal((int)wanted[i].status, wanted[i].value);
        assert_string_equal(parlin_status_string(wanted[i].status), wanted[i].name);
        assert_true(strlen(parlin_status_meaning(wanted[i].status)) > 0);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(parlin_status_meaning(wanted[i].status),
                                    parlin_status_meaning(wanted[j].status));
    }
    size_t rows = 0;
#define COUNT(name, value, meaning) rows++;
    PARLIN_STATUS_TABLE(COUNT)
#undef COUNT
    assert_int_equal(rows, sizeof wanted / sizeof *wanted);
}

static void test_unknown_code(void **state)
{
    (void)state;
    assert_string_equal(parlin_status_string((parlin_status)9999), "unknown parlin_status");
    assert_string_equal(parlin_status_meaning((parlin_status)9999), "not a status of this library");
}

static void test_sentence(void **state)
{
    (void)state;
    assert_int_equal(pl_error(PARLIN_ERROR_SHAPE, "cols %d, wanted %zu", 3, (size_t)4),
                     PARLIN_ERROR_SHAPE);
    assert_string_equal(parlin_last_error(), "cols 3, wanted 4");
    /* A prefix to the former sentence: it is its own argument. */
    assert_int_equal(pl_error(PARLIN_ERROR_COMM, "rank 1: %s", parlin_last_error()),
                     PARLIN_ERROR_COMM);
    assert_string_equal(parlin_last_error(), "rank 1: cols 3, wanted 4");
}

static void test_long_sentence_is_cut(void **state)
{
    (void)state;
    char *text = support_alloc(2 * PL_SENTENCE);
    memset(text, 'x', 2 * PL_SENTENCE - 1);
    text[2 * PL_SENTENCE - 1] = '\0';
    assert_int_equal(pl_error(PARLIN_ERROR_BUILD, "%s", text), PARLIN_ERROR_BUILD);
    assert_int_equal(strlen(parlin_last_error()), PL_SENTENCE - 1);
    assert_memory_equal(parlin_last_error(), text, PL_SENTENCE - 1);
    free(text);
}

static parlin_status forwarding(parlin_status status, int *reached)
{
    PL_TRY(status);
    *reached = 1;
    return PARLIN_SUCCESS;
}

static void test_try_forwards(void **state)
{
    (void)state;
    int reached = 0;
    assert_int_equal(forwarding(PARLIN_ERROR_FILE, &reached), PARLIN_ERROR_FILE);
    assert_int_equal(reached, 0);
    assert_int_equal(forwarding(PARLIN_SUCCESS, &reached), PARLIN_SUCCESS);
    assert_int_equal(reached, 1);
}

/* cmocka's checks belong to the main thread: others only note what they saw. */
static void *other_thread(void *seen)
{
    int empty_at_first = parlin_last_error()[0] == '\0';
    pl_error(PARLIN_ERROR_DEVICE, "of the other thread");
    int own = strcmp(parlin_last_error(), "of the other thread") == 0;
    *(int *)seen = empty_at_first && own;
    return NULL;
}

static void test_sentence_of_each_thread(void **state)
{
    (void)state;
    pl_error(PARLIN_ERROR_ARGUMENT, "of the first thread");
    pthread_t thread;
    int seen = 0;
    assert_int_equal(pthread_create(&thread, NULL, other_thread, &seen), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(seen);
    assert_string_equal(parlin_last_error(), "of the first thread");
}

static void test_empty_before_any_failure(void **state)
{
    (void)state;
    assert_string_equal(parlin_last_error(), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty_before_any_failure),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_unknown_code),
        cmocka_unit_test(test_sentence),
        cmocka_unit_test(test_long_sentence_is_cut),
        cmocka_unit_test(test_try_forwards),
        cmocka_unit_test(test_sentence_of_each_thread),
    };
    return SUPPORT_RUN("core/status", tests);
}
