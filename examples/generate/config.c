/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "errors.h"

static char path[4096];

/* The member, or NULL where it is missing or null. */
static const cJSON *member(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNull(item) ? NULL : item;
}

/* A whole number of at least 1; `otherwise` where it is not there, and 0 then means: it must be. */
static bool count(const cJSON *root, const char *name, size_t otherwise, size_t *value)
{
    const cJSON *item = member(root, name);
    if (!item && otherwise > 0) {
        *value = otherwise;
        return true;
    }
    if (!item)
        return fail("%s: %s is missing", path, name);
    double number = cJSON_IsNumber(item) ? item->valuedouble : 0;
    if (!(number >= 1 && number < INT_MAX) || number != (double)(int)number)
        return fail("%s: %s is no whole number from 1 on", path, name);
    *value = (size_t)number;
    return true;
}

static bool positive(const cJSON *root, const char *name, double otherwise, double *value)
{
    const cJSON *item = member(root, name);
    *value = item ? (cJSON_IsNumber(item) ? item->valuedouble : 0) : otherwise;
    return *value > 0 || fail("%s: %s is no number above 0", path, name);
}

static bool flag(const cJSON *root, const char *name, bool otherwise, bool *value)
{
    const cJSON *item = member(root, name);
    if (item && !cJSON_IsBool(item))
        return fail("%s: %s is neither true nor false", path, name);
    *value = item ? cJSON_IsTrue(item) : otherwise;
    return true;
}

static bool token(const cJSON *item, const char *name, size_t vocabulary, int *value)
{
    double number = cJSON_IsNumber(item) ? item->valuedouble : -1;
    if (!(number >= 0 && number < (double)vocabulary) || number != (double)(int)number)
        return fail("%s: %s is no token of a vocabulary of %zu", path, name, vocabulary);
    *value = (int)number;
    return true;
}

static bool read_stops(const cJSON *root, model_config *config)
{
    const cJSON *bos = member(root, "bos_token_id"), *eos = member(root, "eos_token_id");
    config->bos = -1;
    config->stop_count = 0;
    if (bos && !token(bos, "bos_token_id", config->vocabulary, &config->bos))
        return false;
    if (bos)
        config->stops[config->stop_count++] = config->bos;
    const cJSON *one = cJSON_IsArray(eos) ? eos->child : eos;
    for (; one; one = cJSON_IsArray(eos) ? one->next : NULL) {
        if (config->stop_count == CONFIG_STOPS)
            return fail("%s: eos_token_id has more than %d tokens", path, CONFIG_STOPS - 1);
        if (!token(one, "eos_token_id", config->vocabulary, &config->stops[config->stop_count++]))
            return false;
    }
    return true;
}

static const char *text(const cJSON *root, const char *name)
{
    const cJSON *item = member(root, name);
    return cJSON_IsString(item) ? item->valuestring : "";
}

/* Anything but plain rotation, as a sentence. `rope` is rope_scaling or, newer, rope_parameters. */
static bool plain_rope(const cJSON *rope, const char *name)
{
    if (!rope)
        return true;
    const char *type = text(rope, "rope_type");
    if (!*type)
        type = text(rope, "type");
    if (cJSON_IsObject(rope) && (!*type || strcmp(type, "default") == 0))
        return true;
    return fail("%s: %s asks for '%s'; this program rotates plainly (\"default\") alone", path,
                name, *type ? type : "something unknown");
}

/* What would silently give another model than the one that was trained. */
static bool supported(const cJSON *root, bool qwen2)
{
    const char *activation = text(root, "hidden_act");
    if (*activation && strcmp(activation, "silu") != 0)
        return fail("%s: hidden_act is '%s'; this program has silu alone", path, activation);
    if (!plain_rope(member(root, "rope_scaling"), "rope_scaling") ||
        !plain_rope(member(root, "rope_parameters"), "rope_parameters"))
        return false;
    double part;
    bool sliding;
    if (!positive(root, "partial_rotary_factor", 1, &part) ||
        !flag(root, "use_sliding_window", !qwen2, &sliding))
        return false;
    if (part != 1)
        return fail("%s: partial_rotary_factor is %g; this program rotates whole heads alone", path,
                    part);
    if (sliding && member(root, "sliding_window"))
        return fail("%s: sliding_window is set; this program attends to all positions alone", path);
    if (member(root, "quantization_config"))
        return fail("%s: quantization_config is set; this program reads F32, F16 and BF16 alone",
                    path);
    return true;
}

