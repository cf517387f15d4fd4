#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# arrows.sh ROOT: a room includes only its own headers, those of the rooms below it, and public ones.
. "$(dirname "$0")/house.sh"

#       room             may include
below() {
    case $1 in
    core) rooms="" ;;
    num) rooms="core" ;;
    partition) rooms="core" ;;
    checkpoint) rooms="core" ;;
    device) rooms="num core" ;;
    gemm) rooms="device num core" ;;
    comm) rooms="device num core" ;;
    layers) rooms="comm gemm device checkpoint partition num core" ;;
    *) return 1 ;;
    esac
}

for folder in src/*/; do
    below "$(basename "$folder")" || complain "$folder is in no row of the table of arrows.sh"
done

# Lines "path header", of #include "header" alone.
code src include examples tools |
    sed -nE 's/^([^:]*):[0-9]*:[ \t]*#[ \t]*include[ \t]*"([^"]*)".*/\1 \2/p' >"$work/includes"
count=$(wc -l <"$work/files")

while read -r file header; do
    case $file in
    src/*)
        room=${file#src/}
        room=${room%%/*}
        case $header in
        */*) to=${header%%/*} ;;
        *) to=$room ;;
        esac
        [ "$to" = .. ] && complain "$file includes \"$header\": name the room"
        below "$room"
        case " $room $rooms " in
        *" $to "*) ;;
        *) complain "$file includes \"$header\": no arrow from $room to $to" ;;
        esac
        ;;
    *) # Public headers, examples and tools stand outside; a file beside the program is its own.
        case $file in
        include/*) own= ;;
        *) own=${file%/*}/$header ;;
        esac
        [ -n "$own" ] && [ -f "$own" ] || complain "$file includes \"$header\", which is not public"
        ;;
    esac
done <"$work/includes"
verdict "$count" "source file"
