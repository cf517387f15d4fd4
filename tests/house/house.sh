# SPDX-License-Identifier: Apache-2.0
# Read in by each check: inside the source tree given, with a folder $work for its own files, and `complain`,
# after which `verdict` fails.
here=$(cd "$(dirname "$0")" && pwd)
complaints=0

cd "$1" && [ -d src ] || { echo "no source tree in '$1'"; exit 1; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

complain() {
    echo "$*"
    complaints=$((complaints + 1))
}

# code FOLDER..: all C files below, without comments and strings, as lines "path:number:code".
code() {
    for folder in "$@"; do
        [ -d "$folder" ] && find "$folder" -name '*.[ch]'
    done >"$work/files"
    [ -s "$work/files" ] && xargs awk -f "$here/strip.awk" <"$work/files"
}

# verdict COUNT WHAT: how much was looked at; looking at nothing is a failure.
verdict() {
    [ "$1" -gt 0 ] || complain "looked at no $2"
    [ "$complaints" -eq 0 ] || { echo "$complaints complaint(s)"; exit 1; }
    exit 0
}
