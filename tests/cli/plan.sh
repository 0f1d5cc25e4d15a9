# plan: plans for this machine and imagined ones, what a recipe keeps, refusals, --simulate, and runs
# that follow a plan.
# ctest-timeout: 300
. "$(dirname "$0")/lib.sh"
export OMP_NUM_THREADS=1
recipes=$SW_SOURCE_DIR/recipes

# plan_json CHECK ARGUMENT...: plans with --json and checks the object `d` in Python; `L` are its layers.
plan_json() {
    check=$1
    shift
    expect 0 plan --json "$@"
    [ "$(wc -l <"$T/out")" = 1 ] || fail 'plan --json is not one object on one line'
    have_python || return 0
    python3 -c "
import json, sys
d = json.load(open(sys.argv[1]))
L = {l['name']: l for l in d['layers']}
$check" "$T/out" || fail "plan --json $*: $check"
}

refused() { # CODE PATTERN ARGUMENT...
    code=$1 pattern=$2
    shift 2
    expect "$code" plan "$@"
    has err "$pattern"
}

# AlexNet over 1 Gbit/s: convolutions by rows, fc6 and fc7 split or by factors. Nothing is written.
four='--hosts 4 --gpus-per-host 1 --net 1Gbit --gflops 1000'
plan_json "
assert all(L['conv%d' % i]['partition'] == '0' for i in range(1, 6)), L
assert all(L[n]['partition'] != '0' or L[n]['comm'] in ('sfb', 'adam') for n in ('fc6', 'fc7')), L
assert d['worker_groups'] == 1 and d['workers_per_group'] == 4, d
assert d['predicted_ms'] < d['one_worker_ms'] and d['speed_up'] > 1, d
assert d['exact'] is True" \
    "$recipes/alexnet.ini" $four --set job.batch=256 --set cluster.worker_groups=1 \
    --set cluster.workers_per_group=4
[ -e "$SINGA_DB" ] && fail 'plan created the history'

# The parts of a step and of the machine.
plan_json "
assert [a['slower_ms'] for a in d['alternatives']] == sorted(a['slower_ms'] for a in d['alternatives'])
assert d['alternatives'] and all(a['what'] and not a['what'].startswith(',') for a in d['alternatives'])
parts = sum(d[k] for k in ('compute_ms', 'params_ms', 'activations_ms', 'rest_ms', 'wait_ms'))
assert abs(parts - d['predicted_ms']) < 1e-6 * d['predicted_ms'], (parts, d['predicted_ms'])
devices = d['machine']['devices']
assert len(devices) == 2 and len(d['memory_bytes']) == d['worker_groups'] * d['workers_per_group']
assert all(f['flops_per_s'] == {'value': 5e12, 'source': 'given by --gflops'} for f in devices), devices
assert any('--pcie' in l['bytes_per_s']['source'] for l in d['machine']['links']), d['machine']
assert all(0 <= l['busy'] <= 1 for l in d['machine']['links']), d['machine']['links']
assert any(l['busy'] > 0 for l in d['machine']['links']), d['machine']['links']
assert all(l['wait_ms'] >= 0 for l in d['layers']) and any(l['wait_ms'] > 0 for l in d['layers'])
assert any(l['runner_up'] for l in d['layers'])" \
    "$tiny" --gpus 2 --pcie 12GB/s --gflops 5000 --memory-rate 500GB/s --gpu-memory 8GB \
    --set cluster.workers_per_group=2

# Every key of the output is in recipes/planning-json.md, and no other.
if have_python; then
    expect 0 plan --json "$tiny" --gpus 2 --gflops 5000 --set cluster.workers_per_group=2
    python3 - "$T/out" "$recipes/planning-json.md" <<'END' || fail 'recipes/planning-json.md and plan --json have different keys'
import json, re, sys
found, told, row = {}, {}, ''
def walk(where, v):
    if isinstance(v, list):
        for x in v:
            walk(where + '[]', x)
    elif isinstance(v, dict):
        where = 'a figure' if set(v) == {'value', 'source'} else where or 'the object'
        found.setdefault(where, set()).update(v)
        for k, x in v.items():
            walk(k if where == 'the object' else where + '.' + k, x)
