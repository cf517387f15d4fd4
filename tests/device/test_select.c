/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of a device from a list: pure. */
#include <string.h>

#include "device/select.h"
#include "support.h"

typedef struct machine {
    parlin_device_info list[8];
    pl_hardware hardware[8];
    size_t count;
} machine;

static void add(machine *to, size_t platform_index, const char *platform, const char *name,
                parlin_device_class device_class)
{
    parlin_device_info *info = &to->list[to->count];
    memset(info, 0, sizeof *info);
    memset(&to->hardware[to->count], 0, sizeof *to->hardware);
    info->index = to->count;
    info->platform_index = platform_index;
    for (size_t i = 0; i < to->count; i++)
        info->platform_device += to->list[i].platform_index == platform_index;
    strcpy(info->platform, platform);
    strcpy(info->name, name);
    info->device_class = device_class;
    to->count++;
}

static parlin_status select_from(const machine *from, const char *spec, int local_rank,
                                 pl_choice *choice)
{
    return pl_select(from->list, from->count, "no OpenCL platform is installed", "PARLIN_DEVICE",
                     spec, local_rank, choice);
}

#define assert_chosen(from, spec, local_rank, wanted)                                              \
    do {                                                                                           \
        pl_choice chosen = {99, 99};                                                               \
        assert_ok(select_from(from, spec, local_rank, &chosen));                                   \
        assert_int_equal(chosen.index, wanted);                                                    \
    } while (0)

#define assert_none(from, spec, ...)                                                               \
    do {                                                                                           \
        pl_choice chosen = {99, 99};                                                               \
        assert_refused(select_from(from, spec, 0, &chosen), PARLIN_ERROR_NO_DEVICE, __VA_ARGS__);  \
        assert_int_equal(chosen.index, 99);                                                        \
    } while (0)

/* The list of case C30, with one GPU more. */
static machine usual(void)
{
    machine m = {.count = 0};
    add(&m, 0, "FPGA Emulation Platform", "Emulation Device", PARLIN_EMULATION);
    add(&m, 1, "Portable Computing Language", "pthread-EPYC", PARLIN_CPU);
    add(&m, 2, "AMD Accelerated Parallel Processing", "Radeon RX", PARLIN_GPU);
    return m;
}

static void case_C30_choice_from_a_list(void **state)
{
    (void)state;
    machine m = usual();
    assert_chosen(&m, NULL, 0, 2);
    assert_chosen(&m, "", 0, 2);
    assert_chosen(&m, "2:0", 0, 2);
    assert_chosen(&m, "0:0", 0, 0);
    assert_chosen(&m, "epyc", 0, 1);
    assert_none(&m, "9:0", "PARLIN_DEVICE \"9:0\"", "0 (0:0) Emulation Device",
                "1 (1:0) pthread-EPYC", "2 (2:0) Radeon RX", "gpu", "cpu", "emulation");
    m.count = 0;
    assert_none(&m, NULL, "no OpenCL platform is installed");
    assert_none(&m, "gpu", "\"gpu\"", "no OpenCL platform is installed");
    assert_null(strstr(parlin_last_error(), "-1001"));
}

static void specifications(void **state)
{
    (void)state;
    machine m = usual();
    add(&m, 2, "AMD Accelerated Parallel Processing", "Radeon Pro: W", PARLIN_GPU);
    add(&m, 3, "rusticl", "llvmpipe (LLVM)", PARLIN_EMULATION);
    assert_chosen(&m, "0", 0, 0);
    assert_chosen(&m, "4", 0, 4);
    assert_chosen(&m, "2:1", 0, 3);
    assert_chosen(&m, "RUSTICL:0", 0, 4);
    assert_chosen(&m, "accelerated:1", 0, 3);
    assert_chosen(&m, "cpu", 0, 1);
    assert_chosen(&m, "GPU", 0, 2);
    assert_chosen(&m, "emulation", 0, 0);
    assert_chosen(&m, "radeon", 0, 2);
    assert_chosen(&m, "RADEON pro", 0, 3);
    assert_chosen(&m, "pro: w", 0, 3); /* a colon in a name is no place */
    assert_chosen(&m, "llvmpipe", 0, 4);
    assert_chosen(&m, "portable", 0, 1);
    assert_none(&m, "5", "\"5\"", "4 (3:0) llvmpipe (LLVM)");
    assert_none(&m, "99999999999999999999999", "99999999999999999999999");
    assert_none(&m, "99999999999999999999999:0", "there are");
    assert_none(&m, "2:2", "\"2:2\"");
    assert_none(&m, "rusticl:1", "\"rusticl:1\"");
    assert_none(&m, "accelerator", "\"accelerator\"");
    assert_none(&m, "geforce", "\"geforce\"");
    assert_none(&m, ":0", "\":0\"");
    assert_none(&m, "::", "\"::\"");
    assert_none(&m, "2:", "\"2:\"");
    assert_none(&m, "-1", "\"-1\"");
}

