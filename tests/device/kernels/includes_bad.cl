/* SPDX-License-Identifier: Apache-2.0 */
#include "bad.clh"

__kernel void includes_bad(__global int *out)
{
    out[0] = 0;
}