plan = json.load(open(sys.argv[1]))
walk('', plan)
for line in open(sys.argv[2]).read().split('| in | keys |')[1].split('\n\n')[0].splitlines()[2:]:
    first, keys = line.strip('| ').split('|', 1) if not line.startswith('| |') else ('', line[3:])
    row = first.strip(' \`') or row
    told.setdefault(row, set()).update(re.findall(r'\`([a-z_]+)\`', keys))
told = {k: v for k, v in told.items() if plan.get(k, v) is not None}  # of an object that is null here
wrong = {k: found.get(k, set()) ^ told.get(k, set()) for k in found.keys() | told.keys()}
wrong = {k: v for k, v in wrong.items() if v}
sys.exit(str(wrong) if wrong else 0)
END
fi

# For people.
expect 0 plan "$recipes/alexnet.ini" --gpus 2 --pcie 12GB/s --gflops 5000
has out '^machine '
has out '5.* Tflop/s \(given by --gflops\)'
has out '^plan +[a-z]+, [0-9]+ groups? of [0-9]+ workers?'
has out '^step +[0-9.]+ ms predicted'
has out '^memory +worker'
has out '^search +exact'
has out '^fc6 +(0|1|1in|none)'
has out '^\[cluster\]'
hasnt out '^relu1 '
expect 0 plan -v "$recipes/alexnet.ini" --gpus 2 --pcie 12GB/s --gflops 5000
has out '^relu1 '

# A plan fits where its job does (check with copy = none: 1.3 or 1.4 GB): passes use memory again, and GPUs
# have the state of the updater.
expect 0 plan "$recipes/alexnet-owt.ini" --gpus 1 --gpu-memory 1.5GB
has out '^memory +worker 0 +1\.[2-4] GB, of 1\.5 GB'
refused 3 'no plan fits' "$recipes/alexnet-owt.ini" --gpus 1 --gpu-memory 800MB

# What the recipe sets is kept.
plan_json "assert L['fc1']['partition'] == '1' and L['fc2']['partition'] == 'none', L
assert L['fc2']['location'] == 1 and d['workers_per_group'] == 2, d" \
    "$tiny" --gpus 4 --set cluster.workers_per_group=2 --set layer.fc1.partition=1 \
    --set layer.fc2.location=1
plan_json "assert L['fc1']['comm'] == 'sfb' and d['framework'] == 'sandblaster', d" \
    "$tiny" --gpus 4 --set cluster.workers_per_group=4 --set layer.fc1.comm=sfb \
    --set layer.fc1.partition=0 --framework sandblaster
plan_json "assert all(l['partition'] == '0' for l in d['layers']), d
assert d['workers_per_group'] == 4 and not any(l['comm'] in ('sfb', 'adam') for l in d['layers'])" \
    "$tiny" --gpus 4 --set cluster.workers_per_group=4 --set job.partition=0 --set cluster.comm=ps

# Each worker on this machine needs a core, as in a run.
plan_json "assert 1 <= d['worker_groups'] * d['workers_per_group'] <= $(env -u OMP_NUM_THREADS nproc), d" \
    "$tiny" --device sim:gpus=64
plan_json "assert d['workers_per_group'] == 8, d" "$tiny" --device sim:gpus=8 --oversubscribe \
    --set cluster.workers_per_group=8

# A slow link changes the plan.
plan_json "assert d['workers_per_group'] == 1, d" "$tiny" --gpus 4 --pcie 1MB/s --gflops 5000

# Other machines, and lists of figures.
plan_json "assert len(d['machine']['devices']) == d['workers_per_group'] * d['worker_groups'] <= 24, d" \
    "$tiny" --from 'numa:4 core:6 pu:2'
plan_json "assert len(d['machine']['devices']) == 3 and d['machine']['hosts'] == 3, d['machine']
assert any('--what-if' in l['bytes_per_s']['source'] for l in d['machine']['links']), d['machine']" \
    "$tiny" --what-if 'hosts=3, gpus-per-host=1, net=10Gbit'

