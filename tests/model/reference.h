/* SPDX-License-Identifier: Apache-2.0 */
/* A decoder of the Llama family in double precision, by plain loops, with a reader of its own:
   nothing of parlin, nothing of the example. For tiny models. */
#ifndef MODEL_REFERENCE_H
#define MODEL_REFERENCE_H

#include <stddef.h>

typedef struct reference reference;

/* Ends the process with a sentence where the folder is not as it should be. */
reference *reference_open(const char *folder);
void reference_close(reference *r);

size_t reference_vocabulary(const reference *r);

/* Whether a token ends the text: eos_token_id or bos_token_id of config.json. */
int reference_stops(const reference *r, int token);

/* logits[position * vocabulary + token] for all of the tokens fed. */
void reference_logits(const reference *r, const int *tokens, size_t count, double *logits);

#endif
