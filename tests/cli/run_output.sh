# ctest-timeout: 120
# Output of run without a terminal: first lines (at most 8 of 80 columns), key=value lines, a table of
# at most 10 lines; JSON; --quiet.
. "$(dirname "$0")/lib.sh"

expect 0 run "$tiny" --out "$T/run" --name first --no-ui --set job.checkpoint_every=20
has out '^run +1, first \(.*tiny\.ini\): 40 steps of 16 samples'
has out '^placement +[0-9]+ workers? (and [0-9]+ servers? )?on cpu, cores [0-9,-]+ .[0-9]+ threads?'
has out '^framework +allreduce .default; [0-9]+ worker'
has out '^parameters +[0-9.]+ k?, .*flop per sample; memory [0-9.]+ [kM]?B$'
has out "^history +$SINGA_DB\$"
has out "^checkpoints +$T/run\$"
has out '^data +train: synthetic, 200 records; test: synthetic, 50 records$'
first_lines() {
    sed '/^step=/,$d' "$T/out"
}
brief() {
    [ "$(first_lines | wc -l)" -le 8 ] || fail "more than 8 lines"
    ! first_lines | grep -E '.{81}' || fail 'a line of more than 80 columns'
}
brief
for step in 1 2 3 4 5; do
    has out "^step=$step steps=40 split=train loss=[0-9.]+"
done
has out '^step=20 split=test loss=[0-9.]+ accuracy=[0-9.]+'
has out '^step=40 split=test loss='
has out "^step=20 checkpoint=$T/run/checkpoint-20\.safetensors bytes=[0-9]+"
has out '^done +run 1, first: step 40 of 40'
has out '^ +train +test$'
has out '^accuracy +-- +[0-9.]+$'
has out '^best +accuracy [0-9.]+ at step (20|40)$'
has out '^speed +[0-9.e+]+ ([kMG] )?samples/s, .* per step; [0-9.]+ [MG]B resident$'
has out "^checkpoint +$T/run/checkpoint-40\.safetensors"
has out '^next +singa-ws predict 1 '
[ "$(sed '1,/^$/d' "$T/out" | wc -l)" -le 10 ] || fail 'a summary of more than 10 lines'
[ -s "$T/err" ] && fail 'something on stderr'
grep -q "$(printf '\r')" "$T/out" && fail 'a carriage return in a log'
grep -q "$(printf '\033')" "$T/out" && fail 'an escape in a log'
[ -s "$T/run/checkpoint-20.safetensors" ] || fail 'no checkpoint at step 20'
[ "$(grep -c '^step=.*split=train' "$T/out")" -le 40 ] || fail 'more displays than steps'

# -v prints everything.
expect 0 run "$tiny" --out "$T/verbose" --name verbose -v --steps 1
has out '^placement +worker0\.0 +cpu, .*cores .* threads?: '
has out '^ +server0\.0 +cpu, .*cores [0-9,-]+, .*thread'
has out '^ +main +cores [0-9,-]+, '
has out '^memory +[0-9.]+ [kM]?B: parameters'
has out '^data +train: .*200 records of 3x12x12'
has out '^data +test: .*50'

