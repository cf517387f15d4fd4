/* SPDX-License-Identifier: Apache-2.0 */
#include "reference.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

struct reference {
    char folder[1024];
    cJSON *config, *index; /* index: NULL in a folder of one file */
    size_t hidden, inner, layers, heads, kv_heads, size, vocabulary;
    double theta, epsilon;
};

/* --- reading --- */

_Noreturn static void stop(const char *what, const char *name)
{
    fprintf(stderr, "reference: %s: %s\n", name, what);
    exit(1);
}

static char *read_file(const char *folder, const char *name, size_t *bytes)
{
    char path[2048];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    fseek(file, 0, SEEK_END);
    *bytes = (size_t)ftell(file);
    rewind(file);
    char *content = malloc(*bytes + 1);
    if (!content || fread(content, 1, *bytes, file) != *bytes)
        stop("cannot be read", path);
    content[*bytes] = '\0';
    fclose(file);
    return content;
}

static cJSON *read_json(const char *folder, const char *name)
{
    size_t bytes;
    char *content = read_file(folder, name, &bytes);
    cJSON *json = content ? cJSON_Parse(content) : NULL;
    free(content);
    return json;
}

static double number(const reference *r, const char *name, double otherwise)
{
    const cJSON *item = cJSON_GetObjectItem(r->config, name);
    return cJSON_IsNumber(item) ? item->valuedouble : otherwise;
}

reference *reference_open(const char *folder)
{
    reference *r = calloc(1, sizeof *r);
    if (!r)
        stop("no memory", folder);
    snprintf(r->folder, sizeof r->folder, "%s", folder);
    r->config = read_json(folder, "config.json");
    if (!r->config)
        stop("no config.json", folder);
    r->index = read_json(folder, "model.safetensors.index.json");
    r->hidden = (size_t)number(r, "hidden_size", 0);
    r->inner = (size_t)number(r, "intermediate_size", 0);
    r->layers = (size_t)number(r, "num_hidden_layers", 0);
    r->heads = (size_t)number(r, "num_attention_heads", 0);
    r->kv_heads = (size_t)number(r, "num_key_value_heads", 0);
    r->size = (size_t)number(r, "head_dim", (double)(r->hidden / r->heads));
    r->vocabulary = (size_t)number(r, "vocab_size", 0);
    r->theta = number(r, "rope_theta", 10000);
    r->epsilon = number(r, "rms_norm_eps", 1e-6);
    return r;
}

void reference_close(reference *r)
{
    cJSON_Delete(r->config);
    cJSON_Delete(r->index);
    free(r);
}

size_t reference_vocabulary(const reference *r)
{
    return r->vocabulary;
}

int reference_stops(const reference *r, int token)
{
    const char *names[] = {"bos_token_id", "eos_token_id"};
    for (size_t i = 0; i < 2; i++) {
        const cJSON *item = cJSON_GetObjectItem(r->config, names[i]);
        const cJSON *one = cJSON_IsArray(item) ? item->child : item;
        for (; one; one = one->next) {
            if (cJSON_IsNumber(one) && one->valueint == token)
                return 1;
            if (!cJSON_IsArray(item))
                break;
        }
    }
    return 0;
}

static double from_f16(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double value = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return bits >> 15 ? -value : value;
}

static double element(const char *dtype, const char *data, size_t i)
{
    uint32_t wide;
    uint16_t narrow;
    float value;
    if (strcmp(dtype, "F32") == 0) {
        memcpy(&value, data + 4 * i, 4);
        return value;
    }
    memcpy(&narrow, data + 2 * i, 2);
    if (strcmp(dtype, "F16") == 0)
        return from_f16(narrow);
    wide = (uint32_t)narrow << 16;
    memcpy(&value, &wide, 4);
    return value;
}

/* A tensor of `count` elements; NULL where it is not there. */
static double *find(const reference *r, const char *name, size_t count)
{
    const char *file = "model.safetensors";
    if (r->index) {
        const cJSON *map = cJSON_GetObjectItem(r->index, "weight_map");
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(map, name);
        if (!item)
            return NULL;
        file = item->valuestring;
    }
    size_t bytes;
    uint64_t header;
    char *content = read_file(r->folder, file, &bytes);
    if (!content || bytes < 8)
        stop("is missing", file);
    memcpy(&header, content, 8);
    cJSON *json = cJSON_ParseWithLength(content + 8, header);
    const cJSON *tensor = cJSON_GetObjectItemCaseSensitive(json, name);
    double *out = NULL;
    if (tensor) {
        const char *dtype = cJSON_GetObjectItem(tensor, "dtype")->valuestring;
        const cJSON *offsets = cJSON_GetObjectItem(tensor, "data_offsets");
        size_t start = (size_t)offsets->child->valuedouble;
        size_t end = (size_t)offsets->child->next->valuedouble;
        if (end - start != count * (strcmp(dtype, "F32") == 0 ? 4 : 2))
            stop("another size than expected", name);
        out = malloc(count * sizeof *out);
        for (size_t i = 0; out && i < count; i++)
            out[i] = element(dtype, content + 8 + header + start, i);
    }
    cJSON_Delete(json);
    free(content);
    return out;
}

static double *need(const reference *r, const char *name, size_t count)
{
    double *out = find(r, name, count);
    if (!out)
        stop("is missing", name);
    return out;
}

/* --- computing --- */

static double *zeros(size_t count)
{
    double *out = calloc(count, sizeof *out);
    if (!out)
        stop("no memory", "reference");
    return out;
}

