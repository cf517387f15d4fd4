#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tiny.sh CHECK FOLDER PROMPT-TOKENS OPTION VALUE COMMAND..: runs generate greedily on a tiny model with
# OPTION VALUE (a prompt of so many tokens), and checks logits and tokens against the reference.
check=$1
folder=$2
prompt=$3
option=$4
value=$5
shift 5
positions=24
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

complain() {
    cat "$work/err" "$work/out"
    echo "$*"
    exit 1
}

"$@" --model "$folder" "$option" "$value" --tokens $positions --temperature 0 --verbose \
    --logits "$work/logits" >"$work/out" 2>"$work/err" || complain "generate ended with $?"
sed -n 's/^token ids fed: //p' "$work/err" >"$work/ids"
"$check" "$folder" "$work/ids" "$work/logits" "$prompt" $positions || complain "not as the reference"

# Without a tokenizer stdout has the ids: those fed, and the last one chosen unless it ends the text.
if [ ! -f "$folder/tokenizer.bin" ]; then
    case "$(cat "$work/out") " in
    "$(cat "$work/ids") "*) ;;
    *) complain "stdout has not the ids that were fed" ;;
    esac
else
    case $(head -n 1 "$work/out") in
    "$value"*) ;;
    *) complain "stdout does not begin with the prompt" ;;
    esac
fi
grep -q 'after the first token of text.* 0 device buffers made, 0 programs' "$work/err" ||
    complain "decoding allocates"