static bool read_root(const cJSON *root, model_config *config)
{
    const char *type = text(root, "model_type");
    bool qwen2 = strcmp(type, "qwen2") == 0;
    if (!qwen2 && strcmp(type, "llama") != 0 && strcmp(type, "mistral") != 0)
        return fail("%s: model_type is '%s'; this program runs llama, mistral and qwen2", path,
                    type);
    if (!supported(root, qwen2))
        return false;
    const cJSON *rope = member(root, "rope_parameters");
    bool theta_within = rope && member(rope, "rope_theta");
    if (!count(root, "hidden_size", 0, &config->hidden) ||
        !count(root, "intermediate_size", 0, &config->inner) ||
        !count(root, "num_hidden_layers", 0, &config->layers) ||
        !count(root, "num_attention_heads", 0, &config->heads) ||
        !count(root, "num_key_value_heads", config->heads, &config->kv_heads) ||
        !count(root, "vocab_size", 0, &config->vocabulary) ||
        !count(root, "max_position_embeddings", 2048, &config->context) ||
        !positive(theta_within ? rope : root, "rope_theta", 10000, &config->rope_theta) ||
        !positive(root, "rms_norm_eps", 1e-6, &config->norm_epsilon) ||
        !flag(root, "tie_word_embeddings", false, &config->tied) ||
        !flag(root, "attention_bias", qwen2, &config->attention_bias) ||
        !flag(root, "mlp_bias", false, &config->mlp_bias) || !read_stops(root, config))
        return false;
    config->attention_bias = config->attention_bias || qwen2;
    config->output_bias = config->attention_bias && !qwen2;
    if (!member(root, "head_dim") && config->hidden % config->heads != 0)
        return fail("%s: hidden_size %zu is no multiple of num_attention_heads %zu, and there is "
                    "no head_dim",
                    path, config->hidden, config->heads);
    size_t head_size = config->hidden / config->heads;
    if (!count(root, "head_dim", head_size ? head_size : 1, &config->head_size))
        return false;
    if (config->head_size % 2 != 0)
        return fail("%s: the head size %zu is odd; rotation needs pairs", path, config->head_size);
    if (config->heads % config->kv_heads != 0)
        return fail("%s: num_attention_heads %zu is no multiple of num_key_value_heads %zu", path,
                    config->heads, config->kv_heads);
    return true;
}

/* The whole file with a 0 at its end, to be freed. */
static char *read_text(void)
{
    enum { LIMIT = 1 << 20 };
    FILE *file = fopen(path, "rb");
    if (!file) {
        fail("%s cannot be opened; --model wants a folder with config.json", path);
        return NULL;
    }
    char *content = malloc(LIMIT + 1);
    size_t length = content ? fread(content, 1, LIMIT + 1, file) : 0;
    bool broken = ferror(file) != 0;
    fclose(file);
    if (!content || broken || length > LIMIT) {
        fail("%s: %s", path, !content ? "no memory" : broken ? "cannot be read" : "above 1 MiB");
        free(content);
        return NULL;
    }
    content[length] = '\0';
    return content;
}

bool config_read(const char *folder, model_config *config)
{
    if (snprintf(path, sizeof path, "%s/config.json", folder) >= (int)sizeof path)
        return fail("--model: the path is too long");
    char *content = read_text();
    if (!content)
        return false;
    cJSON *root = cJSON_Parse(content);
    bool fine = cJSON_IsObject(root) ? read_root(root, config) : fail("%s is no JSON object", path);
    cJSON_Delete(root);
    free(content);
    return fine;
}

bool config_stops(const model_config *config, int token_id)
{
    for (size_t i = 0; i < config->stop_count; i++)
        if (config->stops[i] == token_id)
            return true;
    return false;
}