# Servers on hosts of their own, for figures of the papers: a run cannot follow such a plan.
papers='--hosts 4 --from numa:1\ core:4\ pu:1 --server-hosts 7 --net 1Gbit'
eval "set -- $papers"
plan_json "
assert d['machine']['server_hosts'] == 7 and d['machine']['hosts'] == 4 and d['servers'] == 7, d
assert any(l['name'] == '7 server hosts' and l['bytes_per_s']['value'] == 875e6
           for l in d['machine']['links']), d['machine']
assert L['fc1']['partition'] == '1' and d['workers_per_group'] == 4, d
assert d['ini'] is None and d['sets'] == [], d" \
    "$tiny" "$@" --set cluster.workers_per_group=4 --set layer.fc1.partition=1
expect 0 plan "$tiny" "$@"
has out 'no run can do this: it has no hosts for servers alone'
hasnt out 'lines for the recipe'
expect 0 plan "$tiny" "$@" --simulate 1..2
has out '^Servers have 7 hosts more: no run can do this'
refused 2 'this machine' "$tiny" --measure --server-hosts 2

# The lines of a plan, appended to the recipe, train.
plan_json "open('$T/lines.ini', 'w').write('include = tiny.ini\n' + d['ini'])" \
    "$tiny" --gpus 2 --set layer.fc1.partition=1 --set cluster.workers_per_group=2
if have_python; then
    expect 0 check "$T/lines.ini" --device sim:gpus=2 --oversubscribe
fi

# A figure that would change nothing is refused, with what would make it apply.
refused 2 '^singa-ws: --net needs --hosts: one host' "$tiny" --gpus 2 --net 1Gbit
expect 0 plan "$tiny" --hosts 1 --gpus-per-host 1 --net 1Gbit
refused 2 '^singa-ws: --pcie needs --gpus or' "$tiny" --hosts 2 --pcie 12GB/s
refused 2 '--what-if, line 1, column 10: gpu-memory needs gpus or' "$tiny" --what-if 'hosts=2, gpu-memory=8GB'
refused 2 '--gpus contradicts --device' "$tiny" --gpus 2 --device cpu
refused 2 'gpus=4 and gpus-per-host=2 need hosts=2' "$tiny" --gpus 4 --gpus-per-host 2

# Hosts like this machine have its measured figures, which say when.
expect 0 plan "$tiny"
plan_json "assert all('measured 2' in f['flops_per_s']['source'] and 'this machine' in f['flops_per_s']['source']
           for f in d['machine']['devices']), d['machine']" "$tiny" --hosts 2
plan_json "m = d['machine']
assert 'measured' in m['cores']['flops_per_s']['source'], m
assert all(f['flops_per_s']['source'] == 'assumed' for f in m['devices']), m" "$tiny" --gpus 2

# Impossible wishes and figures are refused, with the reason and what is possible.
refused 2 'nearest plan is 1 group of [0-9]+ workers?, [0-9.]+ ms' "$tiny" --set cluster.workers_per_group=1000
refused 2 'layer fc1: location = 7 needs 8 workers in a group' "$tiny" --gpus 2 --set layer.fc1.location=7
expect 0 plan "$tiny" --set layer.fc1.location=0
for bad in nan 0 -1 1e99 fast; do
    for option in net pcie gflops memory-rate; do
        refused 2 "--$option.*$bad" "$tiny" --gpus 2 "--$option=$bad"
    done
done
refused 2 'line 1, column 9.*net' "$tiny" --what-if 'gpus=4, net=0'
refused 2 'line 1, column 1' "$tiny" --what-if 'gps=4'
refused 2 'workers' "$tiny" --gpus 2 --set cluster.workers_per_group=4
refused 3 'memory' "$tiny" --gpus 2 --gpu-memory 100kB
refused 2 'lrn|columns|softmax|split' "$tiny" --gpus 2 --set cluster.workers_per_group=2 \
    --set layer.loss.partition=1
