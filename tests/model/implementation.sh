#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# implementation.sh rusticl|oclgrind CHECK FOLDER PROMPT-TOKENS OPTION VALUE GENERATE: tiny.sh on another
# implementation of OpenCL, by its plain kernels; Oclgrind looks for races and accesses out of bounds.
which=$1
check=$2
folder=$3
prompt=$4
option=$5
value=$6
generate=$7
here=$(dirname "$0")
export PARLIN_ENGINE=plain PARLIN_DEVICE="$which"

skip() {
    echo "skipped: no $which here"
    exit 77
}

case $which in
rusticl)
    ls "${OCL_ICD_VENDORS:-/etc/OpenCL/vendors}"/*rusticl*.icd >/dev/null 2>&1 || skip
    export RUSTICL_ENABLE=llvmpipe
    exec sh "$here/tiny.sh" "$check" "$folder" "$prompt" "$option" "$value" "$generate"
    ;;
oclgrind)
    command -v oclgrind >/dev/null || skip
    log=$(mktemp) || exit 1
    trap 'rm -f "$log"' EXIT
    # Binaries of kernels are not kept: the log is to name lines of the source.
    export PARLIN_CACHE=off
    sh "$here/tiny.sh" "$check" "$folder" "$prompt" "$option" "$value" \
        oclgrind --data-races --max-errors 20 --log "$log" "$generate" || exit 1
    [ ! -s "$log" ] || { cat "$log" && exit 1; }
    ;;
esac
