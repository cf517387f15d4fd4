/* SPDX-License-Identifier: Apache-2.0 */
/* parlin: tensor-parallel linear layers on OpenCL and MPI. Plain C, no foreign header. A program
   that hands over its communicator includes <parlin/mpi.h> as well, one that hands over its
   OpenCL objects <parlin/opencl.h>. */
#ifndef PARLIN_PARLIN_H
#define PARLIN_PARLIN_H

#include <parlin/status.h>
#include <parlin/types.h>
#include <parlin/device.h>
#include <parlin/tensor.h>
#include <parlin/group.h>
#include <parlin/layer.h>
#include <parlin/checkpoint.h>

#endif
