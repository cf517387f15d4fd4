/* SPDX-License-Identifier: Apache-2.0 */
/* Nothing here logs in the parent: the level is kept from the first line on. */
#include "support.h"

#include <string.h>

#include "capture.h"
#include "core/log.h"
#include "core/status.h"

static void one_of_each(void *argument)
{
    (void)argument;
    pl_log(PL_LOG_WARN, "w %d", 1);
    pl_log(PL_LOG_INFO, "i %d", 2);
    pl_log(PL_LOG_DEBUG, "d %d", 3);
}

static void test_levels(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        const char *written;
    } cases[] = {
        {NULL, "parlin: warning: w 1\n"},
        {"", "parlin: warning: w 1\n"},
        {"none", ""},
        {"warn", "parlin: warning: w 1\n"},
        {"info", "parlin: warning: w 1\nparlin: i 2\n"},
        {"debug", "parlin: warning: w 1\nparlin: i 2\nparlin: d 3\n"},
    };
    char text[1024];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        capture_fresh("PARLIN_LOG", cases[i].value, one_of_each, NULL, text, sizeof text);
        assert_string_equal(text, cases[i].written);
    }
}

static void test_bad_level_is_warned_about_once(void **state)
{
    (void)state;
    char text[1024];
    capture_fresh("PARLIN_LOG", "loud", one_of_each, NULL, text, sizeof text);
    const char *first = strstr(text, "PARLIN_LOG=loud");
    assert_non_null(first);
    assert_null(strstr(first + 1, "PARLIN_LOG"));
    assert_non_null(strstr(text, "none, warn, info, debug"));
    assert_non_null(strstr(text, "parlin: warning: w 1\n"));
    assert_null(strstr(text, "i 2"));
}

static void with_ranks(void *argument)
{
    (void)argument;
    pl_log(PL_LOG_WARN, "before");
    pl_log_set_rank(3);
    pl_log(PL_LOG_WARN, "on three");
    pl_log_set_rank(-1);
    pl_log(PL_LOG_WARN, "after");
}

static void test_rank(void **state)
{
    (void)state;
    char text[1024];
    capture_fresh("PARLIN_LOG", NULL, with_ranks, NULL, text, sizeof text);
    assert_string_equal(text, "parlin: warning: before\n"
                              "parlin[3]: warning: on three\n"
                              "parlin: warning: after\n");
}

static void enabled_as_written(void *argument)
{
    (void)argument;
    /* Says itself what it sees, so that the parent can read it. */
    pl_log(PL_LOG_WARN, "%d%d%d", pl_log_enabled(PL_LOG_WARN), pl_log_enabled(PL_LOG_INFO),
           pl_log_enabled(PL_LOG_DEBUG));
}

static void test_enabled(void **state)
{
    (void)state;
    char text[1024];
    capture_fresh("PARLIN_LOG", "info", enabled_as_written, NULL, text, sizeof text);
    assert_string_equal(text, "parlin: warning: 110\n");
}

static void long_line(void *argument)
{
    pl_log_set_rank(12);
    pl_log(PL_LOG_WARN, "%s", (const char *)argument);
    pl_log(PL_LOG_WARN, "next");
}

static void test_long_line_stays_one_line(void **state)
{
    (void)state;
    char given[10000], text[20000];
    memset(given, 'y', sizeof given - 1);
    given[sizeof given - 1] = '\0';
    capture_fresh("PARLIN_LOG", NULL, long_line, given, text, sizeof text);
    const char *prefix = "parlin[12]: warning: yyyy";
    assert_memory_equal(text, prefix, strlen(prefix));
    const char *end = strchr(text, '\n');
    assert_non_null(end);
    assert_string_equal(end, "\nparlin[12]: warning: next\n");
}

static void fail_once(void *argument)
{
    (void)argument;
    pl_error(PARLIN_ERROR_SHAPE, "rows 3");
}

static void test_errors_are_silent_below_debug(void **state)
{
    (void)state;
    char text[1024];
    capture_fresh("PARLIN_LOG", NULL, fail_once, NULL, text, sizeof text);
    assert_string_equal(text, "");
    capture_fresh("PARLIN_LOG", "debug", fail_once, NULL, text, sizeof text);
    assert_string_equal(text, "parlin: PARLIN_ERROR_SHAPE: rows 3\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_bad_level_is_warned_about_once),
        cmocka_unit_test(test_rank),
        cmocka_unit_test(test_enabled),
        cmocka_unit_test(test_long_line_stays_one_line),
        cmocka_unit_test(test_errors_are_silent_below_debug),
    };
    return SUPPORT_RUN("core/log", tests);
}
