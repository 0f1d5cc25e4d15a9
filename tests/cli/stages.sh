# ctest-timeout: 180
# A run in stages: one after the other in one history, with parameters initialized by name and by rule.
# The bits are the same wherever it was stopped and resumed; errors are reported before it begins.
. "$(dirname "$0")/lib.sh"

staged=$T/staged.ini
cat >"$staged" <<'END'
[job]
name = staged
batch = 16
eval_batch = 32
eval_every = 10
[data train]
format = synthetic
classes = 4
records = 200
height = 8
width = 8
mean = 127
std = 64
shuffle = yes
[data test]
format = synthetic
classes = 4
records = 50
height = 8
width = 8
mean = 127
std = 64
[updater]
type = sgd
lr = 0.05
momentum = 0.9
policy = linear
[layer image]
type = input
field = image
[layer label]
type = input
field = label
[layer flat]
type = flatten
src = image
[layer enc]
type = inner_product
src = flat
outputs = 12
weight.init = xavier
[layer code]
type = activation
function = sigmoid
src = enc
[layer drop]
type = dropout
src = code
stages = fine, joint
[layer dec]
type = inner_product
src = code
outputs = 192
weight.init = xavier
stages = pre
[layer rec]
type = euclidean_loss
src = dec, flat
stages = pre
[layer top]
type = inner_product
src = drop
outputs = 4
weight.init = xavier
stages = fine, joint
[layer loss]
type = softmax_loss
src = top, label
stages = fine, joint
[layer back]
type = inner_product
src = code
outputs = 192
stages = joint
[layer again]
type = euclidean_loss
src = back, flat
weight = 0.01
stages = joint
[layer accuracy]
type = accuracy
src = top, label
include = eval
stages = fine, joint
[stage pre]
steps = 20
updater.lr = 0.002
[stage fine]
steps = 15
freeze = enc.weight
updater.type = adam
updater.lr = 0.01
[stage joint]
epochs = 1
batch = 20
init_from = previous, enc.weight^T -> back.weight, dec.bias -> back.bias
END

# ---- The whole ----

expect 0 run "$staged" -v --out "$T/whole" --name whole --set job.checkpoint_every=1
has out '^stages +pre \(20 steps\), fine \(15 steps\), joint \(10 steps\)$'
has out 'text="pre \(1 of 3\): steps 1 to 20"'
has out 'text="joint \(3 of 3\): steps 36 to 45"'
has out '2 of 6 parameters start from the previous stage: back\.weight from enc\.weight\^T, back\.bias from dec\.bias'
has out 'done +run [0-9]+, whole: step 45 of 45'
whole=$T/whole/checkpoint-45.safetensors
[ "$(sql "select count(*) from runs where name = 'whole'")" = 1 ] || fail 'several runs'
[ "$(sql "select count(*) from segments")" = 1 ] || fail 'several segments'
[ "$(sql "select count(*) || ' ' || min(step) || ' ' || max(step) from metrics
    where name = 'loss' and split = 'train'")" = '45 1 45' ] || fail 'a step is missing'
[ "$(sql "select group_concat(step) from (select step from metrics
    where name = 'loss' and split = 'test' order by step)")" = 10,20,30,35,45 ] ||
    fail 'evaluations are counted from the beginning of each stage'
# Every stage restarts its schedule.
[ "$(sql "select group_concat(round(value, 4)) from (select value from metrics
    where name = 'lr' and step in (1, 11, 21, 36) order by step)")" = 0.002,0.001,0.01,0.05 ] ||
    fail "the rates are $(sql "select group_concat(value) from (select value from metrics
        where name = 'lr' and step in (1, 11, 21, 36) order by step)")"
expect 0 history show whole
has out '^stage +joint \(3 of 3\)'
has out '^joint +35 +20 +4\.9 k$'
# The history records the facts of each stage; those of the run are those of the last stage.
stages_of() {
    sql "select group_concat(s.name || ' ' || from_step || ' ' || s.batch || ' ' || s.params, ', ')
        from (select * from stages order by from_step) s join runs on id = run_id
        where runs.name = '$1'"
}
all='pre 0 16 4812, fine 20 16 2368, joint 35 20 4864'
[ "$(stages_of whole)" = "$all" ] || fail "stages: $(stages_of whole)"
[ "$(sql "select params || ' ' || batch from runs where name = 'whole'")" = '4864 20' ] ||
    fail 'the run has not what its last stage has'
