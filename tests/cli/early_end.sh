# A run that is stopped after step N says N in its last line, its summary, the history and the
# dashboard; a killed one says when it died and how to continue.
. "$(dirname "$0")/lib.sh"

start run "$tiny" --out "$T/stopped" --name stopped --set job.steps=100000000 \
    --set job.eval_every=0 --set job.display_every=100000000
until_true 20 file_has out '^step=5 '
kill -s INT "$pid"
ended 75
step=$(sed -n 's/^stopped .* step \([0-9]*\) of .*/\1/p' "$T/out")
[ "$step" -gt 5 ] || fail "stopped after step '$step'"
has out "^at step +$step\$"
has out "^step=$step steps=100000000 split=train loss="
has err "after step $step;"
[ "$(sql 'SELECT max(step) FROM metrics WHERE run_id = 1')" = "$step" ] || fail 'another last point'
[ "$(sql 'SELECT max(step) FROM checkpoints')" = "$step" ] || fail 'another checkpoint'
expect 0 history list
has out " stopped +$step/100000000 "
hasnt out 'crashed'
expect 0 history show
has out "^progress +$step of 100000000 steps"
has out "^resume +singa-ws resume 1 continues from step $step\$"
has out '^ended +[0-9-]+ [0-9:]+$'
expect 0 top --once
has out "step $step/100000000"
has out "stopped; singa-ws resume 1 continues from step $step"
expect 0 top --once --json
has out "\"step\":$step,.*\"resume\":\"singa-ws resume 1 continues from step $step\""

start run "$tiny" --out "$T/killed" --name killed --set job.steps=100000000 \
    --set job.checkpoint_every=4
until_true 20 file_has out '^step=8 checkpoint='
kill -9 "$pid"
wait "$pid" 2>/dev/null
when='[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}'
expect 0 history list
has out "^run 2 crashed at $when: singa-ws resume 2 continues from step [0-9]+\$"
expect 0 history show
has out "^ended +$when \(its last record\)"
has out '^resume +singa-ws resume 2 continues from step [0-9]+$'
has out '^time +[0-9]'
expect 0 top --once
has out 'crashed [0-9:]{8}, took [0-9:]{8}'
has out 'crashed; singa-ws resume 2 continues from step [0-9]+'
if have_python; then
    expect 0 history show 2 --json
    python3 - "$T/out" <<'END' || fail 'history show --json of a crashed run'
import json, sys, time
run = json.load(open(sys.argv[1]))
assert run["status"] == "crashed" and run["checkpoint_step"] >= 8, run
assert run["started_at"] <= run["ended_at"] <= time.time(), run
END
fi
# Without a checkpoint there is nothing to resume.
expect 0 history rm 2 --yes
start run "$tiny" --out "$T/lost" --name lost --set job.steps=100000000
until_true 20 file_has out '^step=5 '
kill -9 "$pid"
wait "$pid" 2>/dev/null
rows=$(sql 'SELECT count(*) FROM checkpoints WHERE run_id = 3')
expect 0 history list
if [ "$rows" = 0 ]; then
    has out '^run 3 crashed at .*: no checkpoint was written: run the recipe again$'
else
    has out '^run 3 crashed at .*: singa-ws resume 3 continues from step 0$'
fi

# The list names the best value of the evaluations and its step.
expect 0 run "$tiny" --out "$T/best" --name best --quiet --set job.eval_every=10
best=$(sql "SELECT printf('%.4f @%d', value, step) FROM metrics WHERE run_id = 4 AND split = 'test'
    AND name = 'accuracy' ORDER BY value DESC, step LIMIT 1")
expect 0 history list --sort accuracy
sed -n 2p "$T/out" | grep -qF " best " || fail 'the only run with an accuracy is not first'
sed -n 2p "$T/out" | grep -qF " $best " || fail "no $best"
expect 0 history list --sort loss
sed -n 2p "$T/out" | grep -qE ' loss [0-9.]+ @[0-9]+ ' || fail 'no best loss'
exit 0
