# ctest-timeout: 120
# Output of run without a terminal: first lines, key=value lines, table; JSON; --quiet.
. "$(dirname "$0")/lib.sh"

expect 0 run "$tiny" --out "$T/run" --name first --no-ui --set job.checkpoint_every=20
has out '^run +1, first \(.*tiny\.ini\): 40 steps of 16 samples'
has out '^placement +worker0\.0 +cpu, .*cores'
has out '^ +server0\.0 +cpu, .*cores [0-9,-]+( .shared with worker0\.0.)?$'
has out '^ +main +cores [0-9,-]+( .shared: no spare core.)?$'
has out '^framework +allreduce .default; [0-9]+ worker'
has out '^parameters +[0-9]+ '
has out '^memory +[0-9.]+ [kM]?B'
has out "^history +$SINGA_DB\$"
has out "^checkpoints +$T/run\$"
has out '^data .*train.*200'
has out '^data .*test.*50'
for step in 1 2 3 4 5; do
    has out "^step=$step steps=40 split=train loss=[0-9.]+"
done
has out '^step=20 split=test loss=[0-9.]+ accuracy=[0-9.]+'
has out '^step=40 split=test loss='
has out "^step=20 checkpoint=$T/run/checkpoint-20\.safetensors bytes=[0-9]+"
has out '^done +run 1, first: step 40 of 40'
has out '^ +train +test$'
has out '^accuracy +-- +[0-9.]+$'
has out '^speed '
has out '^memory .* at most, .* resident'
has out "^checkpoint +$T/run/checkpoint-40\.safetensors"
[ -s "$T/err" ] && fail 'something on stderr'
grep -q "$(printf '\r')" "$T/out" && fail 'a carriage return in a log'
grep -q "$(printf '\033')" "$T/out" && fail 'an escape in a log'
[ -s "$T/run/checkpoint-20.safetensors" ] || fail 'no checkpoint at step 20'
[ "$(grep -c '^step=.*split=train' "$T/out")" -le 40 ] || fail 'more displays than steps'

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
[ -s "$XDG_STATE_HOME/singa-ws/runs/4/checkpoint-7.safetensors" ] ||
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
assert start["run"] == 5 and start["steps"] == 40 and start["parameters"] > 0, start
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

# A diverged run exits with 4, and no checkpoint contains NaN.
"$SW" run "$tiny" --out "$T/nan" --set updater.lr=1e30 --set updater.policy=fixed >"$T/out" 2>"$T/err"
got=$?
[ "$got" = 4 ] || fail "a diverging run exits with $got"
has err '^singa-ws: .'
has out '^failed '
