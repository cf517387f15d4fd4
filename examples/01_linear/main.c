/* SPDX-License-Identifier: Apache-2.0 */
/* 01_linear: one layer, y = x W^T + b, on any number of ranks. Each passes the whole W and b; the
   layer keeps this rank's rows of W and gives its columns of y.   mpiexec -n 2 01_linear   prints
     rank 0: columns 0 to 255 of 512, y = -1.2813 -1.2895 ..., error 4.9e-07   */
#include <math.h>
#include <stdio.h>
#include <parlin/mpi.h>
#include <parlin/parlin.h>

#define CHECK(call)                                                                                \
    ((call) ? (fprintf(stderr, "%s\n", parlin_last_error()), MPI_Abort(MPI_COMM_WORLD, 1)) : 0)

enum { ROWS = 4, IN = 256, OUT = 512 };
static float x[ROWS][IN], w[OUT][IN], b[OUT], y[ROWS * OUT];

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    for (int k = 0; k < OUT * IN; k++) {
        w[k / IN][k % IN] = cosf(0.1f * (float)k);
        x[k / IN % ROWS][k % IN] = sinf(0.7f * (float)k);
        b[k % OUT] = sinf((float)k);
    }
    parlin_group *group; /* opens the device that suits this rank */
    CHECK(parlin_group_open(MPI_COMM_WORLD, NULL, &group));
    parlin_column_config config = parlin_column_defaults();
    config.in_features = IN;
    config.out_features = OUT;
    config.bias = true;
    parlin_layer *up;
    CHECK(parlin_column_create(group, &config, &up));
    parlin_host whole_w = parlin_host_2d(w, PARLIN_F32, OUT, IN);
    CHECK(parlin_layer_load(up, PARLIN_WEIGHT, PARLIN_WHOLE, whole_w));
    CHECK(parlin_layer_load(up, PARLIN_BIAS, PARLIN_WHOLE, parlin_host_1d(b, PARLIN_F32, OUT)));
    parlin_tensor device_x, device_y;
    CHECK(parlin_tensor_create(group, PARLIN_F32, ROWS, IN, &device_x));
    CHECK(parlin_layer_output(up, ROWS, &device_y));
    CHECK(parlin_tensor_write(device_x, x));
    CHECK(parlin_layer_forward(up, device_x, device_y));
    CHECK(parlin_tensor_read(device_y, y));

    size_t first, count; /* this rank's columns of y */
    CHECK(parlin_layer_part(up, 0, &first, &count));
    double error = 0; /* mean square difference to double precision on the host */
    for (size_t k = 0; k < ROWS * count; k++) {
        double wanted = b[first + k % count];
        for (size_t j = 0; j < IN; j++)
            wanted += (double)x[k / count][j] * w[first + k % count][j];
        error += pow(y[k] - wanted, 2) / (double)(ROWS * count);
    }
    printf("rank %d: columns %zu to %zu of %d, y = %.4f %.4f ..., error %.1e\n",
           parlin_group_rank(group), first, first + count - 1, OUT, y[0], y[1], sqrt(error));
    parlin_tensor_destroy(&device_y);
    parlin_tensor_destroy(&device_x);
    parlin_layer_destroy(up);
    parlin_group_close(group);
    MPI_Finalize();
    return error < 1e-10 ? 0 : 1;
}
