/* SPDX-License-Identifier: Apache-2.0 */
/* The product by CLBlast (Nugteren, 2018), and after it, where there is one, the epilogue kernel.

     rows > 1:   Y = X W^T by CLBlastSgemmWithTempBuffer, in row blocks that keep scratch small
     one row:    y = W x by CLBlastSgemv, which was 2 to 6 times as fast on PoCL

   What version 1.5.3 does wrong, and what is done about it here:
   - its program cache races between threads: every call is made under one lock of the process;
   - the cache keeps every context alive: cleared when the last device that used it goes;
   - its indices are int: what reaches 2^31 elements is left to the next engine;
   - Sgemv reads its output even for beta = 0, so that a NaN there stays: zeros are put there
     first (Sgemm does not);
   - its large-product kernel with GEMMK = 1 is wrong unless MWG = NWG, and its database has such
     entries: found out by large_kernel_wrong. */
#include <pthread.h>

#include <clblast_c.h>

#include "core/log.h"
#include "core/status.h"
#include "gemm/engine.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static size_t users; /* devices with programs in CLBlast's caches; under the lock */

/* --- a device's part in CLBlast --- */

static int temp_size(pl_weight *weight, size_t rows, size_t out, size_t in, size_t x_offset,
                     size_t x_stride, size_t y_offset, size_t y_stride, size_t *bytes)
{
    cl_command_queue queue = parlin_device_queue(weight->device);
    return CLBlastSGemmTempBufferSize(CLBlastLayoutRowMajor, CLBlastTransposeNo,
                                      CLBlastTransposeYes, rows, out, in, x_offset, x_stride, 0, in,
                                      y_offset, y_stride, &queue, bytes);
}

/* CLBlast's C interface does not tell its parameters, but they show in the bytes it asks for:
   padded copies of X, W and Y, each only where it is needed. GEMMK = 0 copies all three; GEMMK = 1
   leaves X and Y where they are if they fit the tiles as they lie. With an offset they are copied
   too, and one more row (column) adds a tile of MWG (NWG) to two of the copies. */
static bool large_kernel_wrong(pl_weight *weight)
{
    const size_t n = 8192; /* a multiple of every tile, and beyond the small-product kernel */
    size_t fitting = 0, copied = 0, row_more = 0, column_more = 0;
    if (temp_size(weight, n, n, n, 0, n, 0, n, &fitting) != CLBlastSuccess ||
        temp_size(weight, n, n, n, 1, n, 1, n, &copied) != CLBlastSuccess ||
        temp_size(weight, n + 1, n, n, 1, n, 1, n, &row_more) != CLBlastSuccess ||
        temp_size(weight, n, n + 1, n, 1, n, 1, n + 1, &column_more) != CLBlastSuccess)
        return true;
    const bool gemmk_1 = fitting < copied;
    return gemmk_1 && row_more != column_more;
}

static void enter(pl_weight *weight)
{
    pl_gemm_device *state = weight->state;
    pthread_mutex_lock(&lock);
    state->clblast.used = true;
    users++;
    state->clblast.direct_only = large_kernel_wrong(weight);
    pthread_mutex_unlock(&lock);
    if (state->clblast.direct_only)
        pl_log(PL_LOG_INFO,
               "CLBlast's parameters for this device (GEMMK=1, MWG not NWG) give wrong "
               "large products: the plain engine forms those");
}

void pl_clblast_leave(pl_gemm_device *state)
{
    if (!state->clblast.used)
        return;
    pthread_mutex_lock(&lock);
    if (--users == 0)
        CLBlastClearCache();
    pthread_mutex_unlock(&lock);
}

/* --- what to call for a shape --- */

