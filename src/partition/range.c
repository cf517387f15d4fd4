/* SPDX-License-Identifier: Apache-2.0 */
/* n units over p ranks: contiguous runs in rank order, earlier ranks take one more.

     n    p   lengths
     8    2   4 4
     7    2   4 3
     7    3   3 2 2
     2    3   1 1 0
     0    3   0 0 0 */
#include "partition/partition.h"

pl_range pl_range_of(size_t n, size_t p, size_t r)
{
    size_t each = n / p, more = n % p;
    return (pl_range){.start = r * each + (r < more ? r : more), .length = each + (r < more)};
}

pl_range pl_range_of_units(size_t units, size_t unit, size_t p, size_t r)
{
    pl_range range = pl_range_of(units, p, r);
    return (pl_range){.start = range.start * unit, .length = range.length * unit};
}