refused 2 'layer fc1: .*hosts' "$tiny" $four --set cluster.workers_per_group=4 \
    --set layer.fc1.partition=1
refused 3 'cannot open the machine map' "$tiny" --from /nowhere.xml
refused 3 "no run|nothing" nosuchrun
refused 2 'RECIPE is missing'

# A growing number of workers.
expect 0 plan "$tiny" --hosts 1 --gpus-per-host 1 --net 1Gbit --gflops 1000 --simulate 1..8 \
    --plot "$T/curve.svg"
has out '^ *hosts +workers +batch +step ms +samples/s'
has out '^ +8 +8 +16 '
has out '^(More than [0-9]+ hosts? do(es)? not pay|All 8 hosts pay)'
has out '^[0-9]+ hosts? (is|are) fastest: speed-up'
grep -Eq 'd="M64\.00 [^"]*L942\.00 [0-9.]+" .*stroke="#0072b2"' "$T/curve.svg" ||
    fail 'the curve does not reach from the first to the last count'
for text in 'number of hosts' 'samples per second' '>8<' '>predicted<'; do
    grep -q "$text" "$T/curve.svg" || fail "the picture has no '$text'"
done
expect 0 plan --json "$tiny" --gpus 1 --pcie 12GB/s --gflops 1000 --simulate 1..6 --scale-batch
if have_python; then
    python3 - "$T/out" "$recipes/planning-json.md" <<'END' || fail 'plan --simulate --json'
import json, sys
d = json.load(open(sys.argv[1]))
p = d["points"]
assert [x["GPUs"] for x in p] == [1, 2, 4, 6] and d["unit"] == "GPUs", d
assert [x["batch"] for x in p] == [16, 32, 64, 96], d
assert abs(p[0]["speed_up"] - 1) < 1e-9 and abs(p[0]["efficiency"] - 1) < 1e-9, p[0]
assert all(0 <= x["wait_share"] < 1 and x["efficiency"] <= 1 + 1e-9 for x in p), p
page = open(sys.argv[2]).read().split("With `--simulate` the object has")[1].split("\n\n")[0]
for key in (set(d) | set(p[0])) - {"GPUs", "version"}:
    assert "`%s`" % key in page, key
END
fi
cp "$T/out" "$T/first"
# One worker is as fast as one worker, also with servers on the cores of the host.
for framework in sandblaster downpour; do
    expect 0 plan "$recipes/mnist-mlp.ini" --gpus 1 --gflops 1000 --framework $framework \
        --set cluster.copy=async --simulate 1..1
    has out '^ +1 +1 +64 .* 1\.00 +100 %'
done
# The number of workers that the recipe sets is that of the job, not of a machine that grows.
expect 0 plan "$tiny" --hosts 1 --gpus-per-host 1 --framework allreduce --simulate 1..4 \
    --set cluster.workers_per_group=2
has out '^ +4 +4 +16 '
expect 0 plan --json "$tiny" --gpus 1 --pcie 12GB/s --gflops 1000 --simulate 1..6 --scale-batch
cmp -s "$T/out" "$T/first" || fail 'two simulations differ'
expect 0 plan "$tiny" --hosts 1 --gpus-per-host 1 --net 1Gbit --gflops 1000 --simulate 1..64
has out 'The simulation ends at 16 hosts: '
expect 0 plan "$tiny" --gpus 1 --gpu-memory 600kB --simulate 1..8 --set job.batch=64
has out 'The simulation begins at [248] GPUs: no plan fits'
refused 2 'column 1' "$tiny" --simulate 0..4
refused 2 'column 4' "$tiny" --simulate 2..2000
refused 2 'column 4' "$tiny" --simulate 4..2
refused 2 'expected A..B' "$tiny" --simulate 4
refused 2 'needs --simulate' "$tiny" --plot "$T/a.svg"

