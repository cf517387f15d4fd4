/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/internal.h"
#include "device/select.h"

/* Queries of extensions, by number: headers of OpenCL 1.2 lack some. */
enum {
    DEVICE_UUID_KHR = 0x106A,
    DEVICE_PCI_BUS_INFO_KHR = 0x410F,
    DEVICE_PCI_BUS_ID_NV = 0x4008,
    DEVICE_PCI_SLOT_ID_NV = 0x4009,
    DEVICE_PCI_DOMAIN_ID_NV = 0x400A,
    DEVICE_TOPOLOGY_AMD = 0x4037
};

static uint64_t query_number(cl_device_id id, cl_device_info what, size_t bytes)
{
    /* Little-endian or not: a 4-byte answer is read as such. */
    cl_uint narrow = 0;
    cl_ulong wide = 0;
    if (bytes == sizeof narrow)
        return clGetDeviceInfo(id, what, sizeof narrow, &narrow, NULL) == CL_SUCCESS ? narrow : 0;
    return clGetDeviceInfo(id, what, sizeof wide, &wide, NULL) == CL_SUCCESS ? wide : 0;
}

static uint64_t query_size(cl_device_id id, cl_device_info what)
{
    size_t value = 0;
    return clGetDeviceInfo(id, what, sizeof value, &value, NULL) == CL_SUCCESS ? value : 0;
}

static bool query_flag(cl_device_id id, cl_device_info what)
{
    return query_number(id, what, sizeof(cl_bool)) != 0;
}

/* Texts are cut to what fits; control characters and blanks at the ends go. */
static void tidy(char *text)
{
    size_t length = strlen(text), start = 0;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] < ' ')
            text[i] = ' ';
    while (length > 0 && text[length - 1] == ' ')
        text[--length] = 0;
    while (text[start] == ' ')
        start++;
    memmove(text, text + start, length - start + 1);
}

static char *query_text(cl_device_id id, cl_device_info what)
{
    size_t size = 0;
    char *text = NULL;
    if (clGetDeviceInfo(id, what, 0, NULL, &size) == CL_SUCCESS && (text = calloc(size + 1, 1)))
        if (clGetDeviceInfo(id, what, size, text, NULL) != CL_SUCCESS)
            text[0] = 0;
    return text;
}

static void fill_text(cl_device_id id, cl_device_info what, char *out, size_t room)
{
    char *text = query_text(id, what);
    snprintf(out, room, "%s", text ? text : "");
    free(text);
    tidy(out);
}

static bool has_word(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = words; (at = strstr(at, word)); at += length)
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
            return true;
    return false;
}

static void query_hardware(cl_device_id id, const char *extensions, pl_hardware *hardware)
{
    memset(hardware, 0, sizeof *hardware);
    hardware->vendor_id = (uint32_t)query_number(id, CL_DEVICE_VENDOR_ID, sizeof(cl_uint));
    if (has_word(extensions, "cl_khr_device_uuid") &&
        clGetDeviceInfo(id, DEVICE_UUID_KHR, sizeof hardware->uuid, hardware->uuid, NULL) ==
            CL_SUCCESS)
        for (size_t i = 0; i < sizeof hardware->uuid; i++)
            hardware->has_uuid |= hardware->uuid[i] != 0; /* all zero: none */
    cl_uint pci[4] = {0};
    unsigned char topology[24] = {0};
    if (has_word(extensions, "cl_khr_pci_bus_info") &&
        clGetDeviceInfo(id, DEVICE_PCI_BUS_INFO_KHR, sizeof pci, pci, NULL) == CL_SUCCESS) {
        hardware->has_pci = true;
    } else if (has_word(extensions, "cl_nv_device_attribute_query") &&
               clGetDeviceInfo(id, DEVICE_PCI_BUS_ID_NV, sizeof pci[1], &pci[1], NULL) ==
                   CL_SUCCESS) {
        hardware->has_pci = true;
        pci[0] = (cl_uint)query_number(id, DEVICE_PCI_DOMAIN_ID_NV, sizeof(cl_uint));
        cl_uint slot = (cl_uint)query_number(id, DEVICE_PCI_SLOT_ID_NV, sizeof(cl_uint));
        pci[2] = slot >> 3;
        pci[3] = slot & 7;
    } else if (has_word(extensions, "cl_amd_device_attribute_query") &&
               clGetDeviceInfo(id, DEVICE_TOPOLOGY_AMD, sizeof topology, topology, NULL) ==
                   CL_SUCCESS) {
        /* type (1: PCIe), 17 unused bytes, bus, device, function; no domain */
        hardware->has_pci = topology[0] == 1;
        pci[1] = topology[21];
        pci[2] = topology[22];
        pci[3] = topology[23];
    }
    for (size_t i = 0; i < 4; i++)
        hardware->pci[i] = pci[i];
}

