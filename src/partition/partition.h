/* SPDX-License-Identifier: Apache-2.0 */
/* Who owns what: pure functions of (n, p, r). p: ranks, r: rank.

   n units over p ranks, earlier ranks take one more:
       n = 7, p = 3:  [0,3) [3,5) [5,7)          n = 2, p = 3: [0,1) [1,2) [2,2)
   heads (H query, K key/value, g = H / K query heads to each):
       p <= K: kv heads are cut, query heads follow     H=8 K=4 p=3: kv 2 1 1, query 4 2 2
       p >  K: query heads are cut, kv heads follow     H=8 K=4 p=8: query 1 each, kv head r/2 */
#ifndef PL_PARTITION_H
#define PL_PARTITION_H

#include <stdbool.h>
#include <stddef.h>

#include <parlin/types.h>

typedef struct pl_range {
    size_t start;
    size_t length;
} pl_range;

/* Rank r's run of n units. p >= 1, r < p. */
pl_range pl_range_of(size_t n, size_t p, size_t r);

/* Rank r's run where units of `unit` elements are kept whole (heads): in elements. */
pl_range pl_range_of_units(size_t units, size_t unit, size_t p, size_t r);

typedef struct pl_heads_cut {
    pl_range heads;    /* query heads */
    pl_range kv_heads; /* those that they read */
} pl_heads_cut;

/* H a multiple of K, K >= 1, H >= p. */
pl_heads_cut pl_heads_cut_of(size_t heads, size_t kv_heads, size_t p, size_t r);

/* The local kv head that a local query head reads. */
size_t pl_heads_local_kv(const pl_heads_cut *cut, size_t heads, size_t kv_heads, size_t local_head);

/* True where r is the first rank that holds kv head `kv_head` (the one that exports it). */
bool pl_heads_owns_kv(size_t heads, size_t kv_heads, size_t p, size_t r, size_t kv_head);

/* Copying a part out of a tensor that holds all parts. A run: `length` rows from `source` (a row
   of the stored tensor) on go to `target` (a row of the part) on. */
typedef struct pl_run {
    size_t source;
    size_t target;
    size_t length;
} pl_run;

/* The shape of a stored tensor that holds several parts. */
typedef struct pl_fused {
    parlin_qkv_order order;
    size_t parts;
    const size_t *part_rows; /* [parts]: full rows of each */
    /* interleaved orders only: parts are q, k, v of these sizes */
    size_t heads;
    size_t kv_heads;
    size_t head_size;
    size_t v_head_size;
} pl_fused;

/* The next run of rows [wanted.start, wanted.start + wanted.length) of part `part`, of which
   `done` rows have been dealt with: run->target counts within `wanted`. False when done ==
   wanted.length. */
bool pl_fused_next_run(const pl_fused *fused, size_t part, pl_range wanted, size_t done,
                       pl_run *run);

#endif
