/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of this process over many forwards, and over groups and layers that come and go. */
#include <stdio.h>
#include <unistd.h>

#include "support.h"

#if defined(__SANITIZE_ADDRESS__)
enum { MEASURED = 0 }; /* it keeps freed memory: its leak check stands in */
#else
enum { MEASURED = 1 };
#endif

enum { ROWS = 4, IN = 8, OUT = 8 };

static size_t resident(void)
{
    unsigned long pages = 0, all = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file)
        return 0;
    if (fscanf(file, "%lu %lu", &all, &pages) != 2)
        pages = 0;
    fclose(file);
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void assert_flat(size_t before, size_t most, const char *what)
{
    size_t now = resident();
    if (MEASURED && now > before + most)
        fail_msg("%s: %zu bytes more than before, %zu at most wanted", what, now - before, most);
}

static parlin_layer *make(parlin_group *group, parlin_tensor *x, parlin_tensor *y)
{
    parlin_column_config config = parlin_column_defaults();
    config.in_features = IN;
    config.out_features = OUT;
    config.weight_init.kind = PARLIN_INIT_ONES;
    parlin_layer *layer;
    float ones[ROWS * IN];
    for (size_t i = 0; i < ROWS * IN; i++)
        ones[i] = 1;
    assert_ok(parlin_column_create(group, &config, &layer));
    assert_ok(parlin_tensor_create(group, PARLIN_F32, ROWS, IN, x));
    assert_ok(parlin_layer_output(layer, ROWS, y));
    assert_ok(parlin_tensor_write(*x, ones));
    return layer;
}

static void assert_right(parlin_tensor y)
{
    float out[ROWS * OUT];
    support_poison(out, ROWS * OUT);
    assert_ok(parlin_tensor_read(y, out));
    for (size_t i = 0; i < ROWS * OUT; i++)
        assert_true(out[i] == IN);
}

static void case_C25_many_forwards(void **state)
{
    (void)state;
    parlin_tensor x, y;
    parlin_layer *layer = make(support_group(), &x, &y);
    size_t before = 0;
    for (int i = 0; i < 20000; i++) {
        assert_ok(parlin_layer_forward(layer, x, y));
        if (i % 100 == 99) /* not an ever longer queue */
            assert_ok(parlin_device_finish(parlin_group_device(support_group())));
        if (i == 999)
            before = resident();
    }
    assert_flat(before, 1 << 20, "19000 forwards");
    assert_right(y);
    parlin_tensor_destroy(&y);
    parlin_tensor_destroy(&x);
    parlin_layer_destroy(layer);
}

static void open_and_close(void)
{
    parlin_group *group;
    parlin_tensor x, y;
    assert_ok(parlin_group_open_single(NULL, &group));
    parlin_layer *layer = make(group, &x, &y);
    assert_ok(parlin_layer_forward(layer, x, y));
    assert_right(y);
    parlin_tensor_destroy(&y);
    parlin_tensor_destroy(&x);
    parlin_layer_destroy(layer);
    parlin_group_close(group);
}

/* CLBlast alone would keep 1.5 MB for every context: 150 MB. */
static void case_C25_many_groups(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++)
        open_and_close();
    size_t before = resident();
    for (int i = 0; i < 100; i++)
        open_and_close();
    assert_flat(before, 2 << 20, "100 groups");
}

int main(void)
{
    /* The second closes the last device each time: after the group of the first is gone. */
    const struct CMUnitTest forwards[] = {cmocka_unit_test(case_C25_many_forwards)};
    const struct CMUnitTest groups[] = {cmocka_unit_test(case_C25_many_groups)};
    return SUPPORT_RUN("layers/memory, forwards", forwards) ||
           SUPPORT_RUN("layers/memory, groups", groups);
}