/* The one output that CLBlast can write by itself, if there is no more to be done. */
static const parlin_heads *direct_target(const pl_weight *weight, const parlin_tensor *x,
                                         const pl_epilogue *epilogue)
{
    const parlin_heads *out = &epilogue->blocks[0].out;
    if (epilogue->bias || epilogue->activation != PARLIN_NO_ACTIVATION || epilogue->gated ||
        epilogue->block_count != 1 || epilogue->blocks[0].residual.buffer)
        return NULL;
    if (out->heads > 1 && out->head_stride != out->head_size)
        return NULL;
    if (x->rows > 1 && out->row_stride < weight->out)
        return NULL;
    return out;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Says why the shape goes to another engine; a shape is asked about once in a row. */
static void refuse(pl_clblast_plan *plan, const pl_weight *weight, const char *why)
{
    plan->refused = true;
    pl_log(PL_LOG_INFO, "clblast leaves the product of %zu rows with a weight of (%zu, %zu): %s",
           plan->rows, weight->out, weight->in, why);
}

/* Rows of one call: its padded copies and the product scratch together within the limit, but
   enough rows for the tiles. A function of the sizes and the device, so that bits repeat. */
static size_t rows_of_block(const pl_weight *weight, const pl_clblast_plan *plan)
{
    const size_t out = weight->out, row = weight->in + out + (plan->to_scratch ? out : 0);
    size_t block = weight->scratch_limit / sizeof(float) / row / 64 * 64;
    block = smaller(larger(block, 64), plan->rows);
    if (plan->to_scratch) {
        const uint64_t most = pl_device_info(weight->device)->max_allocation / sizeof(float);
        block =
            smaller(block, (size_t)(most < weight->index_limit ? most : weight->index_limit) / out);
    }
    return block;
}

/* plan's key is set. */
static void make_plan(pl_weight *weight, pl_clblast_plan *plan)
{
    const size_t rows = plan->rows, out = weight->out, in = weight->in, limit = weight->index_limit;
    const uint64_t most = pl_device_info(weight->device)->max_allocation;
    plan->refused = false;
    plan->temp_bytes = 0;
    plan->block_rows = rows_of_block(weight, plan);
    if (plan->block_rows == 0) {
        refuse(plan, weight, "one row of the product is larger than a buffer may be");
        return;
    }
    if (out > limit / in || plan->x_offset + (rows - 1) * plan->x_stride + in > limit ||
        plan->y_offset + (rows - 1) * plan->y_stride + out > limit) {
        refuse(plan, weight, "elements lie beyond CLBlast's 32-bit indices");
        return;
    }
    if (rows == 1) {
        plan->refused = weight->state->clblast.no_vector;
        return;
    }
    /* The first block may lie at offset 0, the last may have fewer rows. */
    const size_t block = plan->block_rows, last = (rows - 1) / block;
    const size_t at[] = {0, smaller(1, last), last};
    for (size_t i = 0; i < 3; i++) {
        if (i > 0 && at[i] == at[i - 1])
            continue;
        const size_t row = at[i] * block, y_row = plan->to_scratch ? 0 : row;
        size_t bytes = 0;
        int code = temp_size(weight, smaller(block, rows - row), out, in,
                             plan->x_offset + row * plan->x_stride, plan->x_stride,
                             plan->y_offset + y_row * plan->y_stride, plan->y_stride, &bytes);
        if (code != CLBlastSuccess) {
            refuse(plan, weight, pl_clblast_name(code));
            return;
        }
        plan->temp_bytes = larger(plan->temp_bytes, bytes);
    }
    if (plan->temp_bytes > most || plan->temp_bytes / sizeof(float) > limit)
        refuse(plan, weight, "CLBlast's padded copies would be larger than a buffer may be");
    else if (plan->temp_bytes > 0 && weight->state->clblast.direct_only)
        refuse(plan, weight, "CLBlast's parameters for this device give wrong large products");
}

static const pl_clblast_plan *plan_for(pl_weight *weight, const parlin_tensor *x,
                                       const parlin_heads *direct)
{
    pl_clblast_plan *plan = &weight->plan;
    const size_t x_stride = larger(x->row_stride, weight->in);
    const size_t y_offset = direct ? direct->offset : 0;
    const size_t y_stride = direct ? larger(direct->row_stride, weight->out) : weight->out;
    if (plan->rows != x->rows || plan->x_offset != x->offset || plan->x_stride != x_stride ||
        plan->y_offset != y_offset || plan->y_stride != y_stride || plan->to_scratch == !!direct) {
        plan->rows = x->rows;
        plan->x_offset = x->offset;
        plan->x_stride = x_stride;
        plan->y_offset = y_offset;
        plan->y_stride = y_stride;
        plan->to_scratch = !direct;
        pthread_mutex_lock(&lock);
        make_plan(weight, plan);
        pthread_mutex_unlock(&lock);
    }
    return plan;
}

/* --- the calls --- */

static parlin_status zeros(pl_weight *weight, cl_mem y, size_t offset)
{
    const float zero = 0;
    cl_int code =
        clEnqueueFillBuffer(parlin_device_queue(weight->device), y, &zero, sizeof zero,
                            offset * sizeof zero, weight->out * sizeof zero, 0, NULL, NULL);
    if (code != CL_SUCCESS)
        return pl_cl_error(code, "product of one row: clEnqueueFillBuffer");
    pl_count_launch(weight->device);
    return pl_queue_fence(weight->device);
}

/* CLBlast writes a line of its own to stderr whenever it refuses, so it is not asked twice. */
static void take_refusal(pl_weight *weight, size_t row, size_t rows, int code)
{
    pl_gemm_device *state = weight->state;
    pl_log(PL_LOG_INFO,
           "CLBlast refused rows [%zu, %zu) of a product with a weight of (%zu, %zu): %s", row,
           row + rows, weight->out, weight->in, pl_clblast_name(code));
    if (rows == 1)
        state->clblast.no_vector = true;
    /* Where rows before were served, they will be again: the same bits next time. */
    if (row == 0)
        weight->plan.refused = true;
    if (code == CLBlastOpenCLBuildProgramFailure && !state->clblast.broken) {
        state->clblast.broken = true;
        pl_log(PL_LOG_WARN, "CLBlast's kernels do not build on %s: the plain engine serves",
               pl_device_info(weight->device)->name);
    }
}

/* One block as CLBlast sees it: Y = X W^T, offsets and strides in elements. */
typedef struct block {
    size_t rows;
    cl_mem x;
    size_t x_offset, x_stride;
    cl_mem y;
    size_t y_offset, y_stride;
    cl_mem temp;
} block;

static int ask(const pl_weight *weight, const block *b)
{
    const size_t out = weight->out, in = weight->in;
    cl_command_queue queue = parlin_device_queue(weight->device);
    pthread_mutex_lock(&lock);
    int code =
        b->rows == 1
            ? CLBlastSgemv(CLBlastLayoutRowMajor, CLBlastTransposeNo, out, in, 1.0f, weight->buffer,
                           0, in, b->x, b->x_offset, 1, 0.0f, b->y, b->y_offset, 1, &queue, NULL)
            : CLBlastSgemmWithTempBuffer(CLBlastLayoutRowMajor, CLBlastTransposeNo,
                                         CLBlastTransposeYes, b->rows, out, in, 1.0f, b->x,
                                         b->x_offset, b->x_stride, weight->buffer, 0, in, 0.0f,
                                         b->y, b->y_offset, b->y_stride, &queue, NULL, b->temp);
    pthread_mutex_unlock(&lock);
    return code;
}

/* The first call builds CLBlast's program: one process at a time, and again where it fails, as
   PoCL does when others build the same program at once (device.h). */
static int ask_first(const pl_weight *weight, const block *b)
{
    enum { ATTEMPTS = 3 };
    int code = CLBlastSuccess;
    pl_build_lock();
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        code = ask(weight, b);
        if (code != CLBlastOpenCLBuildProgramFailure)
            break;
    }
    pl_build_unlock();
    return code;
}

