/* SPDX-License-Identifier: Apache-2.0 */
/* 04_checkpoint: the attention input and output of a model's first layer, from a folder of
   safetensors files in which Hugging Face's names are used, F32.

     mpiexec -n 3 04_checkpoint FOLDER 8 4      (8 query heads, 4 key and value heads)

   New here: sizes come from the stored shapes; a loader is told which stored tensor feeds which
   part, and reads on each rank the bytes of that rank's slices alone. What is missing is an
   error; what is left over can be asked. On the tiny model `base` of scripts/make-model it
   prints
     rank 0 of 3: query heads 0 to 3 of 8, 2 of 4 kv heads: 6144 bytes of weights
     rank 1 of 3: query heads 4 to 5 of 8, 1 of 4 kv heads: 3072 bytes of weights
     rank 2 of 3: query heads 6 to 7 of 8, 1 of 4 kv heads: 3072 bytes of weights
     16 of 20 tensors are not of these layers, the first is model.embed_tokens.weight
     p = 3: error 1.3e-07 */
#include <stdio.h>
#include <stdlib.h>

#include <parlin/mpi.h>
#include <parlin/parlin.h>

#include "../host.h"

#define CHECK(call)                                                                                \
    ((call) ? (fprintf(stderr, "%s\n", parlin_last_error()), MPI_Abort(MPI_COMM_WORLD, 1)) : 0)

#define ATTENTION "model.layers.0.self_attn."
enum { ROWS = 3, MOST = 1024 };
static float x[ROWS * MOST], y[ROWS * MOST];

/* o(q(x)) in double precision: this program has no attention between the two. */
static double error_of_y(const parlin_host *q, const parlin_host *o)
{
    static double exact_x[ROWS * MOST], middle[ROWS * MOST], wanted[ROWS * MOST];
    widen(x, ROWS * q->cols, exact_x);
    linear(ROWS, q->rows, q->cols, exact_x, q->data, NULL, middle);
    linear(ROWS, o->rows, o->cols, middle, o->data, NULL, wanted);
    return relative_error(y, wanted, ROWS * o->rows);
}

static void stop(const char *why)
{
    fprintf(stderr, "%s\n", why);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    const size_t heads = argc == 4 ? strtoul(argv[2], NULL, 10) : 0;
    const size_t kv_heads = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
    if (heads == 0 || kv_heads == 0)
        stop("usage: 04_checkpoint FOLDER HEADS KV_HEADS");
    parlin_group *group;
    CHECK(parlin_group_open(MPI_COMM_WORLD, NULL, &group));
    const int rank = parlin_group_rank(group), size = parlin_group_size(group);

    parlin_checkpoint *checkpoint;
    parlin_host stored_q, stored_o; /* views of the mapped file; reading a shape reads no data */
    CHECK(parlin_checkpoint_open(argv[1], &checkpoint));
    CHECK(parlin_checkpoint_host(checkpoint, ATTENTION "q_proj.weight", &stored_q));
    CHECK(parlin_checkpoint_host(checkpoint, ATTENTION "o_proj.weight", &stored_o));
    if (stored_q.rows > MOST || stored_q.cols > MOST || stored_o.rows > MOST ||
        stored_q.dtype != PARLIN_F32 || stored_o.dtype != PARLIN_F32)
        stop("this example takes weights in F32, of at most 1024 rows and columns");

    parlin_qkv_config qkv_config = parlin_qkv_defaults();
    qkv_config.hidden_size = stored_q.cols;
    qkv_config.head_size = stored_q.rows / heads;
    qkv_config.total_num_heads = heads;
    qkv_config.total_num_kv_heads = kv_heads;
    qkv_config.bias = false;
    parlin_layer *qkv, *o;
    CHECK(parlin_qkv_create(group, &qkv_config, &qkv));
    parlin_row_config o_config = parlin_row_defaults();
    o_config.in_features = stored_o.cols;
    o_config.out_features = stored_o.rows;
    o_config.bias = false;
    o_config.input_like = qkv;
    CHECK(parlin_row_create(group, &o_config, &o));

    parlin_loader *loader;
    CHECK(parlin_loader_create(checkpoint, &loader));
    CHECK(parlin_loader_add(loader, qkv, PARLIN_Q, ATTENTION "q_proj")); /* .weight, and .bias */
    CHECK(parlin_loader_add(loader, qkv, PARLIN_K, ATTENTION "k_proj"));
    CHECK(parlin_loader_add(loader, qkv, PARLIN_V, ATTENTION "v_proj"));
    CHECK(parlin_loader_add(loader, o, PARLIN_WHOLE, ATTENTION "o_proj"));
    CHECK(parlin_loader_run(loader, parlin_progress_terminal, NULL));

    parlin_qkv_shape here = parlin_qkv_local(qkv);
    printf(
        "rank %d of %d: query heads %zu to %zu of %zu, %zu of %zu kv heads: %zu bytes of weights\n",
        rank, size, here.first_head, here.first_head + here.heads - 1, heads, here.kv_heads,
        kv_heads, parlin_layer_get_info(qkv).weight_bytes + parlin_layer_get_info(o).weight_bytes);

    const size_t q_cols = here.heads * here.head_size, kv_cols = here.kv_heads * here.head_size;
    parlin_tensor device_x, q, k, v, device_y;
    fill(x, ROWS * stored_q.cols, 1);
    CHECK(parlin_tensor_create(group, PARLIN_F32, ROWS, stored_q.cols, &device_x));
    CHECK(parlin_tensor_create(group, PARLIN_F32, ROWS, q_cols, &q));
    CHECK(parlin_tensor_create(group, PARLIN_F32, ROWS, kv_cols, &k));
    CHECK(parlin_tensor_create(group, PARLIN_F32, ROWS, kv_cols, &v));
    CHECK(parlin_layer_output(o, ROWS, &device_y));
    CHECK(parlin_tensor_write(device_x, x));
    CHECK(parlin_qkv_forward(qkv, device_x, parlin_tensor_heads(q, here.heads, here.head_size),
                             parlin_tensor_heads(k, here.kv_heads, here.head_size),
                             parlin_tensor_heads(v, here.kv_heads, here.head_size)));
    CHECK(parlin_layer_forward(o, q, device_y));
    CHECK(parlin_tensor_read(device_y, y));

    double error = error_of_y(&stored_q, &stored_o);
    if (rank == 0) {
        printf("%zu of %zu tensors are not of these layers, the first is %s\n",
               parlin_loader_left_over_count(loader), parlin_checkpoint_count(checkpoint),
               parlin_loader_left_over(loader, 0));
        printf("p = %d: error %.1e\n", size, error);
    }

    parlin_tensor *tensors[] = {&device_y, &v, &k, &q, &device_x};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        parlin_tensor_destroy(tensors[i]);
    parlin_loader_destroy(loader);
    parlin_checkpoint_close(checkpoint);
    parlin_layer_destroy(o);
    parlin_layer_destroy(qkv);
    parlin_group_close(group);
    MPI_Finalize();
    return error <= 1e-5 ? 0 : 1;
}
