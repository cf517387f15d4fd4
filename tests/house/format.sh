#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# format.sh ROOT [CLANG-FORMAT]: C files are laid out as .clang-format says. Exit code 77: skipped.
. "$(dirname "$0")/house.sh"
tool=$2

if [ -z "$tool" ]; then
    echo "skipped: no clang-format here"
    exit 77
fi
version=$("$tool" --version | grep -oE 'version [0-9]+' | grep -oE '[0-9]+')
if [ "$version" != 14 ]; then # each version has its own idea of some lines
    echo "skipped: clang-format is version $version, 14 wanted"
    exit 77
fi
files=$(for folder in src include tests examples tools; do
    find "$folder" -name '*.[ch]' 2>/dev/null
done)
# shellcheck disable=SC2086
said=$("$tool" --dry-run -Werror --style=file $files 2>&1) || complain "$said"
verdict "$(echo "$files" | grep -c .)" "source file"
