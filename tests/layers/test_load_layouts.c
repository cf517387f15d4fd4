/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE 1 /* MAP_ANONYMOUS, which POSIX 2008 does not have */
/* Loading from tensors that are not laid out as the layer wants them: strides of any sign,
   transposed, at odd addresses, query, key and value interleaved; and a rank touches none but
   its own bytes. */
#include "layers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* How a matrix lies in memory: col_step elements from column to column (from row to row where
   by_columns), `gap` elements after each line, backwards in either direction, `shift` bytes off
   any alignment. */
typedef struct layout {
    const char *name;
    bool by_columns, rows_backwards, cols_backwards;
    size_t step, gap, shift;
} layout;

static const layout layouts[] = {
    {.name = "dense", .step = 1},
    {.name = "dense at an odd address", .step = 1, .shift = 1},
    {.name = "rows apart", .step = 1, .gap = 5},
    {.name = "every third", .step = 3, .gap = 2, .shift = 3},
    {.name = "rows backwards", .step = 1, .rows_backwards = true},
    {.name = "columns backwards", .step = 2, .gap = 1, .cols_backwards = true, .shift = 1},
    {.name = "both backwards", .step = 1, .rows_backwards = true, .cols_backwards = true},
    {.name = "transposed", .step = 1, .by_columns = true},
    {.name = "transposed, apart, odd", .step = 2, .gap = 3, .by_columns = true, .shift = 1},
    {.name = "transposed backwards", .step = 1, .by_columns = true, .cols_backwards = true},
};
#define LAYOUTS (sizeof layouts / sizeof *layouts)

/* Small whole numbers, exact in every dtype; written here by bits, without the library. */
static void put(parlin_dtype dtype, float value, void *to)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (dtype == PARLIN_F32) {
        memcpy(to, &bits, 4);
        return;
    }
    uint16_t half = (uint16_t)(bits >> 16);
    if (dtype == PARLIN_F16)
        half = value == 0 ? 0
                          : (uint16_t)((bits >> 16 & 0x8000) | /* sign */
                                       ((bits >> 23 & 0xff) - 112) << 10 | (bits >> 13 & 0x3ff));
    memcpy(to, &half, 2);
}

/* Lays (rows, cols) out; *memory is the caller's to free. What lies between the elements is no
   number. */
static parlin_host lay_out(const layout *l, parlin_dtype dtype, const float *values, size_t rows,
                           size_t cols, void **memory)
{
    size_t size = parlin_dtype_size(dtype);
    size_t lines = l->by_columns ? cols : rows, width = l->by_columns ? rows : cols;
    ptrdiff_t line = (ptrdiff_t)(width * l->step + l->gap), step = (ptrdiff_t)l->step;
    size_t bytes = (size_t)line * lines * size + l->shift;
    unsigned char *base = support_alloc(bytes);
    memset(base, 0xff, bytes);
    base += l->shift;
    ptrdiff_t row = l->by_columns ? step : line, col = l->by_columns ? line : step, origin = 0;
    if (l->rows_backwards) {
        origin += row * (ptrdiff_t)(rows - 1);
        row = -row;
    }
    if (l->cols_backwards) {
        origin += col * (ptrdiff_t)(cols - 1);
        col = -col;
    }
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++)
            put(dtype, values[i * cols + j],
                base + (origin + (ptrdiff_t)i * row + (ptrdiff_t)j * col) * (ptrdiff_t)size);
    *memory = base - l->shift;
    return (parlin_host){.data = base + origin * (ptrdiff_t)size,
                         .dtype = dtype,
                         .rows = rows,
                         .cols = cols,
                         .row_stride = row,
                         .col_stride = col};
}

/* Loads full stacked values as one part (part < parts) or as all of them, laid out. */
static void load_laid_out(parlin_layer *layer, const layers_case *c, parlin_param param,
                          size_t part, const layout *l, parlin_dtype dtype, const float *values)
{
    bool whole = part == layers_parts(c);
    size_t rows = whole ? layers_out(c) : layers_part_rows(c, part);
    size_t start = whole ? 0 : layers_part_start(c, part), cols = param == PARLIN_BIAS ? 1 : c->in;
    void *memory;
    parlin_host host = lay_out(l, dtype, values + start * cols, rows, cols, &memory);
    parlin_status status =
        parlin_layer_load(layer, param, whole ? PARLIN_WHOLE : layers_shard(c, part), host);
    if (status != PARLIN_SUCCESS)
        fprintf(stderr, "%s: %s %s\n", c->name, l->name, parlin_dtype_name(dtype));
    free(memory);
    assert_ok(status);
}

