/* SPDX-License-Identifier: Apache-2.0 */
/* Resident memory while and after a load of 1 GB on 4 ranks: near this rank's quarter, which lies
   on a device that may be host memory, and a fixed buffer. The file is a hole but for a few
   values, so it takes no disk. */
#include "layers.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"

/* W is (OUT, IN) in f32, 512 MiB: W[STEP_ROW k][STEP_COL k] = k + 1, else 0. */
enum { OUT = 8192, IN = 16384, MARKS = 60, STEP_ROW = 131, STEP_COL = 271 };

static const size_t fixed_bytes = (size_t)48 << 20;

/* A "VmRSS:" or the like of this process, in bytes. */
static size_t memory(const char *field)
{
    char line[256];
    size_t kilobytes = 0;
    FILE *file = fopen("/proc/self/status", "r");
    if (file == NULL)
        return 0;
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, field, strlen(field)) == 0)
            kilobytes = strtoull(line + strlen(field), NULL, 10);
    fclose(file);
    return kilobytes << 10;
}

/* From here on VmHWM, the most that was ever resident, begins anew. False: not to be had. */
static bool forget_peak(void)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY);
    bool done = fd >= 0 && write(fd, "5", 1) == 1;
    if (fd >= 0)
        close(fd);
    return done;
}

/* Made by rank 0, read by all. The same bytes are W and, in the other tensor, W transposed. */
static const char *make_file(void)
{
    static char path[128];
    const size_t bytes = (size_t)OUT * IN * sizeof(float);
    if (support_rank() == 0) {
        char header[512];
        snprintf(header, sizeof header,
                 "{\"as_is\":{\"dtype\":\"F32\",\"shape\":[%d,%d],\"data_offsets\":[0,%zu]},"
                 "\"turned\":{\"dtype\":\"F32\",\"shape\":[%d,%d],\"data_offsets\":[%zu,%zu]}}",
                 OUT, IN, bytes, IN, OUT, bytes, 2 * bytes);
        snprintf(path, sizeof path, "%s",
                 files_safetensors("large.safetensors", header, NULL, 2 * bytes));
        int fd = open(path, O_WRONLY);
        assert_true(fd >= 0);
        for (size_t k = 0; k < MARKS; k++) {
            size_t row = k * STEP_ROW, col = k * STEP_COL, data = 8 + strlen(header);
            const float value = (float)(k + 1);
            assert_int_equal(pwrite(fd, &value, 4, (off_t)(data + (row * IN + col) * 4)), 4);
            assert_int_equal(pwrite(fd, &value, 4, (off_t)(data + bytes + (col * OUT + row) * 4)),
                             4);
        }
        close(fd);
    }
    MPI_Bcast(path, sizeof path, MPI_CHAR, 0, MPI_COMM_WORLD);
    return path;
}

static void sample(void *user, size_t done, size_t total)
{
    size_t *peak = user, now = memory("VmRSS:");
    (void)done;
    (void)total;
    *peak = now > *peak ? now : *peak;
}

/* y = W x of ones: row STEP_ROW k holds k + 1 where column STEP_COL k is this rank's. */
static void check_values(parlin_layer *layer, const layers_case *c)
{
    parlin_layer_info info = parlin_layer_get_info(layer);
    parlin_tensor x, y;
    assert_ok(parlin_layer_output(layer, 1, &y));
    assert_ok(parlin_tensor_create_on(y.device, PARLIN_F32, 1, info.input_cols, &x));
    float *in = support_alloc_floats(info.input_cols),
          *out = support_alloc_floats(info.output_cols);
    float *wanted = calloc(OUT, sizeof *wanted);
    assert_non_null(wanted);
    for (size_t i = 0; i < info.input_cols; i++)
        in[i] = 1;
    size_t first_col, cols, first_row, rows;
    layers_deal(IN, 4, (size_t)support_rank(), &first_col, &cols);
    layers_deal(OUT, 4, (size_t)support_rank(), &first_row, &rows);
    for (size_t k = 0; k < MARKS; k++) {
        bool here = c->kind == PARLIN_COLUMN || k * STEP_COL - first_col < cols;
        wanted[k * STEP_ROW] = here ? (float)(k + 1) : 0;
    }
    assert_ok(parlin_tensor_write(x, in));
    assert_ok(parlin_layer_forward(layer, x, y));
    assert_ok(parlin_tensor_read(y, out));
    assert_same_floats(out, c->kind == PARLIN_COLUMN ? wanted + first_row : wanted,
                       info.output_cols);
    free(in);
    free(out);
    free(wanted);
    parlin_tensor_destroy(&x);
    parlin_tensor_destroy(&y);
}

static void check_limit(const char *what, size_t before, size_t now, size_t slice)
{
    if (now > before + slice + fixed_bytes) {
        fprintf(stderr,
                "rank %d: %s: %zu MiB resident, %zu before, at most %zu + %zu more wanted\n",
                support_rank(), what, now >> 20, before >> 20, slice >> 20, fixed_bytes >> 20);
        fail();
    }
}

static void load(const char *path, parlin_kind kind, bool transposed)
{
    layers_case c = {.kind = kind, .in = IN, .out = OUT, .partial = kind == PARLIN_ROW};
    parlin_checkpoint *checkpoint = files_open(path);
    parlin_loader *loader = NULL;
    assert_ok(parlin_loader_create(checkpoint, &loader));
    parlin_checkpoint_close(checkpoint);
    parlin_layer *layer = layers_create(support_group(), &c);
    const parlin_layout layout = {.transposed = transposed};
    assert_ok(parlin_loader_add_tensor(loader, layer, PARLIN_WEIGHT, PARLIN_WHOLE,
                                       transposed ? "turned" : "as_is", &layout));
    size_t slice = parlin_layer_get_info(layer).weight_bytes;
    assert_int_equal(slice, (size_t)OUT * IN * sizeof(float) / 4);
    /* all ranks at once: pages that others have read are near at hand */
    MPI_Barrier(MPI_COMM_WORLD);
    size_t before = memory("VmRSS:"), peak = 0;
    bool exact = forget_peak();
    assert_ok(parlin_loader_run(loader, sample, &peak));
    size_t most = memory("VmHWM:"), after = memory("VmRSS:");
    assert_true(peak > 0);
    check_limit("seen by progress", before, peak, slice);
    if (exact)
        check_limit("peak", before, most, slice);
    check_limit("after", before, after, slice);
    check_values(layer, &c);
    parlin_loader_destroy(loader);
    parlin_layer_destroy(layer);
}

static void a_quarter_and_a_fixed_buffer(void **state)
{
    (void)state;
    if (support_size() != 4)
        fail_msg("for 4 ranks");
    if (memory("VmRSS:") == 0)
        SUPPORT_SKIP("no /proc/self/status here");
    const char *path = make_file();
    load(path, PARLIN_COLUMN, false);
    load(path, PARLIN_ROW, false);
    load(path, PARLIN_COLUMN, true);
    load(path, PARLIN_ROW, true);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_quarter_and_a_fixed_buffer)};
    int failed = SUPPORT_RUN_MPI("layers_loader_memory", tests);
    files_remove();
    return failed;
}
