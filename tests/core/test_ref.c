/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

#include <pthread.h>

#include "core/ref.h"

static void test_last_release(void **state)
{
    (void)state;
    pl_ref ref;
    pl_ref_init(&ref);
    pl_ref_retain(&ref);
    pl_ref_retain(&ref);
    assert_false(pl_ref_release(&ref));
    assert_false(pl_ref_release(&ref));
    assert_true(pl_ref_release(&ref));
}

enum { THREADS = 4, TIMES = 20000 };

typedef struct shared {
    pl_ref ref;
    atomic_int last;
} shared;

/* Retains and releases, and gives up the reference it was started with. */
static void *worker(void *argument)
{
    shared *object = argument;
    for (int i = 0; i < TIMES; i++) {
        pl_ref_retain(&object->ref);
        if (pl_ref_release(&object->ref))
            atomic_fetch_add(&object->last, 100); /* never: this thread still holds one */
    }
    if (pl_ref_release(&object->ref))
        atomic_fetch_add(&object->last, 1);
    return NULL;
}

static void test_threads_agree_on_the_last(void **state)
{
    (void)state;
    shared object;
    pl_ref_init(&object.ref);
    atomic_init(&object.last, 0);
    for (int i = 1; i < THREADS; i++)
        pl_ref_retain(&object.ref);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, worker, &object), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&object.last), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_last_release),
        cmocka_unit_test(test_threads_agree_on_the_last),
    };
    return SUPPORT_RUN("core/ref", tests);
}
