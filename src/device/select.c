/* SPDX-License-Identifier: Apache-2.0 */
#include "device/select.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/status.h"

static const char *const class_names[] = {"gpu", "accelerator", "cpu", "emulation"};
enum { CLASS_COUNT = 4 };

const char *pl_class_name(parlin_device_class device_class)
{
    return (unsigned)device_class < CLASS_COUNT ? class_names[device_class] : "unknown class";
}

static bool same_letter(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

static bool same_text(const char *a, const char *b)
{
    while (*a && *b && same_letter(*a, *b))
        a++, b++;
    return !*a && !*b;
}

bool pl_text_holds(const char *text, const char *part)
{
    for (;; text++) {
        size_t n = 0;
        while (part[n] && text[n] && same_letter(text[n], part[n]))
            n++;
        if (!part[n])
            return true;
        if (!*text)
            return false;
    }
}

parlin_device_class pl_class_of(bool gpu, bool accelerator, const char *platform, const char *name)
{
    static const char *const emulations[] = {"llvmpipe", "softpipe",    "swrast", "lavapipe",
                                             "oclgrind", "swiftshader", "emulat", "simulat"};
    for (size_t i = 0; i < sizeof emulations / sizeof *emulations; i++)
        if (pl_text_holds(name, emulations[i]) || pl_text_holds(platform, emulations[i]))
            return PARLIN_EMULATION;
    return gpu ? PARLIN_GPU : accelerator ? PARLIN_ACCELERATOR : PARLIN_CPU;
}

/* --- one entry for each piece of hardware --- */

/* A number for the vendor, whatever a driver calls it; 0: unknown. */
static uint32_t vendor_of(const parlin_device_info *info, const pl_hardware *hardware)
{
    static const struct {
        const char *text;
        uint32_t id;
    } vendors[] = {{"nvidia", 0x10de},      {"advanced micro", 0x1002}, {"amd", 0x1002},
                   {"radeon", 0x1002},      {"intel", 0x8086},          {"qualcomm", 0x5143},
                   {"adreno", 0x5143},      {"mali", 0x13b5},           {"arm", 0x13b5},
                   {"imagination", 0x1010}, {"powervr", 0x1010},        {"apple", 0x106b}};
    for (size_t i = 0; i < sizeof vendors / sizeof *vendors; i++)
        if (hardware->vendor_id == vendors[i].id)
            return vendors[i].id;
    for (size_t i = 0; i < sizeof vendors / sizeof *vendors; i++)
        if (pl_text_holds(info->vendor, vendors[i].text) ||
            pl_text_holds(info->name, vendors[i].text))
            return vendors[i].id;
    return 0;
}

/* How many entries before `index` are of its platform, class and vendor. */
static size_t place_of_vendor(const parlin_device_info *list, const pl_hardware *hardware,
                              size_t index)
{
    size_t place = 0;
    uint32_t vendor = vendor_of(&list[index], &hardware[index]);
    for (size_t i = 0; i < index; i++)
        place += list[i].platform_index == list[index].platform_index &&
                 list[i].device_class == list[index].device_class &&
                 vendor_of(&list[i], &hardware[i]) == vendor;
    return place;
}

static bool same_hardware(const parlin_device_info *list, const pl_hardware *hardware, size_t a,
                          size_t b)
{
    if (list[a].platform_index == list[b].platform_index ||
        list[a].device_class != list[b].device_class)
        return false;
    if (list[a].device_class == PARLIN_CPU || list[a].device_class == PARLIN_EMULATION)
        return true;
    const pl_hardware *one = &hardware[a], *two = &hardware[b];
    /* Two drivers may give one device two UUIDs, so that only equal ones say something. */
    if (one->has_uuid && two->has_uuid && memcmp(one->uuid, two->uuid, sizeof one->uuid) == 0)
        return true;
    if (one->has_pci && two->has_pci)
        return memcmp(one->pci, two->pci, sizeof one->pci) == 0;
    uint32_t vendor = vendor_of(&list[a], one);
    if (vendor != vendor_of(&list[b], two))
        return false;
    if (vendor == 0)
        return same_text(list[a].name, list[b].name);
    return place_of_vendor(list, hardware, a) == place_of_vendor(list, hardware, b);
}

void pl_select_mark_same(parlin_device_info *list, const pl_hardware *hardware, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        list[i].same_hardware = false;
        for (size_t earlier = 0; earlier < i && !list[i].same_hardware; earlier++)
            list[i].same_hardware = same_hardware(list, hardware, earlier, i);
    }
}

/* --- the wish --- */

/* Reads the whole of [text, end) as a number. */
static bool read_number(const char *text, const char *end, size_t *number)
{
    size_t value = 0;
    if (text == end)
        return false;
    for (; text < end; text++) {
        if (!isdigit((unsigned char)*text))
            return false;
        if (value > (SIZE_MAX - 9) / 10)
            value = SIZE_MAX / 10 - 1; /* beyond any list */
        value = value * 10 + (size_t)(*text - '0');
    }
    *number = value;
    return true;
}

