/* SPDX-License-Identifier: Apache-2.0 */
/* CLBlast's status codes: their names, and which of them mean that it cannot do a product while
   another engine may. CL_OUT_OF_RESOURCES is one: drivers give it for a work-group that wants too
   many registers. A device that is really lost fails the next engine too, and that is told. */
#include <clblast_c.h>

#include "gemm/engine.h"

static const struct {
    int code;
    const char *name;
    bool refusal;
} codes[] = {
    {CLBlastSuccess, "CLBlastSuccess", false},
    {CLBlastOpenCLCompilerNotAvailable, "CLBlastOpenCLCompilerNotAvailable", true},
    {CLBlastTempBufferAllocFailure, "CLBlastTempBufferAllocFailure", true},
    {CLBlastOpenCLOutOfResources, "CLBlastOpenCLOutOfResources", true},
    {CLBlastOpenCLOutOfHostMemory, "CLBlastOpenCLOutOfHostMemory", false},
    {CLBlastOpenCLBuildProgramFailure, "CLBlastOpenCLBuildProgramFailure", true},
    {CLBlastInvalidValue, "CLBlastInvalidValue", true},
    {CLBlastInvalidCommandQueue, "CLBlastInvalidCommandQueue", false},
    {CLBlastInvalidMemObject, "CLBlastInvalidMemObject", false},
    {CLBlastInvalidBinary, "CLBlastInvalidBinary", true},
    {CLBlastInvalidBuildOptions, "CLBlastInvalidBuildOptions", true},
    {CLBlastInvalidProgram, "CLBlastInvalidProgram", true},
    {CLBlastInvalidProgramExecutable, "CLBlastInvalidProgramExecutable", true},
    {CLBlastInvalidKernelName, "CLBlastInvalidKernelName", true},
    {CLBlastInvalidKernelDefinition, "CLBlastInvalidKernelDefinition", true},
    {CLBlastInvalidKernel, "CLBlastInvalidKernel", true},
    {CLBlastInvalidArgIndex, "CLBlastInvalidArgIndex", true},
    {CLBlastInvalidArgValue, "CLBlastInvalidArgValue", true},
    {CLBlastInvalidArgSize, "CLBlastInvalidArgSize", true},
    {CLBlastInvalidKernelArgs, "CLBlastInvalidKernelArgs", true},
    {CLBlastInvalidLocalNumDimensions, "CLBlastInvalidLocalNumDimensions", true},
    {CLBlastInvalidLocalThreadsTotal, "CLBlastInvalidLocalThreadsTotal", true},
    {CLBlastInvalidLocalThreadsDim, "CLBlastInvalidLocalThreadsDim", true},
    {CLBlastInvalidGlobalOffset, "CLBlastInvalidGlobalOffset", true},
    {CLBlastInvalidEventWaitList, "CLBlastInvalidEventWaitList", false},
    {CLBlastInvalidEvent, "CLBlastInvalidEvent", false},
    {CLBlastInvalidOperation, "CLBlastInvalidOperation", true},
    {CLBlastInvalidBufferSize, "CLBlastInvalidBufferSize", true},
    {CLBlastInvalidGlobalWorkSize, "CLBlastInvalidGlobalWorkSize", true},
    {CLBlastNotImplemented, "CLBlastNotImplemented", true},
    {CLBlastInvalidMatrixA, "CLBlastInvalidMatrixA", false},
    {CLBlastInvalidMatrixB, "CLBlastInvalidMatrixB", false},
    {CLBlastInvalidMatrixC, "CLBlastInvalidMatrixC", false},
    {CLBlastInvalidVectorX, "CLBlastInvalidVectorX", false},
    {CLBlastInvalidVectorY, "CLBlastInvalidVectorY", false},
    {CLBlastInvalidDimension, "CLBlastInvalidDimension", true},
    {CLBlastInvalidLeadDimA, "CLBlastInvalidLeadDimA", true},
    {CLBlastInvalidLeadDimB, "CLBlastInvalidLeadDimB", true},
    {CLBlastInvalidLeadDimC, "CLBlastInvalidLeadDimC", true},
    {CLBlastInvalidIncrementX, "CLBlastInvalidIncrementX", true},
    {CLBlastInvalidIncrementY, "CLBlastInvalidIncrementY", true},
    {CLBlastInsufficientMemoryA, "CLBlastInsufficientMemoryA", true},
    {CLBlastInsufficientMemoryB, "CLBlastInsufficientMemoryB", true},
    {CLBlastInsufficientMemoryC, "CLBlastInsufficientMemoryC", true},
    {CLBlastInsufficientMemoryX, "CLBlastInsufficientMemoryX", true},
    {CLBlastInsufficientMemoryY, "CLBlastInsufficientMemoryY", true},
    {CLBlastInsufficientMemoryTemp, "CLBlastInsufficientMemoryTemp", true},
    {CLBlastInvalidBatchCount, "CLBlastInvalidBatchCount", true},
    {CLBlastInvalidOverrideKernel, "CLBlastInvalidOverrideKernel", true},
    {CLBlastMissingOverrideParameter, "CLBlastMissingOverrideParameter", true},
    {CLBlastInvalidLocalMemUsage, "CLBlastInvalidLocalMemUsage", true},
    {CLBlastNoHalfPrecision, "CLBlastNoHalfPrecision", true},
    {CLBlastNoDoublePrecision, "CLBlastNoDoublePrecision", true},
    {CLBlastInvalidVectorScalar, "CLBlastInvalidVectorScalar", true},
    {CLBlastInsufficientMemoryScalar, "CLBlastInsufficientMemoryScalar", true},
    {CLBlastDatabaseError, "CLBlastDatabaseError", true},
    {CLBlastUnknownError, "CLBlastUnknownError", true},
    {CLBlastUnexpectedError, "CLBlastUnexpectedError", true},
};

const char *pl_clblast_name(int code)
{
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].code == code)
            return codes[i].name;
    return "unknown CLBlast status";
}

bool pl_clblast_refusal(int code)
{
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].code == code)
            return codes[i].refusal;
    return code != CLBlastSuccess;
}