/* Each class serves only where no better one is there. */
static void best_class_present(void **state)
{
    (void)state;
    machine m = {.count = 0};
    add(&m, 0, "rusticl", "llvmpipe", PARLIN_EMULATION);
    assert_chosen(&m, NULL, 0, 0);
    add(&m, 1, "pocl", "cpu", PARLIN_CPU);
    assert_chosen(&m, NULL, 0, 1);
    assert_chosen(&m, NULL, 1, 1); /* not llvmpipe beside it */
    add(&m, 2, "vendor", "board", PARLIN_ACCELERATOR);
    assert_chosen(&m, NULL, 0, 2);
    assert_chosen(&m, NULL, 1, 2);
    add(&m, 3, "vendor", "gpu", PARLIN_GPU);
    assert_chosen(&m, NULL, 0, 3);
    assert_chosen(&m, NULL, 1, 3); /* not a CPU beside one GPU */
}

static void case_C31_place_on_the_node(void **state)
{
    (void)state;
    machine m = {.count = 0};
    add(&m, 0, "pocl", "cpu", PARLIN_CPU);
    add(&m, 1, "CUDA", "A100", PARLIN_GPU);
    add(&m, 1, "CUDA", "A100", PARLIN_GPU);
    const int node[4] = {0, 1, 0, 1}; /* ranks 0, 2 on A, 1, 3 on B */
    const size_t wanted[4] = {0, 0, 1, 1};
    for (int rank = 0; rank < 4; rank++) {
        int local_rank = 0;
        for (int other = 0; other < rank; other++)
            local_rank += node[other] == node[rank];
        assert_chosen(&m, NULL, local_rank, wanted[rank] + 1);
        assert_chosen(&m, "gpu", local_rank, wanted[rank] + 1);
        assert_chosen(&m, "a100", local_rank, wanted[rank] + 1);
        assert_chosen(&m, "1:1", local_rank, 2);
    }
    assert_chosen(&m, NULL, 2, 1);
    assert_chosen(&m, NULL, 3, 2);

    pl_choice choice;
    assert_ok(select_from(&m, NULL, 0, &choice));
    assert_false(pl_select_crowded(&m.list[choice.index], &choice, 1));
    assert_false(pl_select_crowded(&m.list[choice.index], &choice, 2));
    assert_true(pl_select_crowded(&m.list[choice.index], &choice, 3));
    assert_ok(select_from(&m, "1:0", 0, &choice)); /* asked for */
    assert_false(pl_select_crowded(&m.list[choice.index], &choice, 3));
    assert_ok(select_from(&m, "cpu", 0, &choice)); /* the ranks share its cores anyway */
    assert_false(pl_select_crowded(&m.list[choice.index], &choice, 3));
}

/* A name that fits devices of several platforms or classes: those like the first one. */
static void names_stay_together(void **state)
{
    (void)state;
    machine m = {.count = 0};
    add(&m, 0, "Intel OpenCL", "Intel Arc", PARLIN_GPU);
    add(&m, 0, "Intel OpenCL", "Intel Xeon", PARLIN_CPU);
    add(&m, 0, "Intel OpenCL", "Intel Arc", PARLIN_GPU);
    add(&m, 1, "rusticl", "Intel Arc", PARLIN_GPU);
    const size_t wanted[4] = {0, 2, 0, 2};
    for (int rank = 0; rank < 4; rank++)
        assert_chosen(&m, "intel", rank, wanted[rank]);
}

