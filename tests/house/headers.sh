#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# headers.sh ROOT CC CXX [FLAG..]: every public header compiles alone, as C11 and as C++; those that
# a plain C program includes bring no foreign header along. The flags are for mpi.h and cl.h.
. "$(dirname "$0")/house.sh"
cc=$2
cxx=$3
shift 3

count=0
for header in include/parlin/*.h; do
    name=parlin/$(basename "$header")
    count=$((count + 1))
    # Twice, so that its guard is seen to work.
    text="#include <$name>
#include <$name>
extern int nothing;"
    for standard in c11 c++11 c++17; do
        case $standard in
        c11) compiler=$cc language=c ;;
        *) compiler=$cxx language=c++ ;;
        esac
        said=$(echo "$text" | "$compiler" -x $language -std=$standard -Wall -Wextra -Wpedantic -Werror \
            -fsyntax-only -Iinclude "$@" - 2>&1) ||
            complain "<$name> does not compile alone as $standard:
$said"
    done
    case $name in
    parlin/opencl.h | parlin/mpi.h) continue ;;
    esac
    brought=$(echo "$text" | "$cc" -x c -std=c11 -M -Iinclude "$@" - 2>&1) ||
        complain "<$name>: its dependencies could not be listed: $brought"
    echo "$brought" | tr ' ' '\n' | grep -E '(^|/)(mpi|cl|opencl|clblast_c)\.h$' | grep -v '/parlin/' &&
        complain "<$name> brings in the foreign header above"
done
verdict "$count" "public header"
