# ctest-timeout: 180
# Primitives chosen by measuring: the choices are stored for the machine and in the run's checkpoints,
# and a resumed run keeps its own choices, whatever those of the machine have become.
. "$(dirname "$0")/lib.sh"

tune='--set job.tune=yes'
kept=$T/state/singa-ws/tune.json
choices() {
    grep -ao '{\\"key\\":\\"[^"]*",\\"way\\":\\"[^"]*"' "$1" | tr -d '\\' | sort -u
}

# Choices by rules are not stored.
expect 0 run "$tiny" --no-ui --out "$T/rule" --name rule --steps 2
hasnt out 'source=tune'
[ ! -e "$kept" ] || fail 'choices are kept of a run that measures none'

# shellcheck disable=SC2086
expect 0 check "$tiny" $tune
[ ! -e "$kept" ] || fail 'check has written tune.json'

# shellcheck disable=SC2086
expect 0 run "$tiny" --no-ui --out "$T/whole" --name whole $tune
has out 'source=tune text="[0-9]+ choices measured in [0-9.]+ s, 0 known before'
if ! file_has out 'text="[1-9][0-9]* choices measured'; then
    skip 'this build or processor has one way for everything'
fi
whole=$T/whole/checkpoint-40.safetensors
choices "$whole" >"$T/chosen"
[ -s "$T/chosen" ] || fail 'the checkpoint has no choices'
[ -s "$kept" ] || fail 'what was measured is not kept'

# The second run measures nothing and has the same bits.
# shellcheck disable=SC2086
expect 0 run "$tiny" --no-ui --out "$T/again" --name again $tune
has out 'source=tune text="0 choices measured in 0.0 s, [1-9][0-9]* known before"'
if have_python; then
    same_tensors "$whole" "$T/again/checkpoint-40.safetensors"
fi

# A resumed run keeps its first choices, also with measuring switched off.
# shellcheck disable=SC2086
expect 0 run "$tiny" --no-ui --out "$T/half" --name half --steps 15 $tune
sed 's/"way":"[^"]*"/"way":"gemm:jit"/g' "$kept" >"$T/changed" && cp "$T/changed" "$kept"
expect 0 resume half --no-ui --steps 25
hasnt out 'the algorithms differ'
expect 0 resume half --no-ui --steps 40 --set job.tune=no
hasnt out 'the algorithms differ'
choices "$T/half/checkpoint-40.safetensors" | cmp -s - "$T/chosen" ||
    fail 'the choices of the resumed run differ'
if have_python; then
    same_tensors "$whole" "$T/half/checkpoint-40.safetensors"
fi
# A new run uses the choices that are now stored for the machine.
# shellcheck disable=SC2086
expect 0 run "$tiny" --no-ui --out "$T/new" --name new --steps 2 $tune
choices "$T/new/checkpoint-2.safetensors" | cmp -s - "$T/chosen" &&
    fail 'a new run does not have the choices of the machine'

# A damaged file is ignored.
echo '{"host' >"$kept"
# shellcheck disable=SC2086
expect 0 run "$tiny" --no-ui --out "$T/anew" --name anew --steps 2 $tune
has out 'text="[1-9][0-9]* choices measured in [0-9.]+ s, 0 known before'

# Two workers, on cores and on simulated devices, make the same choices.
two='--oversubscribe --set cluster.workers_per_group=2 --set cluster.comm=ps'
# shellcheck disable=SC2086
OMP_NUM_THREADS=1 expect 0 run "$tiny" --no-ui --out "$T/two" --name two --steps 2 $two $tune
# shellcheck disable=SC2086
OMP_NUM_THREADS=1 expect 0 run "$tiny" --no-ui --out "$T/sim" --name sim --steps 2 $two $tune \
    --device sim:gpus=2,mem=64MiB
choices "$T/two/checkpoint-2.safetensors" >"$T/chosen"
[ -s "$T/chosen" ] || fail 'two workers have chosen nothing'
choices "$T/sim/checkpoint-2.safetensors" | cmp -s - "$T/chosen" ||
    fail 'simulated devices have other choices than cores'

# Row counts that workers get later are measured then, and stored too.
# shellcheck disable=SC2086
expect 0 run "$tiny" --no-ui --out "$T/rows" --name rows --steps 30 $two $tune \
    --device sim:gpus=2,mem=64MiB,slow=3 --set cluster.rebalance=yes --set job.eval_every=10
expect 0 resume rows --no-ui --steps 40 --oversubscribe
hasnt out 'the algorithms differ'
has out 'source=tune text="0 choices measured'
choices "$T/rows/checkpoint-40.safetensors" | sed 's/","way".*//; s/.*"//' >"$T/keys"
[ -s "$T/keys" ] || fail 'the run with other rows has no choices'
while read -r key; do
    grep -qF "\"$key\"" "$kept" || fail "not kept: $key"
done <"$T/keys"

# shellcheck disable=SC2086
expect 2 check "$tiny" $tune --set job.repeat_exact=yes
has err 'tune = yes: tune chooses by measuring, which repeat_exact excludes: remove one of them'
