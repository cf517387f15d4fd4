#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# can_fail.sh CC CXX NM [CLANG-FORMAT]: each check passes on a small clean tree and fails on each of
# its faults, with the sentence that names it.
here=$(dirname "$0")
cc=$1
cxx=$2
nm=$3
format=$4
spdx='/* SPDX-License-Identifier: Apache-2.0 */'
tree=$(mktemp -d) || exit 1
trap 'rm -rf "$tree"' EXIT
failed=0

plant() {
    rm -rf "${tree:?}"/*
    mkdir -p "$tree/src/core" "$tree/src/num" "$tree/src/partition" "$tree/src/device" \
        "$tree/src/gemm" "$tree/src/comm" "$tree/src/layers" "$tree/include/parlin" "$tree/docs" \
        "$tree/tests" "$tree/examples/01" "$tree/kernels"
    printf 'BasedOnStyle: LLVM\n' >"$tree/.clang-format"
    put src/core/status.h 'int pl_status(void);'
    put src/core/option.h '#define T(X) X(PL_OPTION_LOG, "PARLIN_LOG", "v", "m")'
    put src/core/option.c '#include <stdlib.h>' 'char *pl_o(void) { return getenv("PARLIN_LOG"); }'
    put src/core/log.c '#include <stdio.h>' 'void pl_log(void) { fputs("", stderr); }'
    put src/num/num.h '#include "core/status.h"'
    put src/comm/transport_mpi.c '#include <mpi.h>' 'void pl_x(void) { MPI_Barrier(0); }'
    put src/device/launch.c '#include "num/num.h"' 'void pl_l(void) { clFinish(0); }'
    put src/layers/row.c '#include "gemm/gemm.h"' \
        '/* clFinish() and exit(1), "printf(" in a comment' '   getenv("X") on two lines */' \
        'const char *pl_s = "abort() and clFinish( in a string \" /* ";'
    put include/parlin/parlin.h '#ifndef P' '#define P' \
        '#define PARLIN_API __attribute__((visibility("default")))' '#ifdef __cplusplus' \
        'extern "C" {' '#endif' '/* PARLIN_API int parlin_not(void); */' \
        'PARLIN_API const char *parlin_one(int a);' 'PARLIN_API int' 'parlin_two(void);' \
        '#ifdef __cplusplus' '}' '#endif' '#endif'
    put examples/01/main.c '#include <parlin/parlin.h>'
    put tests/t.c 'void t(void) { getenv("PARLIN_TEST_SEED"); }'
    printf '| variable |\n|---|\n| `PARLIN_LOG` | x |\n| `PARLIN_TEST_SEED` | x |\n' \
        >"$tree/docs/environment.md"
}

put() { # FILE LINE..
    file=$tree/$1
    shift
    printf '%s\n' "$spdx" "$@" >"$file"
}

library() { # EXTRA-CODE
    put lib.c '#include "include/parlin/parlin.h"' \
        'const char *parlin_one(int a) { return a ? "" : 0; }' "$1"
    "$cc" -std=c11 -fPIC -fvisibility=hidden -c "$tree/lib.c" -o "$tree/lib.o" &&
        "$cc" -shared "$tree/lib.o" -o "$tree/lib.so" && ar rc "$tree/lib.a" "$tree/lib.o"
}

run() { # CHECK
    case $1 in
    headers) sh "$here/headers.sh" "$tree" "$cc" "$cxx" ;;
    exports) sh "$here/exports.sh" "$tree" "$nm" "$tree/lib.so" "$tree/lib.a" ;;
    format) sh "$here/format.sh" "$tree" "$format" ;;
    *) sh "$here/$1.sh" "$tree" ;;
    esac
}

passes() { # CHECK: on a clean tree
    said=$(run "$1" 2>&1) || {
        echo "$1 fails on a clean tree: $said"
        failed=$((failed + 1))
    }
}

refuses() { # CHECK TEXT: fails and says TEXT; plants a clean tree for the next
    if said=$(run "$1" 2>&1); then
        echo "$1 passes where it should say: $2"
        failed=$((failed + 1))
    elif ! echo "$said" | grep -qF "$2"; then
        echo "$1 should say: $2
but says: $said"
        failed=$((failed + 1))
    fi
    plant
}

