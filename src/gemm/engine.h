/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the room: what a weight holds, the table of engines, the launches they share, and hooks
   for tests. */
#ifndef PL_GEMM_ENGINE_H
#define PL_GEMM_ENGINE_H

#include "gemm/gemm.h"

#define PL_ACTIVATIONS 5 /* values of parlin_activation */

/* --- what the room keeps with a device --- */

typedef struct pl_gemm_device {
    cl_kernel plain[2][2];                 /* [gated][several rows]; NULL until first wanted */
    cl_kernel epilogue[PL_ACTIVATIONS][2]; /* [activation][gated] */
    struct {
        bool used;        /* holds programs in CLBlast's cache */
        bool broken;      /* its kernels do not build here */
        bool no_vector;   /* it refused a product of one row */
        bool direct_only; /* its kernels for large products are wrong here */
        bool built[2];    /* its matrix and vector programs: later calls compile nothing */
    } clblast;
} pl_gemm_device;

/* Made at the first call for a device, destroyed with it. */
parlin_status pl_gemm_device_get(parlin_device *device, pl_gemm_device **state);

/* --- weights --- */

typedef struct pl_engine pl_engine;

/* How CLBlast is called for one shape; kept in the weight, since calls repeat. */
typedef struct pl_clblast_plan {
    size_t rows, x_offset, x_stride, y_offset, y_stride; /* the key; rows 0: none yet */
    bool to_scratch;                                     /* the key's last part */
    bool refused;
    size_t block_rows; /* rows of one call */
    size_t temp_bytes; /* that CLBlast wants for one call */
} pl_clblast_plan;

struct pl_weight {
    parlin_device *device;
    pl_gemm_device *state;
    cl_mem buffer; /* (out, in), row-major, dense */
    parlin_dtype dtype;
    size_t out;
    size_t in;
    size_t bytes;
    size_t first_engine;     /* place in the table of the first one that may answer */
    const pl_engine *engine; /* that ran last */
    size_t scratch_limit;    /* bytes of scratch that a call tries to stay within */
    size_t index_limit;      /* elements that CLBlast's int indices reach */
    pl_clblast_plan plan;
};

/* --- engines: in order of preference; each leaves what it cannot do to the next --- */

struct pl_engine {
    const char *name;
    /* Does rows [*done, x->rows) and moves *done on. Rows that it cannot serve, or that are
       refused, stay, with success. An error is for what no other engine can mend. */
    parlin_status (*multiply)(pl_weight *weight, const parlin_tensor *x,
                              const pl_epilogue *epilogue, size_t *done);
};

extern const pl_engine pl_engine_clblast;
extern const pl_engine pl_engine_plain;

/* --- clblast_status.c --- */

/* "CLBlastInvalidLocalThreadsTotal" for -54, and so on. */
const char *pl_clblast_name(int code);

/* True where the code says that CLBlast cannot do it, false where the device or the arguments
   are at fault. */
bool pl_clblast_refusal(int code);

/* --- engine_clblast.c --- */

/* Gives up what CLBlast keeps for a device; with the last one its caches are cleared. */
void pl_clblast_leave(pl_gemm_device *state);

/* --- epilogue.c --- */

/* Blocks one launch can serve. */
#define PL_BLOCKS 3

/* The arguments of a launch's blocks, as kernels/epilogue.clh takes them. */
typedef struct pl_block_args {
    cl_uint flags;
    cl_mem out[PL_BLOCKS];
    cl_mem residual[PL_BLOCKS];
    cl_ulong8 place[PL_BLOCKS];
} pl_block_args;

#define PL_BLOCK_ARGS(a)                                                                           \
    PL_ARG((a).flags), PL_ARG((a).out[0]), PL_ARG((a).residual[0]), PL_ARG((a).place[0]),          \
        PL_ARG((a).out[1]), PL_ARG((a).residual[1]), PL_ARG((a).place[1]), PL_ARG((a).out[2]),     \
        PL_ARG((a).residual[2]), PL_ARG((a).place[2])

/* Fills the arguments for up to PL_BLOCKS blocks from `*block` on, for rows from `row` on; moves
   *block on and returns their columns. `unused` stands where there is no buffer. */
size_t pl_block_args_fill(pl_block_args *args, const pl_epilogue *epilogue, size_t *block,
                          size_t row, cl_mem unused);

/* Writes rows [row, row + rows) of the outputs from `product`, whose row 0 is that row, dense. */
parlin_status pl_epilogue_run(pl_weight *weight, const pl_epilogue *epilogue, cl_mem product,
                              size_t row, size_t rows);

/* Work-items for n columns: n, filled up so that it divides into groups well. */
size_t pl_round_items(size_t n);

/* --- hooks for tests --- */

/* As PARLIN_ENGINE: "auto", "plain", "clblast". False for another name. */
bool pl_weight_force(pl_weight *weight, const char *engine);

#endif
