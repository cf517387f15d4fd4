/* SPDX-License-Identifier: Apache-2.0 */
/* config.json: what is read, what is taken where it is not there, what is refused. */
#include "support.h"

#include <string.h>
#include <unistd.h>

#include "config.h"
#include "said.h"

#define SIZES                                                                                      \
    "\"hidden_size\": 32, \"intermediate_size\": 21, \"num_hidden_layers\": 2, "                   \
    "\"num_attention_heads\": 8, \"vocab_size\": 67"
#define LLAMA "{\"model_type\": \"llama\", " SIZES

static char folder[64];

static bool reads(const char *text, model_config *config)
{
    memset(config, 0xee, sizeof *config);
    write_file(folder, "config.json", text, strlen(text));
    return config_read(folder, config);
}

static void assert_reads(const char *text, model_config *config)
{
    if (!reads(text, config))
        fail_msg("%s: %s", text, said());
}

static int set_up(void **state)
{
    (void)state;
    strcpy(folder, new_folder());
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char path[128];
    snprintf(path, sizeof path, "%s/config.json", folder);
    unlink(path);
    rmdir(folder);
    return 0;
}

static void takes_what_is_not_there(void **state)
{
    (void)state;
    model_config c;
    assert_reads(LLAMA "}", &c);
    assert_int_equal(c.hidden, 32);
    assert_int_equal(c.inner, 21);
    assert_int_equal(c.layers, 2);
    assert_int_equal(c.heads, 8);
    assert_int_equal(c.kv_heads, 8);
    assert_int_equal(c.head_size, 4);
    assert_int_equal(c.vocabulary, 67);
    assert_int_equal(c.context, 2048);
    assert_true(c.rope_theta == 10000 && c.norm_epsilon == 1e-6);
    assert_false(c.tied || c.attention_bias || c.output_bias || c.mlp_bias);
    assert_int_equal(c.bos, -1);
    assert_int_equal(c.stop_count, 0);
}

static void reads_all(void **state)
{
    (void)state;
    model_config c;
    assert_reads(LLAMA
                 ", \"num_key_value_heads\": 4, \"head_dim\": 6, \"rope_theta\": 5e5, "
                 "\"rms_norm_eps\": 1e-5, \"max_position_embeddings\": 99, "
                 "\"tie_word_embeddings\": true, \"attention_bias\": true, \"mlp_bias\": true, "
                 "\"bos_token_id\": 7, \"eos_token_id\": [8, 9], \"hidden_act\": \"silu\", "
                 "\"rope_scaling\": null, \"sliding_window\": null}",
                 &c);
    assert_int_equal(c.kv_heads, 4);
    assert_int_equal(c.head_size, 6);
    assert_int_equal(c.context, 99);
    assert_true(c.rope_theta == 5e5 && c.norm_epsilon == 1e-5);
    assert_true(c.tied && c.attention_bias && c.output_bias && c.mlp_bias);
    assert_int_equal(c.bos, 7);
    assert_true(config_stops(&c, 7) && config_stops(&c, 8) && config_stops(&c, 9));
    assert_false(config_stops(&c, 6) || config_stops(&c, -1));
    assert_reads(LLAMA ", \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 3}}",
                 &c);
    assert_true(c.rope_theta == 3);
}

/* Qwen2: biases of q, k and v whatever is said, none of o; a window that is not used. */
static void qwen2(void **state)
{
    (void)state;
    model_config c;
    assert_reads("{\"model_type\": \"qwen2\", \"use_sliding_window\": false, "
                 "\"sliding_window\": 64, " SIZES "}",
                 &c);
    assert_true(c.attention_bias);
    assert_false(c.output_bias);
    assert_fails(reads("{\"model_type\": \"qwen2\", \"use_sliding_window\": true, "
                       "\"sliding_window\": 64, " SIZES "}",
                       &c),
                 "sliding_window");
}

static void refuses_what_it_cannot_do(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } refused[] = {
        {"", "no JSON object"},
        {"[1]", "no JSON object"},
        {"{\"model_type\": \"llama\"", "no JSON object"},
        {"{" SIZES "}", "model_type is ''"},
        {"{\"model_type\": \"gpt2\", " SIZES "}", "model_type is 'gpt2'"},
        {"{\"model_type\": \"mistral\", \"sliding_window\": 64, " SIZES "}",
         "sliding_window is set"},
        {"{\"model_type\": \"llama\"}", "hidden_size is missing"},
        {LLAMA ", \"hidden_act\": \"gelu\"}", "hidden_act is 'gelu'"},
        {LLAMA ", \"rope_scaling\": {\"rope_type\": \"llama3\"}}",
         "rope_scaling asks for 'llama3'"},
        {LLAMA ", \"rope_scaling\": {\"type\": \"linear\"}}", "rope_scaling asks for 'linear'"},
        {LLAMA ", \"rope_scaling\": 2}", "rope_scaling asks for 'something unknown'"},
        {LLAMA ", \"rope_parameters\": {\"rope_type\": \"yarn\"}}",
         "rope_parameters asks for 'yarn'"},
        {LLAMA ", \"partial_rotary_factor\": 0.5}", "partial_rotary_factor is 0.5"},
        {LLAMA ", \"quantization_config\": {}}", "quantization_config is set"},
        {LLAMA ", \"num_key_value_heads\": 3}", "no multiple of num_key_value_heads 3"},
        {LLAMA ", \"num_key_value_heads\": 0}", "num_key_value_heads is no whole number"},
        {LLAMA ", \"head_dim\": 5}", "5 is odd"},
        {LLAMA ", \"head_dim\": 4.5}", "head_dim is no whole number"},
        {LLAMA ", \"head_dim\": 1e30}", "head_dim is no whole number"},
        {LLAMA ", \"rope_theta\": -1}", "rope_theta is no number above 0"},
        {LLAMA ", \"rms_norm_eps\": \"small\"}", "rms_norm_eps is no number"},
        {LLAMA ", \"mlp_bias\": 1}", "mlp_bias is neither true nor false"},
        {LLAMA ", \"bos_token_id\": 67}", "bos_token_id is no token"},
        {LLAMA ", \"eos_token_id\": [1, -2]}", "eos_token_id is no token"},
        {LLAMA ", \"eos_token_id\": [0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}", "more than"},
        {"{\"model_type\": \"llama\", \"hidden_size\": 30, \"intermediate_size\": 8, "
         "\"num_hidden_layers\": 1, \"num_attention_heads\": 4, \"vocab_size\": 9}",
         "hidden_size 30 is no multiple of num_attention_heads 4"},
    };
    model_config c;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_fails(reads(refused[i].text, &c), refused[i].says);
    assert_fails(config_read("/nowhere/at/all", &c),
                 "/nowhere/at/all/config.json cannot be opened");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(takes_what_is_not_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reads_all, set_up, tear_down),
        cmocka_unit_test_setup_teardown(qwen2, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refuses_what_it_cannot_do, set_up, tear_down),
    };
    return SUPPORT_RUN("model_config", tests);
}