/* Appends, and stops quietly where the room ends. */
static void append(char *text, size_t room, const char *more)
{
    size_t used = strlen(text);
    snprintf(text + used, room - used, "%s", more);
}

static parlin_status no_device(const parlin_device_info *list, size_t count, const char *none,
                               const char *source, const char *spec)
{
    char there[4096] = "";
    for (size_t i = 0; i < count; i++) {
        char line[600];
        snprintf(line, sizeof line, "%s%zu (%zu:%zu) %s [%s, %s]", i ? "; " : "", list[i].index,
                 list[i].platform_index, list[i].platform_device, list[i].name, list[i].platform,
                 pl_class_name(list[i].device_class));
        append(there, sizeof there, line);
    }
    if (count == 0)
        return pl_error(PARLIN_ERROR_NO_DEVICE, "%s%s%s%s: %s", source, spec ? " \"" : "",
                        spec ? spec : "", spec ? "\"" : "", none);
    return pl_error(PARLIN_ERROR_NO_DEVICE, "%s \"%s\": no such device; there are: %s", source,
                    spec ? spec : "", there);
}

/* The turn-th of the entries of a class, one for each piece of hardware. */
static bool take_class(const parlin_device_info *list, size_t count,
                       parlin_device_class device_class, int local_rank, pl_choice *choice)
{
    size_t candidates = 0;
    for (size_t i = 0; i < count; i++)
        candidates += list[i].device_class == device_class && !list[i].same_hardware;
    if (candidates == 0)
        return false;
    size_t turn = (size_t)local_rank % candidates;
    for (size_t i = 0; i < count; i++)
        if (list[i].device_class == device_class && !list[i].same_hardware && turn-- == 0) {
            *choice = (pl_choice){i, candidates};
            return true;
        }
    return false;
}

static bool take_place(const parlin_device_info *list, size_t count, const char *spec,
                       pl_choice *choice)
{
    const char *colon = strrchr(spec, ':');
    size_t platform = 0, device;
    if (!read_number(colon + 1, spec + strlen(spec), &device))
        return false;
    bool numbered = read_number(spec, colon, &platform);
    char name[sizeof list->platform];
    snprintf(name, sizeof name, "%.*s", (int)(colon - spec), spec);
    for (size_t i = 0; i < count; i++)
        if (list[i].platform_device == device &&
            (numbered ? list[i].platform_index == platform
                      : colon > spec && pl_text_holds(list[i].platform, name))) {
            *choice = (pl_choice){i, 0};
            return true;
        }
    return false;
}

static bool take_name(const parlin_device_info *list, size_t count, const char *spec,
                      int local_rank, pl_choice *choice)
{
    size_t first = SIZE_MAX, candidates = 0;
    for (int pass = 0; pass < 2; pass++) {
        size_t turn = candidates ? (size_t)local_rank % candidates : 0;
        for (size_t i = 0; i < count; i++) {
            if (!pl_text_holds(list[i].name, spec) && !pl_text_holds(list[i].platform, spec))
                continue;
            if (first == SIZE_MAX)
                first = i;
            if (list[i].platform_index != list[first].platform_index ||
                list[i].device_class != list[first].device_class)
                continue;
            if (pass == 0) {
                candidates++;
            } else if (turn-- == 0) {
                *choice = (pl_choice){i, candidates};
                return true;
            }
        }
    }
    return false;
}

parlin_status pl_select(const parlin_device_info *list, size_t count, const char *none,
                        const char *source, const char *spec, int local_rank, pl_choice *choice)
{
    if (!spec || !*spec) {
        for (int class_index = 0; class_index < CLASS_COUNT; class_index++)
            if (take_class(list, count, (parlin_device_class)class_index, local_rank, choice))
                return PARLIN_SUCCESS;
        return no_device(list, count, none, source, NULL);
    }
    size_t index;
    if (read_number(spec, spec + strlen(spec), &index)) {
        if (index >= count)
            return no_device(list, count, none, source, spec);
        *choice = (pl_choice){index, 0};
        return PARLIN_SUCCESS;
    }
    for (int class_index = 0; class_index < CLASS_COUNT; class_index++)
        if (same_text(spec, class_names[class_index])) {
            if (take_class(list, count, (parlin_device_class)class_index, local_rank, choice))
                return PARLIN_SUCCESS;
            return no_device(list, count, none, source, spec);
        }
    if (strchr(spec, ':') && take_place(list, count, spec, choice))
        return PARLIN_SUCCESS;
    if (take_name(list, count, spec, local_rank, choice))
        return PARLIN_SUCCESS;
    return no_device(list, count, none, source, spec);
}

bool pl_select_crowded(const parlin_device_info *chosen, const pl_choice *choice, int local_size)
{
    return choice->candidates > 0 && (size_t)local_size > choice->candidates &&
           chosen->device_class != PARLIN_CPU && chosen->device_class != PARLIN_EMULATION;
}
