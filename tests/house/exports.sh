#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# exports.sh ROOT NM SHARED STATIC: the shared library exports just the functions that the public
# headers declare with PARLIN_API; the static one has no name outside parlin_ and pl_.
. "$(dirname "$0")/house.sh"
nm=$2
shared=$3
static=$4

# Statements one a line, then the name before the first bracket.
declared=$(code include | sed -E 's/^[^:]*:[0-9]*://' | grep -v '^[[:space:]]*#' | tr '\n' ' ' |
    tr ';{}' '\n\n\n' | grep PARLIN_API |
    sed -nE 's/^[^(]*[ *](parlin_[a-z0-9_]+)[[:space:]]*\(.*/\1/p' | sort -u)

# Names that the linker and sanitizers add are not ours.
"$nm" -D --defined-only "$shared" >"$work/shared" || complain "$nm cannot read $shared"
exported=$(awk 'NF == 3 { sub(/@.*/, "", $3); print $3 }' "$work/shared" |
    grep -vE '^(_init|_fini|_edata|_end|__bss_start|__(asan|ubsan|odr_asan|sanitizer|tsan|gcov|llvm).*)$' |
    sort -u)

# Between blanks, so that a name can be looked up.
all_declared=" $(echo "$declared" | tr '\n' ' ') "
all_exported=" $(echo "$exported" | tr '\n' ' ') "
for name in $exported; do
    case $name in
    parlin_*)
        case $all_declared in
        *" $name "*) ;;
        *) complain "$name is exported, but no public header declares it with PARLIN_API" ;;
        esac
        ;;
    *) complain "$name is exported" ;;
    esac
done
for name in $declared; do
    case $all_exported in
    *" $name "*) ;;
    *) complain "$name is declared, but not exported" ;;
    esac
done

"$nm" -g --defined-only "$static" >"$work/static" || complain "$nm cannot read $static"
for name in $(awk 'NF == 3 { print $3 }' "$work/static" | grep -vE '^(parlin_|pl_|__)' | sort -u); do
    complain "$name is a global name of $(basename "$static"); inner names begin with pl_"
done
verdict "$(echo "$declared" | grep -c .)" "declared function"