/* Values in [-120, 120], exact in bf16; neighbours differ. */
static void small_values(float *out, size_t n, size_t salt)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (float)((i * 37 + salt * 11) % 241) - 120;
}

static void check_layouts(const layers_case *c)
{
    parlin_group *group = support_group();
    size_t out = layers_out(c), parts = layers_parts(c), salt = 0;
    float *weight = support_alloc_floats(out * c->in), *bias = support_alloc_floats(out);
    parlin_layer *layer = layers_create(group, c);
    for (const layout *l = layouts; l < layouts + LAYOUTS; l++)
        for (parlin_dtype dtype = PARLIN_F32; dtype <= PARLIN_BF16; dtype++)
            for (int whole = 0; whole < 2; whole++) {
                small_values(weight, out * c->in, ++salt);
                small_values(bias, out, salt + 100);
                for (size_t i = 0; i < (whole ? 1 : parts); i++) {
                    size_t part = whole ? parts : i;
                    load_laid_out(layer, c, PARLIN_WEIGHT, part, l, dtype, weight);
                    if (c->bias)
                        load_laid_out(layer, c, PARLIN_BIAS, part, l, dtype, bias);
                }
                layers_check_local(group, layer, c, weight, c->bias ? bias : NULL);
            }
    parlin_layer_destroy(layer);
    free(weight);
    free(bias);
}

static void any_layout_any_dtype(void **state)
{
    (void)state;
    static const layers_case wide[] = {
        {.kind = PARLIN_COLUMN, .in = 150, .out = 17, .name = "wide column"},
        {.kind = PARLIN_ROW, .in = 300, .out = 3, .partial = true, .name = "wide row"},
    };
    for (size_t i = 0; i < LAYERS_KINDS; i++)
        check_layouts(&layers_kinds[i]);
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        check_layouts(&wide[i]);
}

/* A stride of 0 repeats one row, or one column. */
static void stride_zero_repeats(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    layers_case c = {.kind = PARLIN_COLUMN, .in = 3, .out = 17};
    parlin_layer *layer = layers_create(group, &c);
    float source[17], wanted[51];
    small_values(source, 17, 5);
    parlin_host host = parlin_host_2d(source, PARLIN_F32, 17, 3);
    host.row_stride = 0;
    host.col_stride = 1;
    for (size_t i = 0; i < 51; i++)
        wanted[i] = source[i % 3];
    assert_ok(parlin_layer_load(layer, PARLIN_WEIGHT, PARLIN_WHOLE, host));
    layers_check_local(group, layer, &c, wanted, NULL);
    host.row_stride = 1;
    host.col_stride = 0;
    for (size_t i = 0; i < 51; i++)
        wanted[i] = source[i / 3];
    assert_ok(parlin_layer_load(layer, PARLIN_WEIGHT, PARLIN_WHOLE, host));
    layers_check_local(group, layer, &c, wanted, NULL);
    parlin_layer_destroy(layer);
}

/* --- interleaved --- */

/* The stacked row that row `stored` of an interleaved tensor holds: walks the stored order. */
static void interleaved_rows(const layers_case *c, parlin_qkv_order order, size_t *stacked)
{
    size_t kv = c->kv_heads ? c->kv_heads : c->heads, hs = c->head_size;
    size_t vhs = c->v_head_size ? c->v_head_size : hs, group = c->heads / kv, n = 0;
    size_t blocks = order == PARLIN_INTERLEAVED_HEADS ? c->heads : kv;
    size_t queries = order == PARLIN_INTERLEAVED_HEADS ? 1 : group;
    for (size_t block = 0; block < blocks; block++) {
        for (size_t i = 0; i < queries * hs; i++)
            stacked[n++] = block * queries * hs + i;
        for (size_t d = 0; d < hs; d++)
            stacked[n++] = c->heads * hs + block * hs + d;
        for (size_t d = 0; d < vhs; d++)
            stacked[n++] = c->heads * hs + kv * hs + block * vhs + d;
    }
    assert_int_equal(n, layers_out(c));
}

static const layers_case interleaved[] = {
    {.kind = PARLIN_QKV, .in = 5, .heads = 8, .head_size = 3, .bias = true, .name = "heads"},
    {.kind = PARLIN_QKV,
     .in = 3,
     .heads = 9,
     .kv_heads = 9,
     .head_size = 2,
     .v_head_size = 5,
     .bias = true,
     .name = "heads, other v"},
    {.kind = PARLIN_QKV,
     .in = 5,
     .heads = 8,
     .kv_heads = 2,
     .head_size = 3,
     .v_head_size = 2,
     .bias = true,
     .name = "groups of 4"},
    {.kind = PARLIN_QKV,
     .in = 4,
     .heads = 24,
     .kv_heads = 8,
     .head_size = 2,
     .bias = true,
     .name = "groups of 3"},
    {.kind = PARLIN_QKV,
     .in = 2,
     .heads = 12,
     .kv_heads = 1,
     .head_size = 1,
     .v_head_size = 4,
     .bias = true,
     .name = "one group"},
};

