#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# errors.sh MODELS BROKEN MPIEXEC -n RANKS GENERATE: wrong calls of generate end all ranks with one sentence, an
# exit code, and nothing on stdout.
models=$1
broken=$2
mpiexec=$3
flag=$4
ranks=$5
generate=$6
base=$models/base
wide=$models/wide
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failures=0

refused() { # CODE TEXT ARGUMENT..
    code=$1
    text=$2
    shift 2
    "$mpiexec" "$flag" "$ranks" "$generate" "$@" >"$work/out" 2>"$work/err"
    got=$?
    [ $got -eq "$code" ] && grep -qF -- "$text" "$work/err" && [ ! -s "$work/out" ] &&
        [ "$(grep -c '^generate:' "$work/err")" -eq 1 ] && return
    echo "wanted code $code and '$text', got $got:"
    cat "$work/err" "$work/out"
    failures=$((failures + 1))
}

# Text may have been printed by then.
fails_at_launch() {
    "$mpiexec" "$flag" "$ranks" "$generate" --model "$wide" --prompt-tokens 5,6,7 --tokens 20 \
        --temperature 0 >"$work/out" 2>"$work/err"
    got=$?
    [ $got -eq 1 ] && [ "$(grep -c '^generate: rank 1: ' "$work/err")" -eq 1 ] &&
        grep -q 'OUT_OF_RESOURCES\|OpenCL error -5' "$work/err" && return
    echo "launch $1 failed on rank 1, got $got:"
    cat "$work/err" "$work/out"
    failures=$((failures + 1))
}

# FOLDER NAME SED: a copy of the model whose config.json is changed.
changed() {
    cp -r "$1" "$work/$2"
    sed "$3" "$1/config.json" >"$work/$2/config.json"
}

refused 2 "--model DIR is missing"
refused 2 "--what is no option" --model "$base" --what
refused 2 "--tokens '0': a whole number from 1 on" --model "$base" --tokens 0
refused 2 "--top-p '2': a number from 0 to 1" --model "$base" --top-p 2
refused 1 "$work/absent/config.json cannot be opened" --model "$work/absent"
refused 1 "has no tokenizer.bin" --model "$wide" --prompt "a"
refused 1 "token 67, the vocabulary ends at 66" --model "$wide" --prompt-tokens 5,67
refused 1 "token ids with commas between" --model "$wide" --prompt-tokens 5,,6
refused 1 "the prompt has 5 tokens with bos, --tokens 4" --model "$base" --prompt "a cat in" --tokens 4
refused 1 "the model's context has 256 positions" --model "$base" --tokens 257
changed "$base" short 's/"max_position_embeddings": 256/"max_position_embeddings": 4/'
refused 1 "5 tokens with bos, the model's context 4 positions" --model "$work/short" --prompt "a cat in"
refused 1 "--logits $work/no/file cannot be opened" --model "$base" --logits "$work/no/file"
refused 1 "nowhere" --model "$base" --device nowhere

# Faults of the checkpoint are found by each rank for itself.
changed "$wide" taller 's/"intermediate_size": 21/"intermediate_size": 22/'
refused 1 "mlp.gate_proj" --model "$work/taller" --prompt-tokens 5
changed "$wide" deeper 's/"num_hidden_layers": 2/"num_hidden_layers": 3/'
refused 1 "model.layers.2." --model "$work/deeper" --prompt-tokens 5
changed "$wide" fewer 's/"num_attention_heads": 8/"num_attention_heads": 1/;s/"num_key_value_heads": 4/"num_key_value_heads": 1/'
refused 1 "total_num_heads 1 is fewer than the 2 ranks" --model "$work/fewer" --prompt-tokens 5

# What happens to one rank alone ends all. Needs an mpiexec that tells the rank (MPICH, Open MPI).
# shellcheck disable=SC2016 # the rank itself expands it
rank='${PMI_RANK:-$OMPI_COMM_WORLD_RANK}'
whole=$generate
generate=$work/one
printf '#!/bin/sh\n[ "%s" = 1 ] && set -- --model "%s"\nexec "%s" "$@"\n' "$rank" "$work/absent" \
    "$whole" >"$generate"
chmod +x "$generate"
refused 1 "rank 1: $work/absent/config.json cannot be opened" --model "$base"

# Its device fails at the launch of that number: while norms are loaded, in the prompt, in the text; in
# this program's kernels and in parlin's.
for launch in 1 3 10 11 12 13 14 15 16 17 60 61 62 63 64 65 66 67; do
    printf '#!/bin/sh\n[ "%s" = 1 ] && export LD_PRELOAD="%s" BROKEN_LAUNCH=%d\nexec "%s" "$@"\n' \
        "$rank" "$broken" $launch "$whole" >"$generate"
    fails_at_launch $launch
done
exit $failures
