/* SPDX-License-Identifier: Apache-2.0 */
/* y = max(0, y)^2, one work-item an element. */
__kernel void squared_relu(__global float *y)
{
    size_t i = get_global_id(0);
    float z = fmax(y[i], 0.0f);
    y[i] = z * z;
}
