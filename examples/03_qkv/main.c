/* SPDX-License-Identifier: Apache-2.0 */
/* 03_qkv: attention cut by heads over any number of ranks (here up to 16). A qkv layer gives this
   rank's query heads and the key and value heads that these read; the program computes attention
   on them; a row layer, cut at the same heads, adds up over the ranks.

   New here: q, k and v go into three head-major views, (heads, rows, head size), as an attention
   kernel wants them; what a rank holds is asked, not computed; key and value heads are fewer.
   mpiexec -n 3 03_qkv   prints
     rank 0 of 3: query heads 0 to 7 of 16, kv heads 0 to 1 of 4, row layer columns 0 to 127
     rank 1 of 3: query heads 8 to 11 of 16, kv heads 2 to 2 of 4, row layer columns 128 to 191
     rank 2 of 3: query heads 12 to 15 of 16, kv heads 3 to 3 of 4, row layer columns 192 to 255
     p = 3: error 3.3e-07 */
#include <math.h>
#include <stdio.h>

#include <parlin/mpi.h>
#include <parlin/parlin.h>

#include "../host.h"

#define CHECK(call)                                                                                \
    ((call) ? (fprintf(stderr, "%s\n", parlin_last_error()), MPI_Abort(MPI_COMM_WORLD, 1)) : 0)

enum { ROWS = 7, HIDDEN = 192, HEADS = 16, KV = 4, SIZE = 16, Q = HEADS * SIZE, K = KV * SIZE };
static float x[ROWS * HIDDEN], qkv_w[(Q + 2 * K) * HIDDEN], out_w[HIDDEN * Q];
static float host[ROWS * Q], y[ROWS * HIDDEN];
static double q[ROWS * Q], k[ROWS * K], v[ROWS * K], attention[ROWS * Q];

/* The program's attention, on the host for short: (rows, heads, SIZE) in and out, query head h
   reads kv head kv_of[h]. */
static void attend(size_t heads, size_t kv_heads, const size_t *kv_of)
{
    for (size_t i = 0; i < ROWS; i++)
        for (size_t h = 0; h < heads; h++) {
            double score[ROWS], sum = 0, *out = attention + (i * heads + h) * SIZE;
            for (size_t j = 0; j <= i; j++) {
                score[j] = 0;
                for (size_t d = 0; d < SIZE; d++)
                    score[j] +=
                        q[(i * heads + h) * SIZE + d] * k[(j * kv_heads + kv_of[h]) * SIZE + d];
                sum += score[j] = exp(score[j] / sqrt(SIZE));
            }
            for (size_t d = 0; d < SIZE; d++) {
                out[d] = 0;
                for (size_t j = 0; j <= i; j++)
                    out[d] += score[j] / sum * v[(j * kv_heads + kv_of[h]) * SIZE + d];
            }
        }
}

static void read_heads(parlin_heads heads, double *out)
{
    CHECK(parlin_heads_read(heads, host));
    widen(host, heads.rows * heads.heads * heads.head_size, out);
}

/* A view of `heads` heads, (heads, ROWS, SIZE), that begins at head `first` of the buffer. */
static parlin_heads head_major(parlin_tensor tensor, size_t first, size_t heads)
{
    parlin_heads view = parlin_heads_wrap(tensor.buffer, PARLIN_F32, first * ROWS * SIZE, ROWS,
                                          heads, SIZE, SIZE, ROWS * SIZE);
    view.device = tensor.device;
    return view;
}

