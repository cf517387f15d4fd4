#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run_oclgrind.sh PROGRAM [ARGUMENT...]: runs a test on Oclgrind, and fails where Oclgrind finds a
# memory error or a data race in a kernel. (Its --uninitialized is of no use here:
# version 21.10 takes what clEnqueueWriteBufferRect wrote for unwritten, and crashes on a shuffle
# of the upper half of a vector.)
if ! command -v oclgrind >/dev/null; then
    echo "skipped: oclgrind is not installed; every test skipped"
    exit 0
fi
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
# Binaries of kernels are not kept: the log is to name lines of the source.
PARLIN_CACHE=off PARLIN_DEVICE=oclgrind \
    oclgrind --data-races --max-errors 20 --log "$log" "$@"
result=$?
if [ -s "$log" ]; then
    echo "Oclgrind reports:"
    cat "$log"
    exit 1
fi
exit $result