/* Enqueues Y = X W^T for `rows` rows from `row` on. *refused: CLBlast will not. */
static parlin_status call(pl_weight *weight, const parlin_tensor *x, const pl_clblast_plan *plan,
                          size_t row, size_t rows, cl_mem y, size_t y_offset, cl_mem temp,
                          bool *refused)
{
    const size_t out = weight->out, in = weight->in;
    pl_gemm_device *state = weight->state;
    if (rows == 1 && state->clblast.no_vector) {
        *refused = true;
        return PARLIN_SUCCESS;
    }
    if (rows == 1)
        PL_TRY(zeros(weight, y, y_offset));

    const block b = {rows,           x->buffer, plan->x_offset + row * plan->x_stride,
                     plan->x_stride, y,         y_offset,
                     plan->y_stride, temp};
    bool *built = &state->clblast.built[rows == 1];
    int code = *built ? ask(weight, &b) : ask_first(weight, &b);
    *built = *built || code == CLBlastSuccess;

    if (code == CLBlastSuccess) {
        pl_count_launch(weight->device);
        return pl_queue_fence(weight->device);
    }
    if (pl_clblast_refusal(code)) {
        *refused = true;
        take_refusal(weight, row, rows, code);
        return PARLIN_SUCCESS;
    }
    return pl_error(code == CLBlastOpenCLOutOfHostMemory ? PARLIN_ERROR_MEMORY
                                                         : PARLIN_ERROR_DEVICE,
                    "product of (%zu, %zu) with a weight of (%zu, %zu): %s: %s (%d)", rows, in, out,
                    in, rows == 1 ? "CLBlastSgemv" : "CLBlastSgemm", pl_clblast_name(code), code);
}

