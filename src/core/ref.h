/* SPDX-License-Identifier: Apache-2.0 */
/* A counted reference: objects hold their parents, so that they can be closed in any order. */
#ifndef PL_CORE_REF_H
#define PL_CORE_REF_H

#include <stdatomic.h>
#include <stdbool.h>

typedef struct pl_ref {
    atomic_int count;
} pl_ref;

static inline void pl_ref_init(pl_ref *ref)
{
    atomic_init(&ref->count, 1);
}

static inline void pl_ref_retain(pl_ref *ref)
{
    atomic_fetch_add_explicit(&ref->count, 1, memory_order_relaxed);
}

/* True for the last one: the caller then destroys the object. */
static inline bool pl_ref_release(pl_ref *ref)
{
    return atomic_fetch_sub_explicit(&ref->count, 1, memory_order_acq_rel) == 1;
}

#endif