static void interleaved_orders(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    for (size_t k = 0; k < sizeof interleaved / sizeof *interleaved; k++)
        for (parlin_qkv_order order = PARLIN_INTERLEAVED_HEADS; order <= PARLIN_INTERLEAVED_GROUPS;
             order++) {
            const layers_case *c = &interleaved[k];
            if (order == PARLIN_INTERLEAVED_HEADS && c->kv_heads && c->kv_heads != c->heads)
                continue; /* refused: see the tests of errors */
            size_t out = layers_out(c), in = c->in;
            size_t *stacked = support_alloc(out * sizeof *stacked);
            interleaved_rows(c, order, stacked);
            float *weight = layers_weight(c), *bias = layers_bias(c);
            float *stored = support_alloc_floats(out * in),
                  *stored_bias = support_alloc_floats(out);
            parlin_layer *layer = layers_create(group, c);
            for (const layout *l = layouts; l < layouts + LAYOUTS; l++)
                for (parlin_dtype dtype = PARLIN_F32; dtype <= PARLIN_BF16; dtype++) {
                    small_values(weight, out * in, (size_t)(l - layouts) * 3 + dtype);
                    small_values(bias, out, (size_t)(l - layouts) * 5 + dtype);
                    for (size_t i = 0; i < out; i++) {
                        memcpy(stored + i * in, weight + stacked[i] * in, in * sizeof *stored);
                        stored_bias[i] = bias[stacked[i]];
                    }
                    void *memory, *memory_bias;
                    parlin_host w = lay_out(l, dtype, stored, out, in, &memory);
                    parlin_host b = lay_out(l, dtype, stored_bias, out, 1, &memory_bias);
                    w.order = b.order = order;
                    assert_ok(parlin_layer_load(layer, PARLIN_WEIGHT, PARLIN_WHOLE, w));
                    assert_ok(parlin_layer_load(layer, PARLIN_BIAS, PARLIN_WHOLE, b));
                    free(memory);
                    free(memory_bias);
                    layers_check_local(group, layer, c, weight, bias);
                }
            layers_check_export(group, layer, PARLIN_WEIGHT, PARLIN_WHOLE, weight, out * in);
            layers_check_export(group, layer, PARLIN_BIAS, PARLIN_WHOLE, bias, out);
            parlin_layer_destroy(layer);
            free(weight);
            free(bias);
            free(stored);
            free(stored_bias);
            free(stacked);
        }
}

/* --- only this rank's bytes --- */

/* A mapping of `lines` pages of which only those in `open` may be touched; line i is filled with
   width values of `values`, at the end of its page, so that a read past it meets the next page
   (one more closed page follows the last). */
typedef struct guarded {
    unsigned char *base;
    size_t page, lines, size, width;
} guarded;