# Epochs are counted by the batch of each stage: 35 steps of 16 samples of 200, and two of 100.
expect 0 run "$staged" --out "$T/large" --name large --quiet --set stage.joint.batch=100
[ "$(sql "select group_concat(step || ' ' || epoch, ', ') from (select * from metrics join runs on
    runs.id = run_id where runs.name = 'large' and split = 'train' and metrics.name = 'loss'
    and step in (12, 13, 25, 26, 35, 36, 37) order by step)")" = \
    '12 1, 13 2, 25 2, 26 3, 35 3, 36 4, 37 4' ] || fail 'epochs'
expect 0 history plot large --by epoch

if have_python; then
    python3 - "$T/whole" <<'END' || fail 'values are not where they should be'
import json, struct, sys
def tensors(step):
    raw = open("%s/checkpoint-%d.safetensors" % (sys.argv[1], step), "rb").read()
    n, = struct.unpack("<Q", raw[:8])
    head = json.loads(raw[8:8 + n])
    meta = head.pop("__metadata__")
    return meta, {k: (t["shape"], raw[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]])
                  for k, t in head.items()}
meta19, pre = tensors(19)
meta20, first = tensors(20)
meta34, fine = tensors(34)
meta35, joint = tensors(35)
meta45, last = tensors(45)
assert [m["stage"] for m in (meta19, meta20, meta34, meta35, meta45)] == \
    ["pre", "fine", "fine", "joint", "joint"]
assert meta20["stage_from"] == "20" and meta34["stage_from"] == "20"
assert "stage_over" not in meta20 and "stage_over" in meta45
# Frozen parameters, carried-over parameters that no layer has, and updater state, which ends with its
# stage.
assert fine["enc.weight"] == first["enc.weight"] != pre["enc.weight"]
assert fine["enc.bias"] != first["enc.bias"]
assert last["dec.weight"] == joint["dec.weight"] == first["dec.weight"]
assert "updater.dec.weight.momentum" in pre and "updater.top.weight.mean" in fine
assert not [n for n in last if n.startswith("updater.dec") or n.endswith(".mean")]
assert not any(first["updater.top.weight.mean"][1])
# Transposed and renamed.
(rows, columns), raw = joint["enc.weight"]
w = struct.unpack("<%df" % (rows * columns), raw)
assert joint["back.weight"] == ([columns, rows],
    struct.pack("<%df" % len(w), *[w[i * columns + j] for j in range(columns) for i in range(rows)]))
assert joint["back.bias"] == joint["dec.bias"]
assert last["back.weight"] != joint["back.weight"] and last["enc.weight"] != joint["enc.weight"]
END
fi

# Retention removes old checkpoints in all stages; init_from applies to the first stage.
expect 0 run "$staged" --out "$T/few" --quiet --set job.keep_checkpoints=1 \
    --set job.checkpoint_every=4
[ "$(ls "$T/few" | grep -c safetensors)" = 1 ] || fail "left: $(ls "$T/few")"
have_python && same_tensors "$whole" "$T/few/checkpoint-45.safetensors"
expect 0 run "$staged" --out "$T/from" --init-from "$whole"
has out '4 of 4 parameters start from .*whole/checkpoint-45\.safetensors; unused tensors: top\.weight'
has out '2 of 4 parameters start from the previous stage'
# Without a history that can be written, too.
expect 0 run "$staged" --out "$T/spooled" --db "$T/staged.ini/history.db"
has out '^done +staged: step 45 of 45'
have_python && same_tensors "$whole" "$T/spooled/checkpoint-45.safetensors"

# ---- Resuming in every stage and between stages ----

same_as_whole() {
    have_python && same_tensors "$whole" "$1/checkpoint-45.safetensors"
    return 0
}
for step in 7 20 21 35 44; do
    expect 0 run "$staged" --out "$T/at$step" --name "at$step" --steps $step --quiet
    expect 0 resume "at$step" --steps 45 --no-ui
    [ "$step" != 20 ] || has out 'text="fine \(2 of 3\): steps 21 to 35"'
    has out 'step 45 of 45'
    same_as_whole "$T/at$step"
    [ "$(sql "select count(*) from metrics m, runs r where m.run_id = r.id and r.name = 'at$step'
        and m.name = 'loss' and split = 'train'")" = 45 ] || fail "at$step: a step is missing"
