/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture.h"
#include "core/option.h"

static void test_text(void **state)
{
    (void)state;
    unsetenv("PARLIN_DEVICE");
    assert_null(pl_option(PL_OPTION_DEVICE));
    setenv("PARLIN_DEVICE", "", 1);
    assert_null(pl_option(PL_OPTION_DEVICE));
    setenv("PARLIN_DEVICE", "1:0", 1);
    assert_string_equal(pl_option(PL_OPTION_DEVICE), "1:0");
    unsetenv("PARLIN_DEVICE");
}

static void test_names(void **state)
{
    (void)state;
#define CHECK(id, variable, values, meaning)                                                       \
    assert_string_equal(pl_option_name(id), variable);                                             \
    assert_true(strlen(values) > 0 && strlen(meaning) > 0);
    PL_OPTION_TABLE(CHECK)
#undef CHECK
    for (int i = 0; i < PL_OPTION_COUNT; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(pl_option_name((pl_option_id)i),
                                    pl_option_name((pl_option_id)j));
}

typedef struct flag_call {
    bool otherwise;
    bool answer;
} flag_call;

static void ask(void *argument)
{
    flag_call *call = argument;
    call->answer = pl_option_flag(PL_OPTION_CACHE, call->otherwise);
}

/* A bad value is warned about once in a process: this runs in one of its own. */
static void ask_twice(void *argument)
{
    flag_call *call = argument;
    ask(call);
    ask(call);
    fprintf(stderr, "answer %d\n", call->answer);
}

static void test_flag(void **state)
{
    (void)state;
    enum { OFF, ON, OTHERWISE, BAD };
    static const struct {
        const char *value;
        int meaning;
    } cases[] = {
        {NULL, OTHERWISE}, {"", OTHERWISE}, {"on", ON},    {"1", ON},    {"off", OFF},
        {"0", OFF},        {"yes", BAD},    {"ON", BAD},   {"on ", BAD}, {"2", BAD},
        {"true", BAD},     {"-1", BAD},     {"offf", BAD},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int otherwise = 0; otherwise < 2; otherwise++) {
            flag_call call = {.otherwise = otherwise, .answer = !otherwise};
            char text[1024], wanted[128];
            if (cases[i].value)
                setenv("PARLIN_CACHE", cases[i].value, 1);
            else
                unsetenv("PARLIN_CACHE");
            if (cases[i].meaning == BAD) {
                capture_fresh("PARLIN_CACHE", cases[i].value, ask_twice, &call, text, sizeof text);
                snprintf(wanted, sizeof wanted, "PARLIN_CACHE=%s is neither on nor off; using %s",
                         cases[i].value, otherwise ? "on" : "off");
                const char *told = strstr(text, wanted);
                assert_non_null(told);
                assert_null(strstr(told + 1, "PARLIN_CACHE"));
                assert_non_null(strstr(text, otherwise ? "answer 1" : "answer 0"));
                continue;
            }
            capture(ask, &call, text, sizeof text);
            bool asked = cases[i].meaning == ON || cases[i].meaning == OFF;
            assert_int_equal(call.answer, asked ? cases[i].meaning == ON : otherwise);
            assert_string_equal(text, "");
        }
    unsetenv("PARLIN_CACHE");
}

int main(void)
{
    unsetenv("PARLIN_LOG"); /* warnings are looked at */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_flag),
    };
    return SUPPORT_RUN("core/option", tests);
}
