/* SPDX-License-Identifier: Apache-2.0 */
/* In place of the example's errors.c: keeps the last sentence, for a test to look at. */
#ifndef MODEL_SAID_H
#define MODEL_SAID_H

#include <stdio.h>

const char *said(void);

/* The call returns false, and the sentence holds the text. */
#define assert_fails(call, text)                                                                   \
    do {                                                                                           \
        assert_false(call);                                                                        \
        if (!strstr(said(), text))                                                                 \
            fail_msg("says '%s', wanted '%s'", said(), text);                                      \
    } while (0)

/* A new empty folder, and a file in it. */
const char *new_folder(void);
void write_file(const char *folder, const char *name, const void *content, size_t bytes);

#endif
