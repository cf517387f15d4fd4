#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# calls.sh ROOT: foreign calls and headers only in the rooms that are there for them.
. "$(dirname "$0")/house.sh"

code src include >"$work/code"

# refuse WHERE BUT REGEX WHY: no line of the files WHERE, but those of BUT, has the regular expression.
refuse() {
    found=$(grep -E "^$1" "$work/code" | grep -vE "^$2" | grep -E "$3") && complain "$4:
$found"
}

none='-'
without_opencl='src/(core|num|partition|checkpoint|comm|layers)/'
mpi_file='src/comm/transport_mpi\.c:'

refuse src/ 'src/core/option\.c:' '\b(secure_)?getenv[[:space:]]*\(|\benviron\b' \
    "reads the environment; only core/option.c does"

refuse src/ $mpi_file '#[[:space:]]*include[[:space:]]*[<"](parlin/)?mpi\.h[>"]' \
    "includes mpi.h; only comm/transport_mpi.c does"
refuse src/ $mpi_file '\bP?MPI_[A-Z][A-Za-z_]*[[:space:]]*\(' \
    "calls MPI; only comm/transport_mpi.c does"

foreign='#[[:space:]]*include[[:space:]]*<(CL/|OpenCL/|clblast|mpi)'
refuse $without_opencl $mpi_file "$foreign" "includes a foreign header"
refuse include/ 'include/parlin/(opencl|mpi)\.h:' "$foreign" "includes a foreign header"

refuse $without_opencl $none '\bcl[A-Z][A-Za-z]+[[:space:]]*\(' \
    "calls OpenCL; device and gemm alone do"
refuse src/ src/gemm/ '\bCLBlast[A-Z][A-Za-z]*[[:space:]]*\(' "calls CLBlast; gemm alone does"

refuse src/ 'src/core/log\.c:' \
    '\b(v?printf|puts|putchar|perror|abort|exit|_exit|_Exit|quick_exit|assert|raise)[[:space:]]*\(' \
    "prints or ends the process"
refuse src/ 'src/core/log\.c:' '\b(stderr|stdout)\b' \
    "writes to the terminal; only core/log.c does"

verdict "$(wc -l <"$work/files")" "source file"
