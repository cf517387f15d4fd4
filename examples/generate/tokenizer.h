/* SPDX-License-Identifier: Apache-2.0 */
/* Text to tokens and back, by a tokenizer.bin of llama2.c: int32 length of the longest token; then
   for each id: f32 score, int32 length, bytes. Little-endian. */
#ifndef GENERATE_TOKENIZER_H
#define GENERATE_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct tokenizer tokenizer;

/* Reads FOLDER/tokenizer.bin of at most `vocabulary` tokens; *out is NULL where there is no such
   file. False, with the sentence, where it is malformed. */
bool tokenizer_open(const char *folder, size_t vocabulary, tokenizer **out);
void tokenizer_close(tokenizer *t);

/* The tokens of a text, without bos: a space is put before it, then the neighbouring pair whose
   joined token has the best score is joined until none is left; bytes that are no token are ids
   byte + 3. *tokens is to be freed; an empty text has none. */
bool tokenizer_encode(const tokenizer *t, const char *text, int **tokens, size_t *count);

/* The bytes of `token` (after `before`, or -1): "<0xHH>" is that byte, and after bos one leading
   space is lost. A token that the tokenizer does not have is no bytes. Holds until the next call. */
const char *tokenizer_piece(const tokenizer *t, int bos, int before, int token, size_t *length);

#endif
