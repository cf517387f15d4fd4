#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# files.sh ROOT: every source file says its licence in its first three lines and has at most 600 lines.
. "$(dirname "$0")/house.sh"

for folder in src include kernels tests examples tools cmake scripts; do
    [ -d "$folder" ] || continue
    # A script may have no ending.
    find "$folder" -type f \( -name '*.[ch]' -o -name '*.cl' -o -name '*.clh' -o -name '*.cpp' \
        -o -name '*.cmake' -o -name CMakeLists.txt -o -name '*.sh' -o -name '*.awk' -o -name '*.py' \
        -o -path '*/scripts/*' ! -name '*.*' \)
done >"$work/files"

# Two of them at least, so that wc ends in a line of its own, which is no file.
xargs wc -l /dev/null <"$work/files" | while read -r lines file; do
    [ "$lines" -le 600 ] || [ "$file" = total ] ||
        echo "$file: $lines lines, at most 600 wanted"
done >"$work/complaints"

# FNR runs within a file: a file is named where its first three lines do not say it.
xargs awk '
    FNR == 1 { seen[FILENAME] = 0 }
    FNR <= 3 && /SPDX-License-Identifier: Apache-2.0/ { seen[FILENAME] = 1 }
    END {
        for (i = 1; i < ARGC; i++)
            if (!seen[ARGV[i]]) print ARGV[i] ": no SPDX line"
    }' <"$work/files" >>"$work/complaints"

while read -r line; do
    complain "$line"
done <"$work/complaints"
verdict "$(wc -l <"$work/files")" "source file"
