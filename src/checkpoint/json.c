/* SPDX-License-Identifier: Apache-2.0 */
/* Reading JSON from files that are not trusted. cJSON builds the tree; it takes more than JSON
   allows, and cuts a string at a NUL, so the text is looked at here as well. */
#include "checkpoint/checkpoint.h"

#include <string.h>

#include <cjson/cJSON.h>

const char *pl_quote(const char *name, char quoted[PL_QUOTE])
{
    size_t length = strlen(name), kept = length;
    if (length >= PL_QUOTE) {
        kept = PL_QUOTE - sizeof "..";
        while (kept > 0 && ((unsigned char)name[kept] & 0xc0) == 0x80)
            kept--;
    }
    for (size_t i = 0; i < kept; i++) {
        unsigned char c = (unsigned char)name[i];
        quoted[i] = c < 0x20 || c == 0x7f ? '?' : (char)c;
    }
    memcpy(quoted + kept, kept < length ? ".." : "", kept < length ? 3 : 1);
    return quoted;
}

/* Bytes of the UTF-8 character at `at`; 0: there is none. */
static size_t character(const unsigned char *at, size_t left)
{
    if (at[0] < 0x80)
        return 1;
    size_t length = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    if (at[0] < 0xc2 || at[0] > 0xf4 || left < length)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    /* longer than need be (twice), a surrogate, beyond U+10FFFF */
    bool wrong = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90) ||
                 (at[0] == 0xed && at[1] >= 0xa0) || (at[0] == 0xf4 && at[1] >= 0x90);
    return wrong ? 0 : length;
}

bool pl_json_is_text(const char *text)
{
    size_t size = strlen(text);
    for (size_t i = 0, length; i < size; i += length) {
        length = character((const unsigned char *)text + i, size - i);
        if (length == 0)
            return false;
    }
    return true;
}

/* At text[at] is \u. cJSON takes what are no digits for 0, which ends the string. */
static parlin_status check_unicode(const char *what, const unsigned char *text, size_t at,
                                   size_t size)
{
    bool zero = true;
    for (size_t i = at + 2; i < at + 6; i++) {
        if (i >= size || text[i] == 0 || strchr("0123456789abcdefABCDEF", text[i]) == NULL)
            return pl_error(PARLIN_ERROR_FILE, "%s has \\u without four digits at byte %zu", what,
                            at);
        zero = zero && text[i] == '0';
    }
    if (zero)
        return pl_error(PARLIN_ERROR_FILE, "%s has a NUL in a string, at byte %zu", what, at);
    return PARLIN_SUCCESS;
}

static parlin_status check_text(const char *what, const unsigned char *text, size_t size)
{
    bool quoted = false;
    for (size_t i = 0, length; i < size; i += length) {
        length = character(text + i, size - i);
        if (length == 0)
            return pl_error(PARLIN_ERROR_FILE, "%s is no UTF-8 at byte %zu", what, i);
        if (text[i] == 0)
            return pl_error(PARLIN_ERROR_FILE,
                            "%s has a NUL at byte %zu; it may be padded with spaces alone", what,
                            i);
        if (quoted && text[i] < 0x20)
            return pl_error(PARLIN_ERROR_FILE,
                            "%s has a control character in a string, at byte %zu", what, i);
        if (text[i] == '"')
            quoted = !quoted;
        if (quoted && text[i] == '\\' && size - i >= 2 && text[i + 1] < 0x80) {
            if (text[i + 1] == 'u')
                PL_TRY(check_unicode(what, text, i, size));
            length = 2;
        }
    }
    return PARLIN_SUCCESS;
}

static bool is_space(unsigned char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

parlin_status pl_json_parse(const char *what, const unsigned char *text, size_t size, cJSON **json)
{
    if (size > PL_JSON_MOST)
        return pl_error(PARLIN_ERROR_FILE, "%s has %zu bytes, at most %d are read", what, size,
                        PL_JSON_MOST);
    if (size == 0 || text[0] != '{')
        return pl_error(PARLIN_ERROR_FILE, "%s does not begin with '{'", what);
    PL_TRY(check_text(what, text, size));
    const char *end = NULL;
    cJSON *made = cJSON_ParseWithLengthOpts((const char *)text, size, &end, 0);
    size_t at = end == NULL ? 0 : (size_t)(end - (const char *)text);
    if (made == NULL)
        return pl_error(PARLIN_ERROR_FILE, "%s is no JSON, or nested too deep, at byte %zu", what,
                        at);
    while (at < size && is_space(text[at]))
        at++;
    if (at < size) {
        cJSON_Delete(made);
        return pl_error(PARLIN_ERROR_FILE, "%s has more after its last brace, at byte %zu", what,
                        at);
    }
    *json = made;
    return PARLIN_SUCCESS;
}

parlin_status pl_json_plain(const char *what, const unsigned char *text, size_t size)
{
    bool quoted = false;
    unsigned char before = ' ';
    for (size_t i = 0; i < size; before = text[i], i++) {
        if (text[i] == '"')
            quoted = !quoted;
        if (quoted) {
            i += text[i] == '\\';
            continue;
        }
        bool digit = text[i] >= '0' && text[i] <= '9';
        bool zero_before = before == '0' && i >= 2 && !(text[i - 2] >= '0' && text[i - 2] <= '9');
        if ((digit && zero_before) ||
            !(digit || is_space(text[i]) || strchr("\"{}[]:,", text[i]) != NULL))
            return pl_error(PARLIN_ERROR_FILE,
                            "%s has a number other than in plain digits, or a word, at byte %zu",
                            what, i);
    }
    return PARLIN_SUCCESS;
}
