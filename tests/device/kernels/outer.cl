/* SPDX-License-Identifier: Apache-2.0 */
#include "middle.clh"
  #  include "inner.clh"

__kernel void outer(__global int *out)
{
    out[0] = MIDDLE;
    out[1] = INNER;
    out[2] = __LINE__;
}