plant
two='int parlin_two(void) { return 2; }'
library "$two" || exit 1
for check in arrows calls files environment headers exports; do
    passes $check
done

plant
put src/num/bad.c '#include "device/device.h"'
refuses arrows "no arrow from num to device"
put src/gemm/bad.c '  #  include "comm/comm.h"'
refuses arrows "no arrow from gemm to comm"
put src/core/bad.c '#include "../num/num.h"'
refuses arrows "name the room"
mkdir "$tree/src/attic" && put src/attic/a.c ''
refuses arrows "in no row of the table"
put examples/01/main.c '#include "core/status.h"'
refuses arrows "which is not public"
put include/parlin/bad.h '#include "core/status.h"'
refuses arrows "which is not public"

put src/device/bad.c 'char *pl_o(void) { return getenv("X"); }'
refuses calls "reads the environment"
put src/comm/bad.c '#include <mpi.h>'
refuses calls "includes mpi.h"
put src/comm/bad.c '#include <parlin/mpi.h>'
refuses calls "includes mpi.h"
put src/layers/bad.c 'void pl_b(void) { MPI_Barrier(0); }'
refuses calls "calls MPI"
put src/comm/bad.c '#include <CL/cl.h>'
refuses calls "includes a foreign header"
put include/parlin/layer.h '#include <CL/cl.h>'
refuses calls "includes a foreign header"
for room in core num partition comm layers; do
    put src/$room/bad.c 'void pl_b(void) { clFinish (0); }'
    refuses calls "calls OpenCL"
done
put src/device/bad.c 'void pl_b(void) { CLBlastClearCache(); }'
refuses calls "calls CLBlast"
put src/num/bad.c 'void pl_b(void) { /* no */ abort(); }'
refuses calls "ends the process"
put src/gemm/bad.c 'void pl_b(void) { fprintf(stderr, "x"); }'
refuses calls "writes to the terminal"
put src/core/status.c 'void pl_b(void) { printf("x"); }'
refuses calls "prints or ends the process"

printf 'int x;\n' >"$tree/kernels/a.cl"
refuses files "kernels/a.cl: no SPDX line"
for _ in $(seq 600); do echo; done >>"$tree/src/num/num.h"
refuses files "602 lines"
rm -r "$tree/src" "$tree/include" "$tree/examples" "$tree/tests" && mkdir "$tree/src"
refuses files "looked at no"

rm "$tree/docs/environment.md"
refuses environment "docs/environment.md is missing"
printf '| `PARLIN_LOGS` | x |\n' >"$tree/docs/environment.md"
refuses environment "PARLIN_LOG of core/option.h has no row"
printf '| `PARLIN_LOG` |\n| `PARLIN_OLD` |\n' >"$tree/docs/environment.md"
refuses environment "PARLIN_OLD of docs/environment.md is in no table"

put include/parlin/bad.h 'static inline size_t f(void) { return 0; }'
refuses headers "does not compile alone as c11"
put include/parlin/bad.h '#ifndef B' '#define B' 'int new(int class);' '#endif'
refuses headers "does not compile alone as c++11"
put include/parlin/bad.h 'typedef struct b { int b; } b;'
refuses headers "does not compile alone as c11"
mkdir "$tree/include/CL" && printf 'typedef int cl_int;\n' >"$tree/include/CL/cl.h"
put include/parlin/bad.h '#include <CL/cl.h>'
refuses headers "brings in the foreign header"

library "$two __attribute__((visibility(\"default\"))) int pl_loud(void) { return 0; }"
refuses exports "pl_loud is exported"
library "$two PARLIN_API int parlin_three(void); int parlin_three(void) { return 0; }"
refuses exports "no public header declares it"
library ''
refuses exports "parlin_two is declared, but not exported"
library "$two int helper(void); int helper(void) { return 0; }"
refuses exports "helper is a global name"

if [ -n "$format" ] && "$format" --version | grep -q 'version 14'; then
    "$format" -i "--style=file:$tree/.clang-format" $(find "$tree" -name '*.[ch]')
    passes format
    put src/num/bad.c 'int   x;'
    refuses format "should be clang-formatted"
fi

[ "$failed" -eq 0 ] || { echo "$failed expectation(s) failed"; exit 1; }
