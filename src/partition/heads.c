/* SPDX-License-Identifier: Apache-2.0 */
/* Query heads and the key/value heads that they read. H query heads, K kv heads, g = H / K:
   query head h reads kv head h / g. (A kv head that several ranks read is on all of them.)

     H   K   p   query heads      kv heads (first+count)
     4   4   2   2 2              0+2 2+2
     4   2   4   1 1 1 1          0+1 0+1 1+1 1+1             p > K: each kv head on 2 ranks
     8   4   3   4 2 2            0+2 2+1 3+1                 p <= K: cut on group borders
     8   4   8   1 each           0 0 1 1 2 2 3 3
     8   2   3   3 3 2            0+1 0+2 1+1                 rank 1 reads both
     8   1   2   4 4              0+1 0+1
     40  10  4   12 12 8 8        0+3 3+3 6+2 8+2 */
#include "partition/partition.h"

pl_heads_cut pl_heads_cut_of(size_t heads, size_t kv_heads, size_t p, size_t r)
{
    size_t g = heads / kv_heads;
    pl_heads_cut cut;

    if (p <= kv_heads) {
        cut.kv_heads = pl_range_of(kv_heads, p, r);
        cut.heads = pl_range_of_units(kv_heads, g, p, r);
    } else {
        cut.heads = pl_range_of(heads, p, r);
        size_t end = cut.heads.start + cut.heads.length; /* >= 1, as each rank has a head */
        cut.kv_heads.start = cut.heads.start / g;
        cut.kv_heads.length = (end - 1) / g - cut.kv_heads.start + 1;
    }
    return cut;
}

size_t pl_heads_local_kv(const pl_heads_cut *cut, size_t heads, size_t kv_heads, size_t local_head)
{
    size_t g = heads / kv_heads;
    return (cut->heads.start + local_head) / g - cut->kv_heads.start;
}

static bool holds_kv(size_t heads, size_t kv_heads, size_t p, size_t r, size_t kv_head)
{
    pl_range range = pl_heads_cut_of(heads, kv_heads, p, r).kv_heads;
    return kv_head >= range.start && kv_head - range.start < range.length;
}

bool pl_heads_owns_kv(size_t heads, size_t kv_heads, size_t p, size_t r, size_t kv_head)
{
    /* The ranks that hold it follow each other, so that the one before decides. */
    return holds_kv(heads, kv_heads, p, r, kv_head) &&
           (r == 0 || !holds_kv(heads, kv_heads, p, r - 1, kv_head));
}
