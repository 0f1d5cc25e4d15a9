# eval: weights by file, run, name, or the newest run of the same recipe.
. "$(dirname "$0")/lib.sh"

expect 3 eval "$tiny"
has err 'no (run|such|history)|not there|train'
[ -e "$SINGA_DB" ] && fail 'eval created a history'

expect 0 run "$tiny" --out "$T/a" --name a --quiet
expect 0 run "$tiny" --out "$T/b" --name b --set job.seed=3 --quiet

expect 0 eval "$tiny"
has out '^weights +newest of this recipe, run 2 "b": .*/b/checkpoint-40\.safetensors'
has out '^split +test'
has out '^accuracy +[0-9.]+'
expect 0 eval "$tiny" --weights a
has out '^weights +run 1 "a": .*/a/checkpoint-40'
expect 0 eval "$tiny" --weights 1 --quiet
hasnt out 'weights'
has out '^accuracy +[0-9.]+'
expect 0 eval "$tiny" --weights "$T/a/checkpoint-40.safetensors" --split train
has out '^split +train'
expect 0 eval "$tiny" --weights @last --json
[ "$(wc -l <"$T/out")" = 1 ] || fail 'eval --json is not one object on one line'
has out '"loss":[0-9.]+'
has out '"accuracy":[0-9.]+'

# eval prints the metrics that the run stored at its last step.
stored=$("$SW" history sql "select value from metrics where run_id=1 and split='test' and
    name='loss' and step=40" | tail -n 1)
expect 0 eval "$tiny" --weights 1 --json
got=$(sed 's/.*"loss":\([^,}]*\).*/\1/' "$T/out")
awk -v a="$stored" -v b="$got" 'BEGIN { d = a - b; exit !(a > 0 && d < 1e-6 * a && d > -1e-6 * a) }' ||
    fail "eval says $got, the history has $stored"

# A different recipe without a run; a missing split; missing weights.
sed 's/^outputs = 32/outputs = 31/' "$tiny" >"$T/other.ini"
expect 3 eval "$T/other.ini"
has err 'no run of this recipe'
expect 2 eval "$tiny" --split nowhere
has err 'nowhere'
expect 3 eval "$tiny" --weights "$T/none.safetensors"
has err 'none\.safetensors'
expect 3 eval "$tiny" --weights nobody
# Weights of another net do not fit, and a damaged file is detected.
"$SW" eval "$T/other.ini" --weights 1 >"$T/out" 2>"$T/err" && fail 'weights of another net were taken'
has err 'fc1'
cp "$T/a/checkpoint-40.safetensors" "$T/damaged.safetensors"
printf 'X' | dd of="$T/damaged.safetensors" bs=1 seek=3000 conv=notrunc 2>/dev/null
expect 3 eval "$tiny" --weights "$T/damaged.safetensors"
has err 'damaged\.safetensors'

# A run may start from weights; missing ones are reported before it begins.
expect 0 run "$tiny" --out "$T/warm" --name warm --init-from "$T/a/checkpoint-40.safetensors" \
    --steps 1 --set updater.lr=1e-30
has out 'parameters start from .*/a/checkpoint-40'
expect 0 eval "$tiny" --weights a --json
before=$(sed 's/.*"loss":\([^,}]*\).*/\1/' "$T/out")
expect 0 eval "$tiny" --weights warm --json
[ "$(sed 's/.*"loss":\([^,}]*\).*/\1/' "$T/out")" = "$before" ] || fail '--init-from took other values'
expect 3 run "$tiny" --out "$T/cold" --init-from "$T/none.safetensors"
has err 'none\.safetensors'
[ -e "$T/cold" ] && fail 'a run was begun without its weights'
exit 0
