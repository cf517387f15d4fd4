/* SPDX-License-Identifier: Apache-2.0 */
/* Where the rows of one part lie in a tensor that holds all parts.

   A part is stored in pieces of `piece` rows, one in every block of `block` rows, `offset` rows
   from the block's start. hs, vhs: head sizes; g = H / K.

     order               block              part   offset          piece
     stacked             the whole tensor   i      rows before it  its rows
     interleaved heads   2 hs + vhs         q      0               hs
       [h][q k v][d]                        k      hs              hs
                                            v      2 hs            vhs
     interleaved groups  (g + 1) hs + vhs   q      0               g hs
       [kv][q.. k v][d]                     k      g hs            hs
                                            v      (g + 1) hs      vhs

   Worked: groups, H=4 K=2 hs=vhs=1: rows 0..7 are q0 q1 k0 v0 q2 q3 k1 v1.
     q: 0 1 4 5   k: 2 6   v: 3 7 */
#include "partition/partition.h"

typedef struct layout {
    size_t block;
    size_t offset;
    size_t piece;
} layout;

static layout layout_of(const pl_fused *fused, size_t part)
{
    layout at = {0, 0, 0};
    if (fused->order == PARLIN_STACKED) {
        for (size_t i = 0; i < part; i++)
            at.offset += fused->part_rows[i];
        at.piece = fused->part_rows[part];
        return at; /* a single block: its size is never used */
    }
    size_t g = fused->order == PARLIN_INTERLEAVED_HEADS ? 1 : fused->heads / fused->kv_heads;
    size_t q = g * fused->head_size, k = fused->head_size, v = fused->v_head_size;
    at.block = q + k + v;
    at.offset = part == 0 ? 0 : part == 1 ? q : q + k;
    at.piece = part == 0 ? q : part == 1 ? k : v;
    return at;
}

bool pl_fused_next_run(const pl_fused *fused, size_t part, pl_range wanted, size_t done,
                       pl_run *run)
{
    if (done >= wanted.length)
        return false;
    layout at = layout_of(fused, part);
    size_t row = wanted.start + done, within = row % at.piece;
    size_t left = wanted.length - done, here = at.piece - within;
    run->source = row / at.piece * at.block + at.offset + within;
    run->target = done;
    run->length = left < here ? left : here;
    return true;
}