done
expect 0 resume at7
has err 'already at step 45 of 45'
# --steps beyond the end prolongs the last stage.
expect 0 resume at7 --steps 47
[ -e "$T/at7/checkpoint-47.safetensors" ] || fail 'no step 47'

"$SW" run "$staged" --out "$T/killed" --name killed --set job.checkpoint_every=1 --quiet \
    --set stage.joint.steps=10 >"$T/out" 2>"$T/err" &
pid=$!
children="$children $pid"
until_true 20 test -e "$T/killed/checkpoint-24.safetensors"
kill -9 "$pid" 2>/dev/null
wait "$pid" 2>/dev/null
expect 0 resume killed
same_as_whole "$T/killed"
[ "$(stages_of killed)" = "$all" ] || fail "stages after a resume: $(stages_of killed)"

# Another number of workers, a device, other frameworks: the same steps.
expect 0 run "$staged" --out "$T/sim" --name sim --device sim:gpus=2,mem=64MiB --oversubscribe \
    --quiet --steps 30 --set cluster.workers_per_group=2
expect 0 resume sim --oversubscribe --steps 45
has out 'step 45 of 45'
for framework in downpour hogwild; do
    expect 0 run "$staged" --out "$T/$framework" --name $framework --framework $framework \
        --oversubscribe --set cluster.worker_groups=2
    has out 'joint \(3 of 3\): steps 36 to 40"' # an epoch is half as many steps of two groups
    has out 'step 40 of 40'
done

# A condition ends its stage, and the next one begins there.
expect 0 run "$staged" --out "$T/early" --name early --set stage.fine.stop_at='train.loss<=100' \
    --set job.checkpoint_every=1
has out 'text="fine \(2 of 3\): steps 21 to 35"'
has out 'text="joint \(3 of 3\): steps 22 to 31"'
has out 'step 31 of 31'
rm "$T/early/checkpoint-31.safetensors" "$T/early/checkpoint-30.safetensors"
expect 0 resume early -v --no-ui
has out '^run .*early .*: 31 steps .*, from step 29'
has out 'step 31 of 31'

# A stop in one stage does not begin the next.
start run "$staged" --out "$T/stopped" --name stopped --set stage.pre.steps=100000000
until_true 20 file_has out '^step=5 '
kill -TERM "$pid"
ended 75
[ "$(sql "select status from runs where name = 'stopped'")" = stopped ] || fail 'not stopped'

# ---- Weights of a stage ----

expect 0 eval "$staged" --weights "$T/whole/checkpoint-30.safetensors" --json
has out '"accuracy"'
expect 0 eval "$staged" --weights "$T/whole/checkpoint-15.safetensors" --json
hasnt out '"accuracy"'
expect 0 eval "$staged" --weights "$T/whole/checkpoint-15.safetensors" --stage pre --json
expect 0 predict "$staged" --weights whole --stage pre --layer dec --output "$T/dec.npy"
expect 2 predict "$staged" --weights whole --layer dec --output "$T/dec.npy"
has err '--layer dec: stage joint has no such layer; use --stage NAME'

# ---- check, explain ----

expect 0 check "$staged"
has out '^stage pre, 1 of 3: staged .*: 20 steps of 16'
has out '^stage joint, 3 of 3: staged .*: 10 steps of 20'
expect 0 check "$staged" --stage fine
has out '^stage fine'
hasnt out '^stage pre'
if have_python; then
    expect 0 check "$staged" --json
    python3 -c "
import json
d = json.load(open('$T/out'))
assert [s['stage'] for s in d['stages']] == ['pre', 'fine', 'joint']
assert d['stage'] == 'joint' and d['parameters'] == d['stages'][2]['parameters'] == 4864" ||
        fail 'check --json'
