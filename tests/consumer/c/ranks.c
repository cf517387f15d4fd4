/* SPDX-License-Identifier: Apache-2.0 */
/* A program on any number of ranks: a row layer. x is (1, 6) and W (2, 6) of ones, the bias 100:
   y = 21 + 100 whatever the number of ranks. */
#include <stdio.h>

#include <parlin/mpi.h>
#include <parlin/parlin.h>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        if (call) {                                                                                \
            fprintf(stderr, "%s\n", parlin_last_error());                                          \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                          \
        }                                                                                          \
    } while (0)

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    const float host_x[6] = {1, 2, 3, 4, 5, 6}, bias[2] = {100, 100};
    float host_y[2] = {0};
    parlin_group *group;
    CHECK(parlin_group_open(MPI_COMM_WORLD, NULL, &group));
    parlin_row_config config = parlin_row_defaults();
    config.in_features = 6;
    config.out_features = 2;
    config.input_is_parallel = false;
    config.weight_init.kind = PARLIN_INIT_ONES;
    parlin_layer *layer;
    CHECK(parlin_row_create(group, &config, &layer));
    CHECK(parlin_layer_load(layer, PARLIN_BIAS, PARLIN_WHOLE, parlin_host_1d(bias, PARLIN_F32, 2)));
    parlin_tensor x, y;
    CHECK(parlin_tensor_create(group, PARLIN_F32, 1, 6, &x));
    CHECK(parlin_layer_output(layer, 1, &y));
    CHECK(parlin_tensor_write(x, host_x));
    CHECK(parlin_layer_forward(layer, x, y));
    CHECK(parlin_tensor_read(y, host_y));
    parlin_tensor_destroy(&y);
    parlin_tensor_destroy(&x);
    parlin_layer_destroy(layer);
    parlin_group_close(group);
    MPI_Finalize();
    if (host_y[0] != 121 || host_y[1] != 121) {
        fprintf(stderr, "%g %g, wanted 121 121\n", (double)host_y[0], (double)host_y[1]);
        return 1;
    }
    return 0;
}
