/* SPDX-License-Identifier: Apache-2.0 */
/* A creation that a rank refuses by itself, since its thread may not call MPI, counts for nothing:
   the layers made after it are the same on all ranks. */
#include <pthread.h>
#include <stdlib.h>

#include "support.h"

enum { IN = 5, OUT = 16 };

static parlin_status create(parlin_group *group, parlin_layer **layer)
{
    parlin_column_config config = parlin_column_defaults();
    config.in_features = IN;
    config.out_features = OUT;
    config.weight_init.kind = PARLIN_INIT_REFERENCE;
    config.seed = 3;
    return parlin_column_create(group, &config, layer);
}

typedef struct attempt {
    parlin_status status;
    parlin_layer *layer;
} attempt;

static void *try_elsewhere(void *given)
{
    attempt *mine = given;
    mine->status = create(support_group(), &mine->layer);
    return NULL;
}

static void refused_creation_is_not_counted(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    if (support_size() == 1)
        SUPPORT_SKIP("a group of one may be used from any thread");
    if (support_rank() == 1) {
        attempt elsewhere = {0};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, try_elsewhere, &elsewhere), 0);
        pthread_join(thread, NULL);
        assert_int_equal(elsewhere.status, PARLIN_ERROR_STATE);
        assert_null(elsewhere.layer);
    }
    parlin_layer *layer = NULL, *alone = NULL;
    assert_ok(create(group, &layer));

    /* The full matrix is that of a group of one. */
    float weight[OUT * IN], wanted[OUT * IN];
    parlin_group *single;
    assert_ok(parlin_group_create_single(parlin_group_device(group), NULL, &single));
    assert_ok(create(single, &alone));
    assert_ok(parlin_layer_export(alone, PARLIN_WEIGHT, PARLIN_WHOLE, 0, wanted, sizeof wanted));
    for (int root = 0; root < support_size(); root++) {
        support_poison(weight, OUT * IN);
        assert_ok(
            parlin_layer_export(layer, PARLIN_WEIGHT, PARLIN_WHOLE, root, weight, sizeof weight));
        if (support_rank() == root)
            assert_same_floats(weight, wanted, OUT * IN);
    }
    parlin_layer_destroy(alone);
    parlin_layer_destroy(layer);
    parlin_group_close(single);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(refused_creation_is_not_counted)};
    return support_run_mpi("layers/threads", &argc, &argv, MPI_THREAD_FUNNELED, tests, 1);
}
