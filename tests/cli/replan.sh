# A run whose steps deviate from its plan: it says so, goes on under another plan with replan = yes,
# and ends with all steps, once each, and the bits of a run that kept its plan; also when it is killed
# after the change and resumed.
# ctest-timeout: 180
. "$(dirname "$0")/lib.sh"
[ "$(env -u OMP_NUM_THREADS nproc)" -ge 2 ] || skip 'needs 2 cores'
have_python || skip 'needs python3'
export OMP_NUM_THREADS=1
steps=2000
keys='--set job.steps=2000 --set job.batch=64 --set job.repeat_exact=yes --set job.eval_every=100 --set cluster.framework=sandblaster'

# Figures of this machine that make 2 workers seem very fast, and 1 worker a little less so.
expect 0 plan "$tiny" --measure $keys
python3 - "$T/state/singa-ws/calibration.json" <<'END' || fail 'the stored times have another form'
import json, sys
d = json.load(open(sys.argv[1]))
assert sorted(e["workers"] for e in d["entries"]) == [1, 2], d
for e in d["entries"]:
    for l in e["layers"]:
        for k in ("forward_ms", "backward_ms", "update_ms"):
            l[k] = 1e-4 if e["workers"] == 1 else 1e-5
    e["step_ms"] = 1e-6
json.dump(d, open(sys.argv[1], "w"))
END
expect 0 plan "$tiny" $keys
has out '^plan +sandblaster, 1 group of 2 workers'

# Without replan the run only says what it would do.
expect 0 run "$tiny" --plan $keys --out "$T/kept" --name kept
has out '^step=[0-9]+ level=warning source=plan text="steps take .* as long as the plan predicted \(.*\): .* instead of .*; with the times measured in this run the planner would use 1 group of 1 worker.* \('
hasnt out 'after its next evaluation'
[ "$(sql "SELECT count(*) FROM segments WHERE run_id = 1")" = 1 ] || fail 'it changed its plan'
[ "$(sql "SELECT count(*) FROM events WHERE source = 'plan' AND text LIKE 'steps take%'")" -ge 1 ] ||
    fail 'the history has no event'

# every_step_once NAME: the run has all steps, and the loss of each is that of the run that kept its plan.
every_step_once() {
    python3 - "$SINGA_DB" "$1" $steps <<'END' || fail "steps of $1"
import sqlite3, sys
c = sqlite3.connect(sys.argv[1])
def losses(name):
    return c.execute("SELECT step, value FROM metrics WHERE split = 'train' AND name = 'loss' AND run_id ="
                     " (SELECT max(id) FROM runs WHERE name = ?) ORDER BY step", (name,)).fetchall()
l = losses(sys.argv[2])
assert [s for s, v in l] == list(range(1, int(sys.argv[3]) + 1)), (len(l), l[:3], l[-3:])
assert l == losses("kept"), [x for x in zip(l, losses("kept")) if x[0] != x[1]][:3]
n = c.execute("SELECT count(DISTINCT step) FROM step_time WHERE run_id = (SELECT max(id) FROM runs"
              " WHERE name = ?)", (sys.argv[2],)).fetchone()
assert n[0] == int(sys.argv[3]), n
END
}

expect 0 run "$tiny" --plan $keys --set job.replan=yes --out "$T/changed" --name changed --json
has out '"type":"event","step":[0-9]+,"level":"warning","source":"plan","text":"steps take .*, as the run does after its next evaluation"'
has out '"type":"event","step":[0-9]+00,.*"after step [0-9]+00 the run follows another plan: 1 group of 1 worker.* \('
same_tensors "$T/changed/checkpoint-$steps.safetensors" "$T/kept/checkpoint-$steps.safetensors"
every_step_once changed
[ "$(sql "SELECT count(*) FROM runs")" = 2 ] || fail 'it went on as another run'
[ "$(sql "SELECT count(*) FROM segments WHERE run_id = 2")" -ge 2 ] || fail 'it is one segment'
expect 0 history show changed
has out '^until step [0-9]+00 +[0-9.]+ [nmu]?s +[0-9.]+ [mu]?s$'
has out '^step +[0-9.]+ [mu]?s +[0-9.]+ [mu]?s$'
python3 - "$SINGA_DB" <<'END' || fail 'the plans in the history'
import json, sqlite3, sys
c = sqlite3.connect(sys.argv[1])
d = json.loads(c.execute("SELECT json FROM plans WHERE run_id = 2").fetchone()[0])
r = d["replaced"]
assert r[0]["workers_per_group"] == 2 and r[0]["until_step"] % 100 == 0, r[0]
assert r[0]["measured_ms"] > 2 * r[0]["predicted_ms"] > 0, r[0]
assert set(r[0]["measured"]) == {"compute_ms", "params_ms", "wait_ms", "rest_ms"}, r[0]
assert [i["until_step"] for i in r] == sorted(i["until_step"] for i in r), r
assert (r + [d])[1]["workers_per_group"] == 1, d
workers, overrides = c.execute("SELECT workers, overrides FROM runs WHERE id = 2").fetchone()
assert workers == d["workers_per_group"], (workers, d)
assert all(s in overrides.split("\n") for s in d["sets"]), (overrides, d["sets"])
END

# Killed after the change, it goes on under the new plan.
start run "$tiny" --plan $keys --set job.replan=yes --set job.checkpoint_every=100 \
    --out "$T/killed" --name killed
until_true 20 file_has out 'after step [0-9]+ the run follows another plan'
kill -9 "$pid" 2>/dev/null
wait "$pid" 2>/dev/null
if [ "$(sql "SELECT status FROM runs WHERE name = 'killed'")" != done ]; then # it may have been faster
    followed=$(sql "SELECT json_extract(json, '\$.workers_per_group') FROM plans WHERE run_id = 3")
    expect 0 resume killed --set job.replan=no
    hasnt err 'followed a plan for'
    [ "$(sql "SELECT workers FROM runs WHERE name = 'killed'")" = "$followed" ] ||
        fail 'the resume has another number of workers'
    same_tensors "$T/killed/checkpoint-$steps.safetensors" "$T/kept/checkpoint-$steps.safetensors"
    every_step_once killed
fi

# Where it can never happen.
expect 2 run "$tiny" --plan --set job.replan=yes --set job.eval_every=0
has err 'replan = yes: a plan is changed at evaluations during training, and there are none'
expect 0 run "$tiny" --set job.replan=yes --steps 2 --out "$T/none"
has err 'warning: job.replan has no effect: the run follows no plan on one host'
expect 0 check "$tiny" --set job.replan=yes
exit 0