fi
expect 0 topo "$staged" --stage fine --set stage.fine.cluster.workers_per_group=2 --oversubscribe
has out 'worker0\.1'
expect 0 topo "$staged" --set stage.fine.cluster.workers_per_group=2 --oversubscribe
hasnt out 'worker0\.1'
expect 0 explain "$staged" updater.lr --stage fine
has out 'updater\.lr = 0\.01'
has out 'staged\.ini:[0-9]+ \(\[stage\]\)'
has out 'instead of +0\.05, '
# A --set for a stage overrides one for all stages, which overrides the stage.
expect 0 explain "$staged" updater.lr --stage fine --set updater.lr=3
has out 'updater\.lr = 3'
expect 0 explain "$staged" updater.lr --stage fine --set stage.fine.updater.lr=4 --set updater.lr=3
has out 'updater\.lr = 4'
expect 0 explain "$staged" updater.lr --stage pre --set stage.fine.updater.lr=4
has out 'updater\.lr = 0\.002'

# ---- Missing data ----

sed 's/^format = synthetic/format = idx\npaths = nowhere\nlabels = nowhere\nfallback = synthetic/
    /^classes/d; /^records/d; /^height/d; /^width/d' "$staged" >"$T/fallen.ini"
cat >>"$T/fallen.ini" <<'END'
[fallback]
stage.pre.steps = 3
stage.fine.steps = 2
stage.joint.steps = 1
stage.joint.epochs = 1
data.train.records = 40
layer.dec.outputs = 784
layer.top.outputs = 10
layer.back.outputs = 784
END
expect 2 run "$T/fallen.ini" --out "$T/wrong"
has err 'stage joint: .*epochs = 1: conflicts with steps'
sed -i '/^stage.joint.epochs/d; s/^epochs = 1/steps = 10/' "$T/fallen.ini"
expect 0 run "$T/fallen.ini" -v --out "$T/fallen" --name fallen --steps 4
has out 'stages +pre \(3 steps\), fine \(2 steps\), joint \(1 steps\)'
has out 'fallback] sets .*job\.steps = 3'
expect 0 resume fallen --steps 6
has out 'step 6 of 6'

# ---- Errors ----

# wrong PATTERN ARGUMENT...: exit 2, and nothing is created.
wrong() {
    pattern=$1
    shift
    expect 2 run "$staged" --out "$T/wrong" "$@"
    has err "$pattern"
    [ ! -e "$T/wrong" ] || fail 'the folder was made'
}
wrong 'stage fine: .*steps = 0: must be 1 or more' --set stage.fine.steps=0
wrong "'stage\.fin\.steps': unknown stage" --set stage.fin.steps=3
has err "did you mean 'fine'"
wrong 'job: steps = 4: a recipe with stages sets this key in each .stage NAME.' --set job.steps=4
wrong 'stage joint: .*epochs = 1: conflicts with steps' --set stage.joint.steps=4 \
    --set stage.joint.epochs=1
wrong "stage fine: unknown key 'stepz'" --set stage.fine.stepz=4
wrong 'stage fine: seed cannot change between the stages of a run' --set stage.fine.seed=4
wrong "unknown stage 'fun'" --set layer.top.stages=fun
wrong 'stage joint: .*freeze = none: ' --set stage.joint.freeze=none
wrong 'stage joint: layer\.enc\.outputs = 0: must be' --set stage.joint.layer.enc.outputs=0
wrong 'the previous stage: enc\.weight is F32 12x192 in the file, but F32 13x192 in this net' \
    --set stage.fine.layer.enc.outputs=13
wrong "the previous stage has no tensor 'enc\.wieght'" \
    --set 'stage.joint.init_from=previous, enc.wieght -> back.weight'
wrong 'enc\.weight is F32 12x192 in the file, but back\.weight is F32 192x12' \
    --set 'stage.joint.init_from=previous, enc.weight -> back.weight'
wrong "the net has no parameter 'bak\.weight'" \
    --set 'stage.joint.init_from=previous, enc.weight^T -> bak.weight'
wrong 'there is no previous stage' --set 'stage.pre.init_from=previous'
expect 3 run "$staged" --out "$T/wrong" --set 'stage.joint.init_from=none.safetensors'
has err 'none\.safetensors'
expect 2 check "$staged" --stage nothing
has err "unknown stage 'nothing'; stages: pre, fine, joint"
sed '/^steps = 15/d; s/^\[stage joint\]/[stage]/' "$staged" >"$T/bad.ini"
expect 2 check "$T/bad.ini"
has err 'bad\.ini:[0-9]+:2: stage fine: steps is missing'
has err 'bad\.ini:[0-9]+:2: \[stage\] requires a name'
exit 0