static guarded guard(parlin_dtype dtype, size_t lines, size_t width, const float *values,
                     const bool *open)
{
    guarded g = {.page = (size_t)sysconf(_SC_PAGESIZE), .lines = lines, .width = width};
    g.size = parlin_dtype_size(dtype);
    assert_true(width * g.size <= g.page);
    void *base = mmap(NULL, g.page * (lines + 1), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(base != MAP_FAILED);
    g.base = base;
    for (size_t i = 0; i < lines; i++) {
        for (size_t j = 0; j < width; j++)
            put(dtype, values[i * width + j], g.base + (i + 1) * g.page - (width - j) * g.size);
        if (!open[i])
            assert_int_equal(mprotect(g.base + i * g.page, g.page, PROT_NONE), 0);
    }
    assert_int_equal(mprotect(g.base + lines * g.page, g.page, PROT_NONE), 0);
    return g;
}

static parlin_host guarded_host(const guarded *g, parlin_dtype dtype)
{
    parlin_host host =
        parlin_host_2d(g->base + g->page - g->width * g->size, dtype, g->lines, g->width);
    host.row_stride = (ptrdiff_t)(g->page / g->size);
    return host;
}

static void close_guarded(guarded *g)
{
    munmap(g->base, g->page * (g->lines + 1));
}

/* Loads weight and bias from memory of which only this rank's rows (a row layer: columns) can be
   read; a touch elsewhere ends the process. stored[i]: the stacked row that stored row i holds. */
static void check_touches_own(parlin_group *group, const layers_case *c, parlin_dtype dtype,
                              parlin_qkv_order order, const size_t *stored)
{
    size_t p = (size_t)parlin_group_size(group), r = (size_t)parlin_group_rank(group);
    size_t out = layers_out(c), in = c->in, lines = c->kind == PARLIN_ROW ? in : out;
    size_t width = c->kind == PARLIN_ROW ? out : in;
    size_t *own = support_alloc((out + in) * sizeof *own);
    float *weight = support_alloc_floats(out * in), *bias = support_alloc_floats(out);
    float *lined = support_alloc_floats(out * in), *lined_bias = support_alloc_floats(out);
    bool *open = support_alloc(lines), *open_bias = support_alloc(out);
    small_values(weight, out * in, 3);
    small_values(bias, out, 4);

    memset(open, 0, lines);
    memset(open_bias, 0, out);
    size_t held = layers_rows(c, p, r, own);
    for (size_t i = 0; i < out; i++)
        for (size_t k = 0; k < held; k++)
            open_bias[i] |= own[k] == stored[i];
    if (c->kind == PARLIN_ROW) {
        held = layers_cols(c, p, r, own);
        for (size_t k = 0; k < held; k++)
            open[own[k]] = true;
    } else {
        memcpy(open, open_bias, out);
    }
    for (size_t i = 0; i < out; i++) {
        lined_bias[i] = bias[stored[i]];
        for (size_t j = 0; j < in; j++)
            lined[c->kind == PARLIN_ROW ? j * out + i : i * in + j] = weight[stored[i] * in + j];
    }

    guarded w = guard(dtype, lines, width, lined, open);
    guarded b = guard(dtype, out, 1, lined_bias, open_bias);
    parlin_host host = guarded_host(&w, dtype), host_bias = guarded_host(&b, dtype);
    if (c->kind == PARLIN_ROW)
        host = parlin_host_transposed(host);
    host.order = host_bias.order = order;
    parlin_layer *layer = layers_create(group, c);
    assert_ok(parlin_layer_load(layer, PARLIN_WEIGHT, PARLIN_WHOLE, host));
    if (c->bias)
        assert_ok(parlin_layer_load(layer, PARLIN_BIAS, PARLIN_WHOLE, host_bias));
    close_guarded(&w);
    close_guarded(&b);
    layers_check_local(group, layer, c, weight, c->bias ? bias : NULL);
    parlin_layer_destroy(layer);
    free(own);
    free(weight);
    free(bias);
    free(lined);
    free(lined_bias);
    free(open);
    free(open_bias);
}

static void own_bytes_alone_are_touched(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    size_t stored[256];
    for (parlin_dtype dtype = PARLIN_F32; dtype <= PARLIN_BF16; dtype++) {
        for (const layers_case *c = layers_kinds; c < layers_kinds + LAYERS_KINDS; c++) {
            for (size_t i = 0; i < layers_out(c); i++)
                stored[i] = i;
            check_touches_own(group, c, dtype, PARLIN_STACKED, stored);
        }
        for (size_t k = 0; k < sizeof interleaved / sizeof *interleaved; k++) {
            interleaved_rows(&interleaved[k], PARLIN_INTERLEAVED_GROUPS, stored);
            check_touches_own(group, &interleaved[k], dtype, PARLIN_INTERLEAVED_GROUPS, stored);
        }
        interleaved_rows(&interleaved[0], PARLIN_INTERLEAVED_HEADS, stored);
        check_touches_own(group, &interleaved[0], dtype, PARLIN_INTERLEAVED_HEADS, stored);
    }
}

/* The same for whole pages as rows: a dense column weight, as a mapped file has it. */
static void dense_pages(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    size_t in = (size_t)sysconf(_SC_PAGESIZE) / sizeof(float);
    layers_case c = {.kind = PARLIN_COLUMN, .in = in, .out = 19};
    size_t stored[19];
    for (size_t i = 0; i < 19; i++)
        stored[i] = i;
    check_touches_own(group, &c, PARLIN_F32, PARLIN_STACKED, stored);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_layout_any_dtype), cmocka_unit_test(stride_zero_repeats),
        cmocka_unit_test(interleaved_orders),   cmocka_unit_test(own_bytes_alone_are_touched),
        cmocka_unit_test(dense_pages),
    };
    return SUPPORT_RUN_MPI("layers: layouts of what is loaded", tests);
}
