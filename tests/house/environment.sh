#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# environment.sh ROOT: the table of core/option.h and the tables of docs/environment.md name the same
# PARLIN_* variables. PARLIN_TEST_* may be documented too, where a test reads it.
. "$(dirname "$0")/house.sh"
page=docs/environment.md

known=$(grep -oE 'X\(PL_OPTION_[A-Z_]+,[[:space:]]*"PARLIN_[A-Z_]+"' src/core/option.h |
    grep -oE 'PARLIN_[A-Z_]+"' | tr -d '"' | sort -u)
tests=$(grep -rhoE '(getenv\("|\$\{?)PARLIN_TEST_[A-Z_]+' tests 2>/dev/null |
    grep -oE 'PARLIN_TEST_[A-Z_]+' | sort -u)

if [ -f "$page" ]; then
    # Rows of a table: | `PARLIN_X` | ..
    described=$(sed -nE 's/^\|[[:space:]]*`(PARLIN_[A-Z_]+)`.*/\1/p' "$page" | sort -u)
    for name in $known; do
        echo "$described" | grep -qx "$name" ||
            complain "$name of core/option.h has no row in docs/environment.md"
    done
    for name in $described; do
        printf '%s\n%s\n' "$known" "$tests" | grep -qx "$name" ||
            complain "$name of docs/environment.md is in no table of the code"
    done
else
    complain "docs/environment.md is missing"
fi
verdict "$(echo "$known" | grep -c .)" "variable"
