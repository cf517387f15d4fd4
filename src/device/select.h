/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of a device: pure functions over a list of descriptions. */
#ifndef PL_DEVICE_SELECT_H
#define PL_DEVICE_SELECT_H

#include <parlin/device.h>

/* "gpu", "accelerator", "cpu", "emulation" */
const char *pl_class_name(parlin_device_class device_class);

/* The class of a device by what it says of itself; names tell emulations, types the rest. */
parlin_device_class pl_class_of(bool gpu, bool accelerator, const char *platform, const char *name);

/* What tells a piece of hardware, as far as the driver says it. */
typedef struct pl_hardware {
    bool has_uuid;
    bool has_pci;
    unsigned char uuid[16];
    uint32_t pci[4]; /* domain, bus, device, function */
    uint32_t vendor_id;
} pl_hardware;

/* Sets same_hardware in every entry whose hardware an earlier entry of another platform is.
     software classes (CPU, emulation): the host's cores, so all of one class are the same
     otherwise of one class and   the same UUID, or the same PCI address: the same
                                  two PCI addresses that differ: not the same
                                  else the n-th of a vendor on one platform is the n-th on another
   Entries of one platform are never the same. */
void pl_select_mark_same(parlin_device_info *list, const pl_hardware *hardware, size_t count);

typedef struct pl_choice {
    size_t index;
    size_t
        candidates; /* devices that the ranks of a node share out; 0: the wish names one device */
} pl_choice;

/* Answers `spec` (grammar: parlin_device_open) for the local_rank-th rank of its node; NULL or "":
   no wish. Several devices may answer no wish, a class or a name; the ranks take them in turn:
     no wish, a class   the devices of (the best, that) class, one entry for each piece of hardware
     a name             those that fit, of the class and platform of the first one
   `source` says who wishes ("PARLIN_DEVICE"), `none` why the list is empty. Errors: NO_DEVICE. */
parlin_status pl_select(const parlin_device_info *list, size_t count, const char *none,
                        const char *source, const char *spec, int local_rank, pl_choice *choice);

/* True where several ranks share a device that is no part of the host's cores. */
bool pl_select_crowded(const parlin_device_info *chosen, const pl_choice *choice, int local_size);

/* True where `text` holds `part`, letter case ignored. */
bool pl_text_holds(const char *text, const char *part);

#endif