static bool is_old(const char *version)
{
    unsigned major = 0, minor = 0;
    /* "OpenCL 1.2 ..." */
    return sscanf(version, "OpenCL %u.%u", &major, &minor) != 2 || (major == 1 && minor < 2) ||
           major < 1;
}

bool pl_caps_query(cl_platform_id platform, cl_device_id id, parlin_device_info *info,
                   pl_hardware *hardware, const char **why)
{
    memset(info, 0, sizeof *info);
    if (clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof info->platform - 1, info->platform,
                          NULL) != CL_SUCCESS)
        info->platform[0] = 0;
    tidy(info->platform);
    fill_text(id, CL_DEVICE_NAME, info->name, sizeof info->name);
    fill_text(id, CL_DEVICE_VENDOR, info->vendor, sizeof info->vendor);
    fill_text(id, CL_DEVICE_VERSION, info->version, sizeof info->version);
    fill_text(id, CL_DRIVER_VERSION, info->driver, sizeof info->driver);
    cl_device_type type = query_number(id, CL_DEVICE_TYPE, sizeof type);
    info->device_class = pl_class_of(type & CL_DEVICE_TYPE_GPU, type & CL_DEVICE_TYPE_ACCELERATOR,
                                     info->platform, info->name);
    info->compute_units = query_number(id, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(cl_uint));
    info->max_work_group = query_size(id, CL_DEVICE_MAX_WORK_GROUP_SIZE);
    info->global_memory = query_number(id, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(cl_ulong));
    info->local_memory = query_number(id, CL_DEVICE_LOCAL_MEM_SIZE, sizeof(cl_ulong));
    info->max_allocation = query_number(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(cl_ulong));
    /* OpenCL gives it in bits. */
    info->memory_alignment = query_number(id, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof(cl_uint)) / 8;
    info->host_unified_memory = query_flag(id, CL_DEVICE_HOST_UNIFIED_MEMORY);
    info->out_of_order =
        query_number(id, CL_DEVICE_QUEUE_PROPERTIES, sizeof(cl_command_queue_properties)) &
        CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
    char *extensions = query_text(id, CL_DEVICE_EXTENSIONS);
    const char *words = extensions ? extensions : "";
    info->fp16 = has_word(words, "cl_khr_fp16");
    info->fp64 = has_word(words, "cl_khr_fp64") ||
                 query_number(id, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof(cl_device_fp_config)) != 0;
    info->sub_groups = has_word(words, "cl_khr_subgroups") || has_word(words, "cl_intel_subgroups");
    query_hardware(id, words, hardware);
    free(extensions);
    *why = !query_flag(id, CL_DEVICE_AVAILABLE)            ? "it is not available"
           : !query_flag(id, CL_DEVICE_COMPILER_AVAILABLE) ? "it has no compiler"
           : is_old(info->version)                         ? "its OpenCL is older than 1.2"
                                                           : NULL;
    return !*why;
}
