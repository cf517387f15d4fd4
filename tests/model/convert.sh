#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# convert.sh SCRIPTS MODELS: scripts/convert-llama2c gives, byte for byte, the folder that was made as
# such: the tiny model's, and stories260k's where PARLIN_TEST_MODELS has it. Malformed files are
# refused.
scripts=$1
models=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failures=0

complain() {
    echo "$*"
    failures=$((failures + 1))
}

same() { # CHECKPOINT TOKENIZER WANTED FILE..
    "$scripts/convert-llama2c" "$1" "$2" "$work/made" || complain "$1 was refused"
    wanted=$3
    shift 3
    for file in "$@"; do
        cmp "$work/made/$file" "$wanted/$file" || complain "$wanted: another $file"
    done
    rm -rf "$work/made"
}

refused() { # TEXT CHECKPOINT TOKENIZER
    said=$("$scripts/convert-llama2c" "$2" "$3" "$work/refused" 2>&1) && complain "taken: $1"
    case $said in
    *"$1"*) ;;
    *) complain "should say '$1', says: $said" ;;
    esac
    [ ! -e "$work/refused" ] || complain "a folder was left: $1"
}

tiny=$models/llama2c
same "$tiny/model.bin" "$tiny/tokenizer.bin" "$models/base" model.safetensors tokenizer.bin
if [ -n "$PARLIN_TEST_MODELS" ]; then
    stories=$PARLIN_TEST_MODELS/stories260k
    same "$stories/stories260K.bin" "$stories/tokenizer.bin" "$stories" \
        model.safetensors config.json tokenizer.bin
fi

: >"$work/empty"
head -c 1000 "$tiny/model.bin" >"$work/short"
head -c 1000 "$tiny/tokenizer.bin" >"$work/short_tokens"
{ cat "$tiny/tokenizer.bin" && echo more; } >"$work/long_tokens"
printf '24ka0123456789012345678901234567890' >"$work/newer"
refused "is empty" "$work/empty" "$tiny/tokenizer.bin"
refused "1000 bytes, but its header speaks of 82716" "$work/short" "$tiny/tokenizer.bin"
refused "a newer format" "$work/newer" "$tiny/tokenizer.bin"
refused "a number below 1" "$tiny/tokenizer.bin" "$tiny/tokenizer.bin"
refused "No such file" "$work/absent" "$tiny/tokenizer.bin"
refused "the checkpoint's vocabulary has 291" "$tiny/model.bin" "$work/short_tokens"
refused "more than the 291 tokens" "$tiny/model.bin" "$work/long_tokens"
exit $failures
