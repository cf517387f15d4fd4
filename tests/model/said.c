/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "said.h"

static char sentence[2048];

/* That of errors.h, which is not included: cmocka has a macro of this name. */
#undef fail
__attribute__((format(printf, 1, 2))) bool fail(const char *format, ...);

bool fail(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(sentence, sizeof sentence, format, list);
    va_end(list);
    return false;
}

const char *said(void)
{
    return sentence;
}

const char *new_folder(void)
{
    static char path[64];
    strcpy(path, "/tmp/parlin-model-XXXXXX");
    assert_non_null(mkdtemp(path));
    return path;
}

void write_file(const char *folder, const char *name, const void *content, size_t bytes)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(content, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}
