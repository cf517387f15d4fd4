#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# stories.sh COMPARE COMMAND..: generate tells llama2.c's story: text, token ids and logits.
compare=$1
shift
if [ -z "$PARLIN_TEST_MODELS" ]; then
    echo "skipped: PARLIN_TEST_MODELS names no folder of models (it has stories260k)"
    exit 77
fi
model=${PARLIN_TEST_MODELS}/stories260k
golden=$model/golden/once
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

complain() {
    cat "$work/err"
    echo "$*"
    exit 1
}

"$@" --model "$model" --prompt "Once upon a time" --tokens 64 --temperature 0 --verbose \
    --logits "$work/logits" >"$work/out" 2>"$work/err" || complain "generate ended with $?"
cmp "$work/out" "$golden.txt" || complain "another text"
sed -n 's/^token ids fed: //p' "$work/err" | tr ' ' '\n' >"$work/ids"
tr -s ' \n' '\n' <"$golden.tokens.txt" | cmp - "$work/ids" || complain "other tokens"
"$compare" "$work/logits" "$golden.logits.f32" || complain "other logits"
grep -q 'after the first token of text.* 0 device buffers made, 0 programs' "$work/err" ||
    complain "decoding allocates"
