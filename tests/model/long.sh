#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# long.sh CHECK FOLDER COMMAND..: a prompt of 140 tokens, which is fed in two calls, and its text
# against the reference; and the text is the same where no logits are asked for.
check=$1
folder=$2
shift 2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
prompt=$(awk 'BEGIN { for (i = 0; i < 140; i++) printf "%s%d", i ? "," : "", i * i % 61 + 2 }')

complain() {
    cat "$work/err"
    echo "$*"
    exit 1
}

set -- "$@" --model "$folder" --prompt-tokens "$prompt" --tokens 146 --temperature 0 --verbose
"$@" --logits "$work/logits" >"$work/out" 2>"$work/err" || complain "generate ended with $?"
sed -n 's/^token ids fed: //p' "$work/err" >"$work/ids"
"$check" "$folder" "$work/ids" "$work/logits" 140 146 || complain "not as the reference"
"$@" >"$work/again" 2>"$work/err" || complain "generate ended with $?"
cmp "$work/out" "$work/again" || complain "another text without --logits"