# A run follows its plan, and so does its resume.
[ "$(env -u OMP_NUM_THREADS nproc)" -ge 2 ] || skip 'the rest needs 2 cores'
keep='--set cluster.workers_per_group=2 --set layer.fc1.partition=1'
expect 0 run "$tiny" --plan $keep --steps 4 --out "$T/a" --name planned
has out '^plan +[a-z]+, 1 group of 2 workers'
has out '^plan +[0-9.]+ [mu]?s per step predicted, [0-9.]+ [mu]?s measured$'
[ "$(sql "SELECT workers FROM runs WHERE name = 'planned'")" = 2 ] || fail 'the run has not 2 workers'
[ "$(sql "SELECT count(*) FROM plans WHERE predicted_ms > 0 AND measured_ms > 0")" = 1 ] ||
    fail 'no plan in the history'
expect 0 history show planned
has out '^PLAN +PREDICTED +MEASURED$'
has out '^step +[0-9.]+ [mu]?s +[0-9.]+ [mu]?s$'
sql "SELECT overrides FROM runs WHERE name = 'planned'" >"$T/overrides"
expect 0 resume planned --steps 6
[ "$(sql "SELECT workers FROM runs WHERE name = 'planned'")" = 2 ] || fail 'the resume has not 2 workers'
sql "SELECT overrides FROM runs WHERE name = 'planned'" | cmp -s - "$T/overrides" ||
    fail 'a resume has other settings'

# On another machine it plans again, once.
if have_python; then
    python3 -c "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); \
        c.execute(\"UPDATE runs SET host = 'elsewhere' WHERE name = 'planned'\"); c.commit()" "$SINGA_DB"
    expect 0 resume planned --steps 8
    has err 'run 1 .* followed a plan for elsewhere; it follows a new one for this machine'
    [ "$(sql "SELECT workers FROM runs WHERE name = 'planned'")" = 2 ] || fail 'the new plan has not 2 workers'
    [ "$(sql "SELECT count(*) FROM plans")" = 1 ] || fail 'the new plan did not replace the old one'
    expect 0 resume planned --steps 9
    hasnt err 'followed a plan'
fi

# The same by a key of the recipe.
expect 0 run "$tiny" --set job.partition=auto $keep --steps 2 --out "$T/b" --name auto
[ "$(sql "SELECT count(*) FROM plans")" = 2 ] || fail 'partition = auto has no plan'
expect 0 run "$tiny" --set cluster.framework=auto $keep --steps 2 --out "$T/d" --name frame --quiet
[ "$(sql "SELECT count(*) FROM plans")" = 3 ] || fail 'framework = auto has no plan'
expect 0 run "$tiny" --set cluster.workers_per_group=auto --steps 2 --out "$T/e" --name count --quiet
[ "$(sql "SELECT count(*) FROM plans")" = 4 ] || fail 'workers_per_group = auto has no plan'
expect 2 run "$tiny" --set cluster.workers_per_group=many
has err 'must be a whole number, or auto'
expect 0 run "$tiny" --steps 2 --out "$T/c" --name plain --quiet
[ "$(sql "SELECT count(*) FROM plans")" = 4 ] || fail 'a run without a plan has one'
expect 0 check "$tiny" --set job.partition=auto

# Once this machine is measured, check predicts a step.
SINGA_REGISTRY=$T/other XDG_STATE_HOME=$T/none expect 0 check "$tiny"
hasnt out '^step '
expect 0 check "$tiny"
has out '^step .* predicted$'
expect 0 check "$tiny" --json $keep
grep -qE '"predicted_ms":[0-9]' "$T/out" || fail 'check --json predicts nothing'

# What a run has measured.
plan_json "assert 'run' in d['times'], d['times']" plain --what-if 'hosts=2, net=1Gbit'
plan_json "assert d['times'] is None, d['times']" plain --what-if 'gpus=2, pcie=12GB/s'
has err 'warning: run [0-9]+ measured its layers on cores, and the plan is for devices'
plan_json "assert d['times'] is None, d['times']" plain --gflops 100
plan_json "assert d['times'] is None, d['times']" planned
has err 'warning: run 1: its layers were not all split by rows'
plan_json "assert 'measured' in d['times'], d['times']" "$tiny" --measure
expect 0 plan "$tiny"
has out '^times +of layers: measured'
plan_json "assert 'measured' in d['times'], d['times']" "$tiny" --hosts 2
refused 2 'this machine' "$tiny" --measure --gpus 2
refused 2 'contradict' "$tiny" --measure --gflops 100
refused 2 'needs a recipe' plain --measure
expect 0 plan "$tiny" --measure --set job.batch=1
has out '^times +of layers: measured'