/* y = x W^T (+ b where one is stored). x: (rows, in), y: (rows, out). */
static double *linear(const reference *r, const char *name, const double *x, size_t rows,
                      size_t out, size_t in)
{
    char full[256];
    snprintf(full, sizeof full, "%s.weight", name);
    double *w = need(r, full, out * in), *y = zeros(rows * out);
    snprintf(full, sizeof full, "%s.bias", name);
    double *b = find(r, full, out);
    for (size_t i = 0; i < rows; i++)
        for (size_t o = 0; o < out; o++) {
            double sum = b ? b[o] : 0;
            for (size_t j = 0; j < in; j++)
                sum += x[i * in + j] * w[o * in + j];
            y[i * out + o] = sum;
        }
    free(w);
    free(b);
    return y;
}

static double *norm(const reference *r, const char *name, const double *x, size_t rows)
{
    double *w = need(r, name, r->hidden), *y = zeros(rows * r->hidden);
    for (size_t i = 0; i < rows; i++) {
        const double *row = x + i * r->hidden;
        double sum = 0;
        for (size_t j = 0; j < r->hidden; j++)
            sum += row[j] * row[j];
        double scale = 1 / sqrt(sum / (double)r->hidden + r->epsilon);
        for (size_t j = 0; j < r->hidden; j++)
            y[i * r->hidden + j] = row[j] * scale * w[j];
    }
    free(w);
    return y;
}

/* As Hugging Face: x cos + rotate_half(x) sin, rotate_half(x) = (-x2, x1). */
static void rotate(const reference *r, double *x, size_t rows, size_t heads)
{
    const size_t size = r->size, half = size / 2;
    for (size_t i = 0; i < rows; i++)
        for (size_t h = 0; h < heads; h++) {
            double *head = x + (i * heads + h) * size, turned[1024];
            for (size_t d = 0; d < size; d++) {
                double angle = (double)i / pow(r->theta, (double)(2 * (d % half)) / (double)size);
                double other = d < half ? -head[d + half] : head[d - half];
                turned[d] = head[d] * cos(angle) + other * sin(angle);
            }
            memcpy(head, turned, size * sizeof *head);
        }
}

static double *attention(const reference *r, const double *q, const double *k, const double *v,
                         size_t rows)
{
    const size_t size = r->size, heads = r->heads, kv = r->kv_heads;
    double *out = zeros(rows * heads * size), *score = zeros(rows);
    for (size_t i = 0; i < rows; i++)
        for (size_t h = 0; h < heads; h++) {
            size_t from = h / (heads / kv);
            double largest = -INFINITY, sum = 0;
            for (size_t t = 0; t <= i; t++) {
                score[t] = 0;
                for (size_t d = 0; d < size; d++)
                    score[t] += q[(i * heads + h) * size + d] * k[(t * kv + from) * size + d];
                score[t] /= sqrt((double)size);
                largest = fmax(largest, score[t]);
            }
            for (size_t t = 0; t <= i; t++)
                sum += score[t] = exp(score[t] - largest);
            for (size_t t = 0; t <= i; t++)
                for (size_t d = 0; d < size; d++)
                    out[(i * heads + h) * size + d] +=
                        score[t] / sum * v[(t * kv + from) * size + d];
        }
    free(score);
    return out;
}

static void add(double *x, double *more, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] += more[i];
    free(more);
}

static void layer(const reference *r, size_t index, double *x, size_t rows)
{
    static const char *const names[] = {
        "input_layernorm.weight", "self_attn.q_proj", "self_attn.k_proj",
        "self_attn.v_proj",       "self_attn.o_proj", "post_attention_layernorm.weight",
        "mlp.gate_proj",          "mlp.up_proj",      "mlp.down_proj"};
    char name[9][256];
    for (size_t i = 0; i < 9; i++)
        snprintf(name[i], sizeof name[i], "model.layers.%zu.%s", index, names[i]);
    const size_t width = r->heads * r->size, kv = r->kv_heads * r->size, hidden = r->hidden;

    double *h = norm(r, name[0], x, rows);
    double *q = linear(r, name[1], h, rows, width, hidden);
    double *k = linear(r, name[2], h, rows, kv, hidden);
    double *v = linear(r, name[3], h, rows, kv, hidden);
    rotate(r, q, rows, r->heads);
    rotate(r, k, rows, r->kv_heads);
    double *a = attention(r, q, k, v, rows);
    add(x, linear(r, name[4], a, rows, hidden, width), rows * hidden);
    free(h);
    h = norm(r, name[5], x, rows);
    double *gate = linear(r, name[6], h, rows, r->inner, hidden);
    double *up = linear(r, name[7], h, rows, r->inner, hidden);
    for (size_t i = 0; i < rows * r->inner; i++)
        up[i] *= gate[i] / (1 + exp(-gate[i]));
    add(x, linear(r, name[8], up, rows, hidden, r->inner), rows * hidden);
    double *all[] = {h, q, k, v, a, gate, up};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

void reference_logits(const reference *r, const int *tokens, size_t count, double *logits)
{
    const size_t hidden = r->hidden;
    double *table = need(r, "model.embed_tokens.weight", r->vocabulary * hidden);
    double *x = zeros(count * hidden);
    for (size_t i = 0; i < count; i++)
        memcpy(x + i * hidden, table + (size_t)tokens[i] * hidden, hidden * sizeof *x);
    free(table);
    for (size_t i = 0; i < r->layers; i++)
        layer(r, i, x, count);
    double *h = norm(r, "model.norm.weight", x, count);
    const char *head = cJSON_IsTrue(cJSON_GetObjectItem(r->config, "tie_word_embeddings"))
                           ? "model.embed_tokens"
                           : "lm_head";
    double *out = linear(r, head, h, count, r->vocabulary, hidden);
    memcpy(logits, out, count * r->vocabulary * sizeof *logits);
    free(out);
    free(h);
    free(x);
}
