/* SPDX-License-Identifier: Apache-2.0 */
/* Devices: what there is, and opening one. */
#ifndef PARLIN_DEVICE_H
#define PARLIN_DEVICE_H

#include <parlin/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct parlin_device parlin_device;

/* Classes in order of preference: without a wish the best class present serves. */
typedef enum parlin_device_class {
    PARLIN_GPU = 0,
    PARLIN_ACCELERATOR = 1,
    PARLIN_CPU = 2,
    PARLIN_EMULATION = 3 /* a device emulated in software: llvmpipe, Oclgrind, an FPGA emulator */
} parlin_device_class;

/* What parlin knows of a device. */
typedef struct parlin_device_info {
    size_t index;          /* place in parlin's list, as in the specification "3" */
    size_t platform_index; /* and as in "1:0" */
    size_t platform_device;
    char platform[128];
    char name[256];
    char vendor[128];
    char version[128]; /* of OpenCL, as the device says it */
    char driver[128];
    parlin_device_class device_class;
    uint64_t compute_units;
    uint64_t max_work_group;   /* work-items */
    uint64_t global_memory;    /* bytes */
    uint64_t local_memory;     /* bytes */
    uint64_t max_allocation;   /* bytes: the largest tensor */
    uint64_t memory_alignment; /* bytes: of sub-buffers */
    bool host_unified_memory;  /* device memory is the host's */
    bool out_of_order;         /* queues may be out of order */
    bool fp16; /* cl_khr_fp16: arithmetic in f16; f16 storage works on every device */
    bool fp64;
    bool sub_groups;
    bool same_hardware; /* an earlier entry is the same piece of hardware: never chosen by itself */
} parlin_device_info;

/* How many devices parlin sees on this machine. 0 with PARLIN_SUCCESS where there are none (no
   platform at all included). Not collective. */
PARLIN_API parlin_status parlin_device_count(size_t *count);

/* Describes device `index` of the list. Errors: ARGUMENT (index beyond the list). Not
   collective. */
PARLIN_API parlin_status parlin_device_describe(size_t index, parlin_device_info *info);

/* Opens a device and makes a context (one for each device and process, shared by all who open
   it) and an in-order queue. `spec` names it:
     NULL or ""    what PARLIN_DEVICE says, else the first device of the best class present
     "3"           the device with that index in the list of parlin-info
     "1:0"         platform index : device index within it
     "rusticl:0"   part of a platform's name : device index within it
     "gpu"         a class: gpu, accelerator, cpu, emulation
     "radeon"      part of a device's or platform's name, letter case ignored; the first that fits
   Ownership: the caller closes it. Errors: NO_DEVICE (lists what exists), DEVICE. Not
   collective. */
PARLIN_API parlin_status parlin_device_open(const char *spec, parlin_device **device);

/* Gives up the caller's reference; groups, layers and tensors keep theirs. NULL is allowed. Not
   collective. */
PARLIN_API void parlin_device_close(parlin_device *device);

/* Describes an open device. For a wrapped one that is not in parlin's list, index is SIZE_MAX.
   Not collective. */
PARLIN_API parlin_status parlin_device_get_info(const parlin_device *device,
                                                parlin_device_info *info);

/* Waits until all work that parlin enqueued on the device is done. Errors: DEVICE. Not
   collective. */
PARLIN_API parlin_status parlin_device_finish(parlin_device *device);

/* What the library has asked of the device since it was opened; a call on a hot path raises none
   of these. */
typedef struct parlin_device_counters {
    uint64_t buffers_created; /* device buffers: tensors, weights, scratch, staging */
    uint64_t buffers_live;
    uint64_t bytes_live;
    uint64_t bytes_peak;
    uint64_t programs_built;  /* from source */
    uint64_t programs_loaded; /* from the cache on disk */
    uint64_t launches;        /* kernels and CLBlast calls enqueued */
} parlin_device_counters;

/* Not collective. */
PARLIN_API parlin_device_counters parlin_device_get_counters(const parlin_device *device);

#ifdef __cplusplus
}
#endif

#endif
