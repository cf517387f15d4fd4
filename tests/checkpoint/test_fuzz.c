/* SPDX-License-Identifier: Apache-2.0 */
/* Damaged copies of a sound file and of a sound index, always the same ones: each is either
   refused with a sentence or read, and what is read lies within the file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"

enum { ROUNDS = 4000 };

static const char header[] =
    "{\"__metadata__\":{\"format\":\"pt\",\"note\":\"a \\\"b\\\" \\u00e9\"},"
    "\"model.embed\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
    "\"a.weight\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[24,32]},"
    "\"scale\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[32,40]},"
    "\"mask\":{\"dtype\":\"BOOL\",\"shape\":[2,2,2],\"data_offsets\":[40,48]}}   ";

static const char map_text[] =
    "{\"metadata\":{\"total_size\":48},\"weight_map\":{\"model.embed\":\"whole.safetensors\","
    "\"a.weight\":\"whole.safetensors\",\"scale\":\"whole.safetensors\"}}";

static size_t count_read, count_refused;

/* Every byte of what it shows is looked at. */
static void look_at(const char *path)
{
    parlin_checkpoint *c = NULL;
    parlin_status status = parlin_checkpoint_open(path, &c);
    if (status != PARLIN_SUCCESS) {
        assert_null(c);
        assert_true(strstr(parlin_last_error(), files_folder()) != NULL);
        count_refused++;
        return;
    }
    unsigned sum = 0;
    for (size_t i = 0; i < parlin_checkpoint_count(c); i++) {
        parlin_stored t;
        assert_ok(parlin_checkpoint_get(c, i, &t));
        for (size_t j = 0; j < t.bytes; j++)
            sum += ((const unsigned char *)t.data)[j];
        parlin_host host;
        (void)parlin_checkpoint_host(c, t.name, &host);
        assert_true(parlin_checkpoint_has(c, t.name));
    }
    assert_true(sum < 256u * 256u);
    parlin_checkpoint_close(c);
    count_read++;
}

/* One to four bytes changed, put in, taken out, or the end cut off. */
static size_t damage(support_random *random, unsigned char *bytes, size_t size)
{
    static const char likely[] = "\"{}[]:,0123456789-.e\\u \0\xff";
    for (size_t n = 1 + support_below(random, 4); n > 0 && size > 1; n--) {
        size_t at = support_below(random, size);
        switch (support_below(random, 6)) {
        case 0:
            bytes[at] ^= (unsigned char)(1 << support_below(random, 8));
            break;
        case 1:
            bytes[at] = (unsigned char)support_next(random);
            break;
        case 2:
            bytes[at] = (unsigned char)likely[support_below(random, sizeof likely - 1)];
            break;
        case 3:
            memmove(bytes + at, bytes + at + 1, --size - at);
            break;
        case 4:
            memmove(bytes + at + 1, bytes + at, size - at);
            bytes[at] = (unsigned char)likely[support_below(random, sizeof likely - 1)];
            size++;
            break;
        default:
            if (support_below(random, 4) == 0)
                size = at;
            break;
        }
    }
    return size;
}

static void damaged(const char *name, const unsigned char *sound, size_t size, const char *opened)
{
    support_random random = {20240229};
    unsigned char *bytes = support_alloc(size + 8);
    count_read = count_refused = 0;
    for (size_t round = 0; round < ROUNDS; round++) {
        memcpy(bytes, sound, size);
        size_t left = damage(&random, bytes, size);
        files_write(name, bytes, left);
        look_at(opened);
    }
    for (size_t left = 0; left < size; left++) {
        files_write(name, sound, left);
        look_at(opened);
    }
    free(bytes);
    /* else the damage is too small, or the check too strict to mean anything */
    assert_true(count_read > ROUNDS / 100);
    assert_true(count_refused > ROUNDS / 4);
}

static size_t sound_file(unsigned char *bytes)
{
    size_t length = strlen(header);
    memset(bytes, 0, 8);
    bytes[0] = (unsigned char)(length & 0xff);
    bytes[1] = (unsigned char)(length >> 8);
    memcpy(bytes + 8, header, length);
    for (size_t i = 0; i < 48; i++)
        bytes[8 + length + i] = (unsigned char)i;
    return 8 + length + 48;
}

static void damaged_files(void **state)
{
    (void)state;
    unsigned char bytes[1024];
    size_t size = sound_file(bytes);
    const char *path = files_write("damaged.safetensors", bytes, size);
    parlin_checkpoint_close(files_open(path));
    damaged("damaged.safetensors", bytes, size, path);
}

static void damaged_indexes(void **state)
{
    (void)state;
    unsigned char bytes[1024];
    const char *folder = files_make_folder("joined");
    files_write("joined/whole.safetensors", bytes, sound_file(bytes));
    files_write("joined/model.safetensors.index.json", map_text, strlen(map_text));
    parlin_checkpoint_close(files_open(folder));
    damaged("joined/model.safetensors.index.json", (const unsigned char *)map_text,
            strlen(map_text), folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_files),
        cmocka_unit_test(damaged_indexes),
    };
    int failed = SUPPORT_RUN("checkpoint_fuzz", tests);
    files_remove();
    return failed;
}
