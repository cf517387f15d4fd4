# SPDX-License-Identifier: Apache-2.0
# awk -f strip.awk FILE..: C source without comments and with empty string literals, each
# line as "path:number:code". #include lines keep their strings.
FNR == 1 {
    within = 0
    quote = ""
}
{
    line = $0
    out = ""
    kept = line ~ /^[ \t]*#[ \t]*include/
    if (!within && !quote && line !~ /["'\/]/) {
        print FILENAME ":" FNR ":" line
        next
    }
    for (i = 1; i <= length(line); i++) {
        one = substr(line, i, 1)
        two = substr(line, i, 2)
        if (within) {
            if (two == "*/") {
                within = 0
                i++
            }
        } else if (quote) {
            if (kept) out = out one
            if (one == "\\") i++
            else if (one == quote) {
                if (!kept) out = out one
                quote = ""
            }
        } else if (two == "/*") {
            within = 1
            out = out " "
            i++
        } else if (two == "//") {
            break
        } else {
            out = out one
            if (one == "\"" || one == "'") quote = one
        }
    }
    if (substr(line, length(line), 1) != "\\") quote = ""
    print FILENAME ":" FNR ":" out
}