# Long names, paths and reasons are shortened; the last part of a path stays.
long=$T/$(printf 'deep/%.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16)end
mkdir -p "$long"
cp "$tiny" "$long/tiny.ini"
expect 0 run "$long/tiny.ini" --out "$long/out" --steps 1 --framework hogwild --oversubscribe \
    --set cluster.worker_groups=3 --set cluster.warmup_steps=1
brief
has out '^run .*\(\.\.\./.*tiny\.ini\)'
has out '^checkpoints +\.\.\./.*/deep/end/out$'
expect 0 run "$long/tiny.ini" --out "$T/a" --steps 1 --name "$(printf 'name%.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18)"
brief

# Notes are counted; a warning stays visible.
expect 0 run "$tiny" --out "$T/notes" --steps 1 --oversubscribe --set job.partition=1 \
    --set cluster.workers_per_group=2
brief
has out '^notes +[1-9][0-9]* .use -v.$'
expect 0 run "$tiny" --out "$T/alone" --steps 1 --framework downpour --set cluster.worker_groups=1
brief
has out '^framework +downpour .1 group of 1 worker: nothing is asynchronous.$'
has out '^warning +downpour with 1 worker group: nothing is asynchronous'
has out '^ .*--set cluster\.worker_groups=2'

# display_every counts steps.
expect 0 run "$tiny" --out "$T/every" --set job.display_every=10
has out '^step=30 steps=40 split=train'
hasnt out '^step=31 steps='

expect 0 run "$tiny" --out "$T/quiet" --quiet
[ -s "$T/out" ] && fail '--quiet prints'
[ -s "$T/err" ] && fail '--quiet complains'
[ -s "$T/quiet/checkpoint-40.safetensors" ] || fail '--quiet did not train'

# --steps ends early, and --out has a default in the state directory.
expect 0 run "$tiny" --steps 7 --json
[ -s "$XDG_STATE_HOME/singa-ws/runs/9/checkpoint-7.safetensors" ] ||
    fail "no checkpoint in the state directory: $(find "$XDG_STATE_HOME")"
if have_python; then
    expect 0 run "$tiny" --out "$T/json" --json --set job.checkpoint_every=20
    python3 - "$T/out" <<'END' || fail 'run --json'
import json, sys

def no_constant(name):
    raise ValueError(name)

rows = [json.loads(line, parse_constant=no_constant) for line in open(sys.argv[1])]
types = [r["type"] for r in rows]
assert types[0] == "start" and types[-1] == "summary", types
assert set(types) <= {"start", "display", "eval", "checkpoint", "event", "summary"}, types
assert all(list(r)[:2] == ["type", "step"] and isinstance(r["step"], int) for r in rows)
start = rows[0]
assert start["run"] == 10 and start["steps"] == 40 and start["parameters"] > 0, start
assert start["placement"][0]["unit"] == "worker0.0" and start["placement"][0]["cores"], start
displays = [r for r in rows if r["type"] == "display"]
assert [r["step"] for r in displays][:5] == [1, 2, 3, 4, 5], displays
assert all(r["loss"] > 0 and r["split"] == "train" for r in displays)
evals = [r for r in rows if r["type"] == "eval"]
assert [r["step"] for r in evals] == [20, 40], evals
assert all(0 <= r["accuracy"] <= 1 and r["split"] == "test" for r in evals)
assert {20, 40} <= {r["step"] for r in rows if r["type"] == "checkpoint"}
assert rows[-1]["status"] == "done" and rows[-1]["step"] == 40, rows[-1]
END
fi

# A run that is stopped ends with the metrics of its last step, and names what continues it.
start run "$tiny" --out "$T/stop" --set job.steps=1000000 --set job.eval_every=1000000
until_true 30 file_has out '^step=5 '
kill -INT "$pid"
ended 75
last=$(sed -n 's/^stopped .*: step \([0-9]*\) of .*/\1/p' "$T/out")
has out "^step=$last .*split=train"
hasnt out '^at step'
has out '^next +singa-ws resume [0-9]+$'

# A diverged run exits with 4, and no checkpoint contains NaN.
"$SW" run "$tiny" --out "$T/nan" --set updater.lr=1e30 --set updater.policy=fixed >"$T/out" 2>"$T/err"
got=$?
[ "$got" = 4 ] || fail "a diverging run exits with $got"
has err '^singa-ws: .'
has out '^failed '

# Steps whose learning rate is too low to train.
linear rate >"$T/rate.ini"
cosine() {
    verb=$1
    shift
    expect 0 "$verb" "$@" --set updater.policy=cosine --set job.steps=10
    tr -s '\n ' ' ' <"$T/out" >"$T/line"
}
for verb in run check; do
    cosine $verb "$T/rate.ini" --set updater.warmup=10
    has line 'warning updater\.warmup = 10 is not less than job\.steps = 10: the learning rate never reaches lr'
    cosine $verb "$T/rate.ini" --set updater.warmup=9 --set updater.final=0.00001
    hasnt out warning
    cosine $verb "$T/rate.ini" --set updater.lr=0 --set updater.warmup=3
    hasnt out warning
done
cosine run "$T/rate.ini" --set updater.warmup=5 --steps 1
has line 'warning the learning rate is below lr / 1000 in steps 1 to 1: updater\.warmup = 5 is too close to --steps 1 '
cosine run "$T/rate.ini" --name rate
hasnt out warning
has out '^next .*resume [0-9]+ --set job\.steps=N$'
expect 0 resume rate --steps 12
tr -s '\n ' ' ' <"$T/out" >"$T/line"
has line 'warning job\.steps = 10 ends the schedule: .* is below lr / 1000; use --set job\.steps=12, not --steps '
has out '^step=12 .* lr=0 '
expect 0 resume rate --set job.steps=20
hasnt out warning
has out '^step=13 .* lr=0\.00'
# With stages, the length of the last one counts.
printf 'include = rate.ini\n[updater]\npolicy = linear\n[stage a]\nsteps = 4\n[stage b]\nsteps = 4\n' >"$T/two.ini"
expect 0 run "$T/two.ini" --name two --quiet
expect 0 resume two --steps 10
tr -s '\n ' ' ' <"$T/out" >"$T/line"
has line 'warning job\.steps = 4 ends the schedule: .* use --set stage\.b\.steps=6, not --steps '
expect 0 resume two --set stage.b.steps=12
has out '^step=11 steps=16 .* lr=0\.00'
expect 0 run "$T/rate.ini" --steps 3 --set job.steps=2
hasnt out warning
has out '^next .*resume [0-9]+ --steps N$'
