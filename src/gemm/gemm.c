/* SPDX-License-Identifier: Apache-2.0 */
#include "gemm/gemm.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/option.h"
#include "core/size.h"
#include "core/status.h"
#include "gemm/engine.h"

/* In order of preference. "auto" begins with the first. */
static const pl_engine *const engines[] = {&pl_engine_clblast, &pl_engine_plain};
#define ENGINES (sizeof engines / sizeof *engines)

/* Product scratch beyond this is cut into row blocks. */
#define SCRATCH_LIMIT ((size_t)64 << 20)

/* --- state of a device --- */

static const char device_key;

static void device_state_destroy(void *pointer)
{
    pl_gemm_device *state = pointer;
    pl_clblast_leave(state);
    free(state); /* the kernels belong to the device */
}

parlin_status pl_gemm_device_get(parlin_device *device, pl_gemm_device **state)
{
    *state = pl_device_attachment(device, &device_key);
    if (*state)
        return PARLIN_SUCCESS;
    pl_gemm_device *made = calloc(1, sizeof *made);
    if (!made)
        return pl_error(PARLIN_ERROR_MEMORY, "no host memory for the product's state of a device");
    parlin_status status = pl_device_attach(device, &device_key, made, device_state_destroy);
    if (status != PARLIN_SUCCESS) {
        free(made);
        return status;
    }
    *state = made;
    return PARLIN_SUCCESS;
}

/* --- weights --- */

static bool find_engine(const char *name, size_t *first)
{
    if (strcmp(name, "auto") == 0) {
        *first = 0;
        return true;
    }
    for (size_t i = 0; i < ENGINES; i++)
        if (strcmp(name, engines[i]->name) == 0) {
            *first = i;
            return true;
        }
    return false;
}

static size_t first_engine_from_environment(void)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    const char *name = pl_option(PL_OPTION_ENGINE);
    size_t first = 0;
    if (name && !find_engine(name, &first) && !atomic_flag_test_and_set(&warned))
        pl_log(PL_LOG_WARN, "%s=%s is none of auto, plain, clblast; using auto",
               pl_option_name(PL_OPTION_ENGINE), name);
    return first;
}

bool pl_weight_force(pl_weight *weight, const char *engine)
{
    weight->plan.rows = 0;
    return find_engine(engine, &weight->first_engine);
}

parlin_status pl_weight_create(parlin_device *device, parlin_dtype dtype, size_t out, size_t in,
                               pl_weight **weight)
{
    if (dtype != PARLIN_F32)
        return pl_error(PARLIN_ERROR_UNSUPPORTED,
                        "weight of (%zu, %zu): dtype is %s; this version multiplies in f32 only",
                        out, in, parlin_dtype_name(dtype));
    size_t elements, bytes;
    if (!pl_size_mul(out, in, &elements) || !pl_size_mul(elements, sizeof(float), &bytes))
        return pl_error(PARLIN_ERROR_MEMORY,
                        "weight of (%zu, %zu): its bytes are more than %zu, the largest size", out,
                        in, SIZE_MAX);
    pl_weight *made = calloc(1, sizeof *made);
    if (!made)
        return pl_error(PARLIN_ERROR_MEMORY, "weight of (%zu, %zu): no host memory", out, in);
    made->device = device;
    made->dtype = dtype;
    made->out = out;
    made->in = in;
    made->bytes = bytes;
    made->scratch_limit = SCRATCH_LIMIT;
    made->index_limit = INT32_MAX;
    made->first_engine = first_engine_from_environment();
    parlin_status status = pl_gemm_device_get(device, &made->state);
    if (status == PARLIN_SUCCESS)
        status = pl_buffer_create(device, bytes, &made->buffer);
    if (status != PARLIN_SUCCESS) {
        free(made);
        return status;
    }
    pl_device_retain(device);
    *weight = made;
    return PARLIN_SUCCESS;
}

void pl_weight_destroy(pl_weight *weight)
{
    if (!weight)
        return;
    pl_buffer_release(weight->device, weight->buffer, weight->bytes);
    pl_device_release(weight->device);
    free(weight);
}

size_t pl_weight_bytes(const pl_weight *weight)
{
    return weight->bytes;
}

parlin_status pl_weight_write(pl_weight *weight, size_t row, size_t rows, const void *host)
{
    const size_t width = weight->in * sizeof(float);
    const pl_rect at = {row * width, width};
    return pl_rect_write(weight->device, weight->buffer, at, width, rows, host, width, true);
}

parlin_status pl_weight_read(const pl_weight *weight, size_t row, size_t rows, void *host)
{
    const size_t width = weight->in * sizeof(float);
    const pl_rect at = {row * width, width};
    return pl_rect_read(weight->device, weight->buffer, at, width, rows, host, width, true);
}

const char *pl_weight_engine(const pl_weight *weight)
{
    return weight->engine ? weight->engine->name : "none";
}

/* --- the product --- */

parlin_status pl_gemm(pl_weight *weight, const parlin_tensor *x, const pl_epilogue *epilogue)
{
    size_t done = 0;
    for (size_t i = weight->first_engine; i < ENGINES && done < x->rows; i++) {
        const size_t before = done;
        PL_TRY(engines[i]->multiply(weight, x, epilogue, &done));
        if (done > before && weight->engine != engines[i]) {
            pl_log(PL_LOG_INFO, "product of %zu rows with a weight of (%zu, %zu): engine %s",
                   x->rows, weight->out, weight->in, engines[i]->name);
            weight->engine = engines[i];
        }
    }
    if (done < x->rows)
        return pl_error(PARLIN_ERROR_UNSUPPORTED,
                        "product of %zu rows with a weight of (%zu, %zu): no engine serves it",
                        x->rows, weight->out, weight->in);
    return PARLIN_SUCCESS;
}