static void classes(void **state)
{
    (void)state;
    const struct {
        bool gpu, accelerator;
        const char *platform, *name;
        parlin_device_class wanted;
    } table[] = {
        {true, false, "NVIDIA CUDA", "A100", PARLIN_GPU},
        {false, true, "Xilinx", "u250", PARLIN_ACCELERATOR},
        {false, false, "Portable Computing Language", "pthread", PARLIN_CPU},
        {false, false, "rusticl", "llvmpipe (LLVM 15.0.6, 256 bits)", PARLIN_EMULATION},
        {true, false, "Clover", "softpipe", PARLIN_EMULATION},
        {true, false, "Oclgrind", "Oclgrind Simulator", PARLIN_EMULATION},
        {false, true, "Intel(R) FPGA Emulation Platform", "Device", PARLIN_EMULATION},
        {false, true, "Intel(R) FPGA", "Intel(R) FPGA EMULATION Device", PARLIN_EMULATION},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        assert_int_equal(
            pl_class_of(table[i].gpu, table[i].accelerator, table[i].platform, table[i].name),
            table[i].wanted);
}

static void assert_marks(machine *m, const bool *wanted)
{
    pl_select_mark_same(m->list, m->hardware, m->count);
    for (size_t i = 0; i < m->count; i++)
        if (m->list[i].same_hardware != wanted[i])
            fail_msg("entry %zu (%s): same_hardware is %d", i, m->list[i].name,
                     m->list[i].same_hardware);
}

static void one_entry_for_a_piece_of_hardware(void **state)
{
    (void)state;
    machine m = {.count = 0};
    /* The host's cores, by two platforms; two entries of one platform were asked for. */
    add(&m, 0, "pocl", "pthread", PARLIN_CPU);
    add(&m, 0, "pocl", "basic", PARLIN_CPU);
    add(&m, 1, "Intel", "Xeon", PARLIN_CPU);
    add(&m, 2, "rusticl", "llvmpipe", PARLIN_EMULATION);
    add(&m, 3, "Clover", "llvmpipe", PARLIN_EMULATION);
    assert_marks(&m, (const bool[]){false, false, true, false, true});
    assert_chosen(&m, NULL, 1, 1);
    assert_chosen(&m, NULL, 2, 0);
    assert_chosen(&m, "xeon", 0, 2); /* by name it is to be had */

    /* By PCI address, whatever the names and their order. */
    m.count = 0;
    add(&m, 0, "CUDA", "A", PARLIN_GPU);
    add(&m, 0, "CUDA", "B", PARLIN_GPU);
    add(&m, 1, "rusticl", "C", PARLIN_GPU);
    add(&m, 1, "rusticl", "D", PARLIN_GPU);
    const uint32_t bus[] = {1, 2, 2, 3};
    for (size_t i = 0; i < 4; i++) {
        m.hardware[i].has_pci = true;
        m.hardware[i].pci[1] = bus[i];
        m.hardware[i].vendor_id = 0x10de;
    }
    assert_marks(&m, (const bool[]){false, false, true, false});

    /* Within one platform two entries of one address (tiles) stay two. */
    m.hardware[1].pci[1] = 1;
    assert_marks(&m, (const bool[]){false, false, false, false});

    /* By UUID; different ones say nothing, so that the vendor's order speaks. */
    for (size_t i = 0; i < 4; i++) {
        m.hardware[i].has_pci = false;
        m.hardware[i].has_uuid = true;
        m.hardware[i].uuid[0] = (unsigned char)(i == 3 ? 1 : i + 1);
        m.hardware[i].vendor_id = 0x1000 + (uint32_t)i; /* unknown, and names differ */
    }
    assert_marks(&m, (const bool[]){false, false, false, true});

    /* By the vendor's order: ROCm's second card is Clover's second. */
    m.count = 0;
    add(&m, 0, "ROCm", "gfx1030", PARLIN_GPU);
    add(&m, 1, "Clover", "AMD Radeon RX 6800", PARLIN_GPU);
    add(&m, 1, "Clover", "AMD Radeon RX 580", PARLIN_GPU);
    add(&m, 1, "Clover", "NVIDIA GeForce", PARLIN_GPU);
    strcpy(m.list[0].vendor, "Advanced Micro Devices, Inc.");
    assert_marks(&m, (const bool[]){false, true, false, false});

    /* Of unknown vendors: by name. Other classes are other hardware. */
    m.count = 0;
    add(&m, 0, "one", "Board X", PARLIN_ACCELERATOR);
    add(&m, 1, "two", "board x", PARLIN_ACCELERATOR);
    add(&m, 1, "two", "board y", PARLIN_ACCELERATOR);
    add(&m, 2, "three", "Board X", PARLIN_GPU);
    assert_marks(&m, (const bool[]){false, true, false, false});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_C30_choice_from_a_list),
        cmocka_unit_test(specifications),
        cmocka_unit_test(best_class_present),
        cmocka_unit_test(case_C31_place_on_the_node),
        cmocka_unit_test(names_stay_together),
        cmocka_unit_test(classes),
        cmocka_unit_test(one_entry_for_a_piece_of_hardware),
    };
    return SUPPORT_RUN("device/select", tests);
}
