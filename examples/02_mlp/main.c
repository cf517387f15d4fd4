/* SPDX-License-Identifier: Apache-2.0 */
/* 02_mlp: a perceptron cut over any number of ranks: column layer, an activation of this
   program's own, row layer.

     h = act(x U^T + a)    U: (INNER, OUTER), cut by rows: each rank has its columns of h
     y = h D^T + b         D: (OUTER, INNER), cut by columns: each rank has its part of the sum,
                           which the row layer adds up over the ranks

   New here: the program's own OpenCL kernel works on a layer's output, in parlin's context and
   queue (<parlin/opencl.h>); the row layer is told to be cut like the layer before it.
   mpiexec -n 2 02_mlp   prints
     rank 0 of 2: up (683, 256) of (1365, 256), down (256, 683) of (256, 1365)
     rank 1 of 2: up (682, 256) of (1365, 256), down (256, 682) of (256, 1365)
     64 rows, p = 2: 23.77 ms a pass, error 6.0e-07 */
#include <stdio.h>

#include <parlin/mpi.h>
#include <parlin/opencl.h>
#include <parlin/parlin.h>

#include "../host.h"

#define CHECK(call)                                                                                \
    ((call) ? (fprintf(stderr, "%s\n", parlin_last_error()), MPI_Abort(MPI_COMM_WORLD, 1)) : 0)

enum { ROWS = 64, OUTER = 256, INNER = 1365, PASSES = 20 };
static float x[ROWS * OUTER], up_w[INNER * OUTER], up_b[INNER];
static float down_w[OUTER * INNER], down_b[OUTER], y[ROWS * OUTER];

/* The same in double precision. */
static double error_of_y(void)
{
    static double exact_x[ROWS * OUTER], h[ROWS * INNER], wanted[ROWS * OUTER];
    widen(x, ROWS * OUTER, exact_x);
    linear(ROWS, INNER, OUTER, exact_x, up_w, up_b, h);
    for (int i = 0; i < ROWS * INNER; i++)
        h[i] = h[i] > 0 ? h[i] * h[i] : 0;
    linear(ROWS, OUTER, INNER, h, down_w, down_b, wanted);
    return relative_error(y, wanted, ROWS * OUTER);
}

static void load(parlin_layer *layer, const float *w, const float *b, size_t out, size_t in)
{
    CHECK(parlin_layer_load(layer, PARLIN_WEIGHT, PARLIN_WHOLE,
                            parlin_host_2d(w, PARLIN_F32, out, in)));
    CHECK(parlin_layer_load(layer, PARLIN_BIAS, PARLIN_WHOLE, parlin_host_1d(b, PARLIN_F32, out)));
}

static void check_cl(cl_int code, const char *what)
{
    if (code) {
        fprintf(stderr, "%s: OpenCL error %d\n", what, code);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static cl_kernel build_kernel(parlin_device *device, const char *path, const char *name)
{
    char source[4096];
    const char *text = source;
    cl_int code;
    FILE *file = fopen(path, "r");
    size_t length = file ? fread(source, 1, sizeof source, file) : 0;
    if (file)
        fclose(file);
    cl_program program =
        clCreateProgramWithSource(parlin_device_context(device), 1, &text, &length, &code);
    check_cl(code, path);
    check_cl(clBuildProgram(program, 0, NULL, "", NULL, NULL), path);
    cl_kernel kernel = clCreateKernel(program, name, &code);
    check_cl(code, name);
    clReleaseProgram(program);
    return kernel;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    fill(x, ROWS * OUTER, 1);
    fill(up_w, INNER * OUTER, 1);
    fill(up_b, INNER, 1);
    fill(down_w, OUTER * INNER, 1);
    fill(down_b, OUTER, 1);

    parlin_group *group;
    CHECK(parlin_group_open(MPI_COMM_WORLD, NULL, &group));
    int rank = parlin_group_rank(group), size = parlin_group_size(group);

    parlin_column_config up_config = parlin_column_defaults();
    up_config.in_features = OUTER;
    up_config.out_features = INNER;
    up_config.bias = true;
    parlin_layer *up, *down;
    CHECK(parlin_column_create(group, &up_config, &up));
    load(up, up_w, up_b, INNER, OUTER);

    parlin_row_config down_config = parlin_row_defaults();
    down_config.in_features = INNER;
    down_config.out_features = OUTER;
    down_config.input_like = up; /* its input is cut where up's output is */
    CHECK(parlin_row_create(group, &down_config, &down));
    load(down, down_w, down_b, OUTER, INNER);
    size_t inner = parlin_layer_get_info(down).input_cols;
    printf("rank %d of %d: up (%zu, %d) of (%d, %d), down (%d, %zu) of (%d, %d)\n", rank, size,
           parlin_layer_get_info(up).output_cols, OUTER, INNER, OUTER, OUTER, inner, OUTER, INNER);

    parlin_tensor device_x, device_h, device_y;
    CHECK(parlin_tensor_create(group, PARLIN_F32, ROWS, OUTER, &device_x));
    CHECK(parlin_layer_output(up, ROWS, &device_h));
    CHECK(parlin_layer_output(down, ROWS, &device_y));
    CHECK(parlin_tensor_write(device_x, x));

    parlin_device *device = parlin_group_device(group);
    cl_kernel activation = build_kernel(device, ACTIVATION_CL, "squared_relu");
    clSetKernelArg(activation, 0, sizeof device_h.buffer, &device_h.buffer);
    cl_command_queue queue = parlin_device_queue(device);
    size_t elements = ROWS * inner;
    double start = 0;
    for (int pass = 0; pass <= PASSES; pass++) {
        if (pass == 1) /* the first one builds kernels: not counted */
            start = MPI_Wtime();
        CHECK(parlin_layer_forward(up, device_x, device_h));
        check_cl(clEnqueueNDRangeKernel(queue, activation, 1, NULL, &elements, NULL, 0, NULL, NULL),
                 "activation");
        CHECK(parlin_layer_forward(down, device_h, device_y));
    }
    CHECK(parlin_device_finish(device));
    double milliseconds = (MPI_Wtime() - start) / PASSES * 1e3;
    CHECK(parlin_tensor_read(device_y, y));

    double error = error_of_y();
    if (rank == 0)
        printf("%d rows, p = %d: %.2f ms a pass, error %.1e\n", ROWS, size, milliseconds, error);

    clReleaseKernel(activation);
    parlin_tensor_destroy(&device_y);
    parlin_tensor_destroy(&device_h);
    parlin_tensor_destroy(&device_x);
    parlin_layer_destroy(down);
    parlin_layer_destroy(up);
    parlin_group_close(group);
    MPI_Finalize();
    return error <= 1e-5 ? 0 : 1;
}