/* The same in double precision on the full heads. */
static double error_of_y(void)
{
    size_t kv_of[HEADS];
    for (size_t h = 0; h < HEADS; h++)
        kv_of[h] = h / (HEADS / KV);
    static double exact_x[ROWS * HIDDEN], wanted[ROWS * HIDDEN];
    widen(x, ROWS * HIDDEN, exact_x);
    linear(ROWS, Q, HIDDEN, exact_x, qkv_w, NULL, q);
    linear(ROWS, K, HIDDEN, exact_x, qkv_w + Q * HIDDEN, NULL, k);
    linear(ROWS, K, HIDDEN, exact_x, qkv_w + (Q + K) * HIDDEN, NULL, v);
    attend(HEADS, KV, kv_of);
    linear(ROWS, HIDDEN, Q, attention, out_w, NULL, wanted);
    return relative_error(y, wanted, ROWS * HIDDEN);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    fill(x, ROWS * HIDDEN, 1.0f);
    fill(qkv_w, (Q + 2 * K) * HIDDEN, 0.1f);
    fill(out_w, HIDDEN * Q, 0.1f);

    parlin_group *group;
    CHECK(parlin_group_open(MPI_COMM_WORLD, NULL, &group));
    int rank = parlin_group_rank(group), size = parlin_group_size(group);

    parlin_qkv_config qkv_config = parlin_qkv_defaults();
    qkv_config.hidden_size = HIDDEN;
    qkv_config.head_size = SIZE;
    qkv_config.total_num_heads = HEADS;
    qkv_config.total_num_kv_heads = KV;
    qkv_config.bias = false;
    parlin_layer *qkv, *out;
    CHECK(parlin_qkv_create(group, &qkv_config, &qkv));
    CHECK(parlin_layer_load(qkv, PARLIN_WEIGHT, PARLIN_WHOLE, /* q, k and v stacked */
                            parlin_host_2d(qkv_w, PARLIN_F32, Q + 2 * K, HIDDEN)));

    parlin_row_config out_config = parlin_row_defaults();
    out_config.in_features = Q;
    out_config.out_features = HIDDEN;
    out_config.bias = false;
    out_config.input_like = qkv; /* its input is cut at qkv's query heads */
    CHECK(parlin_row_create(group, &out_config, &out));
    CHECK(parlin_layer_load(out, PARLIN_WEIGHT, PARLIN_WHOLE,
                            parlin_host_2d(out_w, PARLIN_F32, HIDDEN, Q)));

    parlin_qkv_shape here = parlin_qkv_local(qkv);
    parlin_layer_info info = parlin_layer_get_info(out);
    printf("rank %d of %d: query heads %zu to %zu of %d, kv heads %zu to %zu of %d, "
           "row layer columns %zu to %zu\n",
           rank, size, here.first_head, here.first_head + here.heads - 1, HEADS, here.first_kv_head,
           here.first_kv_head + here.kv_heads - 1, KV, info.input_start,
           info.input_start + info.input_length - 1);

    size_t heads = here.heads, kv_heads = here.kv_heads;
    parlin_tensor device_x, device_heads, device_a, device_y;
    CHECK(parlin_tensor_create(group, PARLIN_F32, ROWS, HIDDEN, &device_x));
    CHECK(parlin_tensor_create(group, PARLIN_F32, (heads + 2 * kv_heads) * ROWS, SIZE,
                               &device_heads));
    CHECK(parlin_tensor_create(group, PARLIN_F32, ROWS, info.input_cols, &device_a));
    CHECK(parlin_layer_output(out, ROWS, &device_y));
    CHECK(parlin_tensor_write(device_x, x));

    parlin_heads q_heads = head_major(device_heads, 0, heads);
    parlin_heads k_heads = head_major(device_heads, heads, kv_heads);
    parlin_heads v_heads = head_major(device_heads, heads + kv_heads, kv_heads);
    CHECK(parlin_qkv_forward(qkv, device_x, q_heads, k_heads, v_heads));
    read_heads(q_heads, q);
    read_heads(k_heads, k);
    read_heads(v_heads, v);
    size_t kv_of[HEADS];
    for (size_t h = 0; h < heads; h++)
        kv_of[h] = parlin_qkv_kv_head(qkv, h);
    attend(heads, kv_heads, kv_of);
    for (size_t i = 0; i < ROWS * info.input_cols; i++)
        host[i] = (float)attention[i];
    CHECK(parlin_tensor_write(device_a, host));
    CHECK(parlin_layer_forward(out, device_a, device_y));
    CHECK(parlin_tensor_read(device_y, y));

    double error = error_of_y();
    if (rank == 0)
        printf("p = %d: error %.1e\n", size, error);

    parlin_tensor_destroy(&device_y);
    parlin_tensor_destroy(&device_a);
    parlin_tensor_destroy(&device_heads);
    parlin_tensor_destroy(&device_x);
    parlin_layer_destroy(out);
    parlin_layer_destroy(qkv);
    parlin_group_close(group);
    MPI_Finalize();
    return error <= 1e-5 ? 0 : 1;
}
