/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"

enum { FIRST_BYTE = 3, LONGEST = 4096 };

typedef struct entry {
    const char *bytes;
    size_t length;
    float score;
    int id;
} entry;

struct tokenizer {
    char *file;
    entry *entries; /* [count], by id */
    entry *sorted;  /* [count], by bytes, then id */
    size_t count;
};

static int compare(const void *left, const void *right)
{
    const entry *a = left, *b = right;
    int order = memcmp(a->bytes, b->bytes, a->length < b->length ? a->length : b->length);
    if (order != 0)
        return order;
    if (a->length != b->length)
        return a->length < b->length ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

/* The lowest id with these bytes, or -1. */
static int find(const tokenizer *t, const char *bytes, size_t length)
{
    const entry wanted = {.bytes = bytes, .length = length, .id = -1};
    size_t low = 0, high = t->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare(&t->sorted[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == t->count || t->sorted[low].length != length ||
        memcmp(t->sorted[low].bytes, bytes, length) != 0)
        return -1;
    return t->sorted[low].id;
}

static uint32_t word(const char *at)
{
    const unsigned char *b = (const unsigned char *)at;
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static bool read_entries(tokenizer *t, const char *path, size_t bytes, size_t vocabulary)
{
    size_t at = 4;
    if (bytes < at)
        return fail("%s: %zu bytes; a tokenizer begins with the length of its longest token", path,
                    bytes);
    while (at < bytes) {
        if (t->count == vocabulary)
            return fail("%s: has more tokens than the model's vocabulary of %zu", path, vocabulary);
        uint32_t bits = bytes - at < 8 ? 0 : word(t->file + at);
        uint32_t length = bytes - at < 8 ? 0 : word(t->file + at + 4);
        if (bytes - at < 8 || length > LONGEST || length > bytes - at - 8)
            return fail("%s: token %zu at byte %zu reaches beyond the file", path, t->count, at);
        entry *e = &t->entries[t->count];
        *e = (entry){.bytes = t->file + at + 8, .length = length, .id = (int)t->count};
        memcpy(&e->score, &bits, sizeof bits);
        t->count++;
        at += 8 + length;
    }
    if (t->count < FIRST_BYTE + 256)
        return fail("%s: %zu tokens; the bytes alone are %d to %d", path, t->count, FIRST_BYTE,
                    FIRST_BYTE + 255);
    memcpy(t->sorted, t->entries, t->count * sizeof *t->sorted);
    qsort(t->sorted, t->count, sizeof *t->sorted, compare);
    return true;
}

static bool read_file(tokenizer *t, FILE *file, const char *path, size_t vocabulary)
{
    long bytes = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    if (bytes < 0 || fseek(file, 0, SEEK_SET) != 0)
        return fail("%s cannot be read", path);
    t->file = malloc((size_t)bytes + 1);
    t->entries = calloc(vocabulary, sizeof *t->entries);
    t->sorted = calloc(vocabulary, sizeof *t->sorted);
    if (!t->file || !t->entries || !t->sorted)
        return fail("%s: no memory for %ld bytes", path, bytes);
    if (fread(t->file, 1, (size_t)bytes, file) != (size_t)bytes)
        return fail("%s cannot be read", path);
    return read_entries(t, path, (size_t)bytes, vocabulary);
}

bool tokenizer_open(const char *folder, size_t vocabulary, tokenizer **out)
{
    char path[4096];
    *out = NULL;
    if (snprintf(path, sizeof path, "%s/tokenizer.bin", folder) >= (int)sizeof path)
        return fail("--model: the path is too long");
    FILE *file = fopen(path, "rb");
    if (!file)
        return true;
    tokenizer *t = calloc(1, sizeof *t);
    bool fine = t ? read_file(t, file, path, vocabulary) : fail("%s: no memory", path);
    fclose(file);
    if (fine)
        *out = t;
    else
        tokenizer_close(t);
    return fine;
}

void tokenizer_close(tokenizer *t)
{
    if (!t)
        return;
    free(t->file);
    free(t->entries);
    free(t->sorted);
    free(t);
}

/* Bytes of the UTF-8 character at `text`: a byte and what continues it, at most four. */
static size_t character(const char *text)
{
    size_t length = 1;
    while (length < 4 && ((unsigned char)text[length] & 0xc0) == 0x80)
        length++;
    return length;
}

static size_t characters(const tokenizer *t, const char *text, int *tokens)
{
    size_t count = 0;
    for (size_t length; *text; text += length) {
        length = character(text);
        int id = find(t, text, length);
        if (id >= 0)
            tokens[count++] = id;
        for (size_t i = 0; id < 0 && i < length; i++)
            tokens[count++] = (unsigned char)text[i] + FIRST_BYTE;
    }
    return count;
}

/* The token of the two one after the other, or -1. */
static int joined(const tokenizer *t, int left, int right)
{
    char bytes[2 * LONGEST];
    const entry *a = &t->entries[left], *b = &t->entries[right];
    memcpy(bytes, a->bytes, a->length);
    memcpy(bytes + a->length, b->bytes, b->length);
    return find(t, bytes, a->length + b->length);
}

/* pairs[i]: what tokens i and i + 1 join to. */
static size_t join(const tokenizer *t, int *tokens, size_t count, int *pairs)
{
    for (size_t i = 0; i + 1 < count; i++)
        pairs[i] = joined(t, tokens[i], tokens[i + 1]);
    for (;;) {
        size_t best = count;
        for (size_t i = 0; i + 1 < count; i++)
            if (pairs[i] >= 0 &&
                (best == count || t->entries[pairs[i]].score > t->entries[pairs[best]].score))
                best = i;
        if (best == count)
            return count;
        tokens[best] = pairs[best];
        memmove(tokens + best + 1, tokens + best + 2, (count - best - 2) * sizeof *tokens);
        memmove(pairs + best, pairs + best + 1, (count - best - 2) * sizeof *pairs);
        count--;
        if (best > 0)
            pairs[best - 1] = joined(t, tokens[best - 1], tokens[best]);
        if (best + 1 < count)
            pairs[best] = joined(t, tokens[best], tokens[best + 1]);
    }
}

bool tokenizer_encode(const tokenizer *t, const char *text, int **tokens, size_t *count)
{
    size_t length = strlen(text);
    *tokens = NULL;
    *count = 0;
    if (length == 0)
        return true;
    char *spaced = malloc(length + 2);
    int *ids = malloc((length + 1) * sizeof *ids), *pairs = malloc((length + 1) * sizeof *pairs);
    if (spaced && ids && pairs) {
        spaced[0] = ' ';
        memcpy(spaced + 1, text, length + 1);
        *count = join(t, ids, characters(t, spaced, ids), pairs);
        *tokens = ids;
    } else {
        free(ids);
        fail("no memory for a prompt of %zu bytes", length);
    }
    free(spaced);
    free(pairs);
    return *tokens != NULL;
}

const char *tokenizer_piece(const tokenizer *t, int bos, int before, int token, size_t *length)
{
    static char byte[1];
    *length = 0;
    if (token < 0 || (size_t)token >= t->count)
        return "";
    const entry *e = &t->entries[token];
    char text[7];
    unsigned value;
    int end = 0;
    if (e->length == 6) {
        memcpy(text, e->bytes, 6);
        text[6] = '\0';
        if (sscanf(text, "<0x%2X>%n", &value, &end) == 1 && end == 6) {
            byte[0] = (char)value;
            *length = 1;
            return byte;
        }
    }
    bool drop = bos >= 0 && before == bos && e->length > 0 && e->bytes[0] == ' ';
    *length = e->length - (drop ? 1 : 0);
    return e->bytes + (drop ? 1 : 0);
}