# A plan that does not fit gets memory = fit, with the figures of check.
fit="$recipes/cifar10-full.ini --gpus 1 --gflops 5000 --set job.batch=500"
plan_json "
assert 'job.memory=fit:115000000' in d['sets'], d['sets']
assert d['fit']['budget_bytes'] == 115000000 and d['fit']['recomputed'] + d['fit']['offloaded'] > 0
assert d['fit']['ms'] > 0 and d['memory_bytes'][0] <= 115000000, d" $fit --gpu-memory 115MB
plan_json "
assert d['fit'] is None and 115000000 < d['memory_bytes'][0] <= 150000000, d
assert not any('memory' in s for s in d['sets'])" $fit --gpu-memory 150MB
expect 0 plan $fit --gpu-memory 115MB
has out '^ +memory = fit:115.0 MB: [0-9]+ recomputed in backward, [0-9]+ offloaded, '
refused 3 'even with memory = fit: no plan fits the memory' $fit --gpu-memory 64MB
refused 3 'no plan fits' $fit --gpu-memory 115MB --set job.memory=default
hasnt err 'even with memory = fit'

# A plan needs no values, such as those of a run that is still to come.
expect 0 plan "$recipes/rbm2.ini" --gpus 2 --gflops 5000

# Steps of a recurrent layer live where the recipe says.
plan_json "
assert d['workers_per_group'] == 2, d
assert {l['location'] for n, l in L.items() if n.startswith('gru1@')} == {0}, L
assert {l['location'] for n, l in L.items() if n.startswith('gru2@')} == {1}, L" \
    "$recipes/char-rnn-2.ini" --gpus 4 --gflops 5000

# Threads of workers on cores, servers, and counts that are not searched.
plan_json "assert d['threads_per_worker'] == 3, d" "$tiny" --from 'numa:1 core:8 pu:1' \
    --set cluster.threads_per_worker=3
plan_json "
assert d['servers'] == 2 and d['threads_per_worker'] is None, d
assert d['skipped_counts'] > 0 and d['exact'], d" "$tiny" --gpus 24 --gflops 5000 \
    --set cluster.servers_per_group=2
# Groups of devices exchange factors where a bound limits what they store, and such a plan trains.
ssp='--framework downpour --set cluster.staleness=1 --set cluster.worker_groups=2
    --set cluster.workers_per_group=1'
# shellcheck disable=SC2086
plan_json "assert L['fc1']['comm'] == 'sfb' and d['staleness'] == 1, d
open('$T/ssp.ini', 'w').write('include = tiny.ini\n' + d['ini'])" \
    "$tiny" --gpus 2 --pcie 1MB/s --gflops 5000 $ssp
if have_python; then
    here='--device sim:gpus=2 --oversubscribe'
    # shellcheck disable=SC2086
    expect 0 check "$T/ssp.ini" $ssp $here
    has out '^fc1 +sfb '
    # shellcheck disable=SC2086
    expect 0 run "$T/ssp.ini" --no-ui --name planned-ssp --steps 3 $ssp $here
fi
# shellcheck disable=SC2086
plan_json "assert not any(l['comm'] == 'sfb' for l in d['layers']), d" \
    "$tiny" --gpus 2 --pcie 1MB/s --gflops 5000 $ssp --set cluster.warmup_steps=2
refused 2 'fc1 cannot exchange its gradients by comm = sfb: without a staleness bound' \
    "$tiny" --gpus 2 --framework downpour --set cluster.worker_groups=2 --set layer.fc1.comm=sfb
exit 0
