/* SPDX-License-Identifier: Apache-2.0 */
/* A program without MPI: <parlin/parlin.h> alone. y = x W^T with W all ones. */
#include <stdio.h>

#include <parlin/parlin.h>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        if (call) {                                                                                \
            fprintf(stderr, "%s\n", parlin_last_error());                                          \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

int main(void)
{
    float host_x[2][3] = {{1, 2, 3}, {-4, 5, 6}}, host_y[2][4] = {{0}};
    parlin_group *group;
    CHECK(parlin_group_open_single(NULL, &group));
    parlin_column_config config = parlin_column_defaults();
    config.in_features = 3;
    config.out_features = 4;
    config.weight_init.kind = PARLIN_INIT_ONES;
    parlin_layer *layer;
    CHECK(parlin_column_create(group, &config, &layer));
    parlin_tensor x, y;
    CHECK(parlin_tensor_create(group, PARLIN_F32, 2, 3, &x));
    CHECK(parlin_layer_output(layer, 2, &y));
    CHECK(parlin_tensor_write(x, host_x));
    CHECK(parlin_layer_forward(layer, x, y));
    CHECK(parlin_tensor_read(y, host_y));
    parlin_tensor_destroy(&y);
    parlin_tensor_destroy(&x);
    parlin_layer_destroy(layer);
    parlin_group_close(group);
    for (int i = 0; i < 4; i++)
        if (host_y[0][i] != 6 || host_y[1][i] != 7)
            return fprintf(stderr, "column %d: %g %g, wanted 6 7\n", i, (double)host_y[0][i],
                           (double)host_y[1][i]);
    return 0;
}
