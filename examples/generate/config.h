/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of a model: a Hugging Face config.json of the Llama family. */
#ifndef GENERATE_CONFIG_H
#define GENERATE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

enum { CONFIG_STOPS = 16 };

typedef struct model_config {
    size_t hidden;    /* hidden_size */
    size_t inner;     /* intermediate_size */
    size_t layers;    /* num_hidden_layers */
    size_t heads;     /* num_attention_heads */
    size_t kv_heads;  /* num_key_value_heads */
    size_t head_size; /* head_dim, else hidden / heads */
    size_t vocabulary;
    size_t context; /* max_position_embeddings */
    double rope_theta;
    double norm_epsilon;
    bool tied;           /* the output head is the embedding table */
    bool attention_bias; /* of q, k, v */
    bool output_bias;    /* of o as well: Llama with attention_bias */
    bool mlp_bias;
    int bos; /* -1: none */
    int stops[CONFIG_STOPS];
    size_t stop_count; /* tokens that end a text: eos, and bos where there is one */
} model_config;

/* Reads FOLDER/config.json; what this program cannot do is refused. False, with the sentence, where
   that fails. */
bool config_read(const char *folder, model_config *config);

bool config_stops(const model_config *config, int token);

#endif