static parlin_status run_blocks(pl_weight *weight, const parlin_tensor *x,
                                const pl_epilogue *epilogue, const parlin_heads *direct,
                                cl_mem product, cl_mem temp, size_t *done)
{
    const pl_clblast_plan *plan = &weight->plan;
    while (*done < x->rows) {
        const size_t row = *done, rows = smaller(plan->block_rows, x->rows - row);
        const size_t y_offset = direct ? plan->y_offset + row * plan->y_stride : 0;
        bool refused = false;
        PL_TRY(call(weight, x, plan, row, rows, direct ? direct->buffer : product, y_offset, temp,
                    &refused));
        if (refused)
            return PARLIN_SUCCESS;
        if (!direct)
            PL_TRY(pl_epilogue_run(weight, epilogue, product, row, rows));
        *done += rows;
    }
    return PARLIN_SUCCESS;
}

static parlin_status clblast_multiply(pl_weight *weight, const parlin_tensor *x,
                                      const pl_epilogue *epilogue, size_t *done)
{
    if (weight->state->clblast.broken)
        return PARLIN_SUCCESS;
    if (!weight->state->clblast.used)
        enter(weight);
    const parlin_heads *direct = direct_target(weight, x, epilogue);
    const pl_clblast_plan *plan = plan_for(weight, x, direct);
    if (plan->refused)
        return PARLIN_SUCCESS;

    pl_scratch product = {0}, temp = {0};
    parlin_status status = PARLIN_SUCCESS;
    if (!direct)
        status = pl_scratch_take(weight->device, plan->block_rows * weight->out * sizeof(float),
                                 &product);
    if (status == PARLIN_SUCCESS && plan->temp_bytes > 0)
        status = pl_scratch_take(weight->device, plan->temp_bytes, &temp);
    if (status == PARLIN_SUCCESS)
        status = run_blocks(weight, x, epilogue, direct, product.buffer, temp.buffer, done);
    pl_scratch_give(weight->device, &temp);
    pl_scratch_give(weight->device, &product);
    return status;
}

const pl_engine pl_engine_clblast = {"clblast", clblast_multiply};
