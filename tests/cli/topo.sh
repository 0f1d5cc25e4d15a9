# topo: this machine, described machines, and the placement of a recipe.
. "$(dirname "$0")/lib.sh"

# Without a recipe: this machine and the placement of the default [cluster].
expect 0 topo
has out '^machine '
has out '^  NUMA node [0-9]+: .* core'
has out '^placement +worker0\.0 +cpu, node [0-9]+, cores [0-9,-]+$'
has out 'CUDA'
[ -e "$SINGA_DB" ] && fail 'topo created the history'
[ -e "$XDG_STATE_HOME" ] && fail 'topo created the state directory'

# topo opens no data, so missing data are no error.
sed 's/^format = synthetic/format = idx\npaths = nowhere-images\nlabels = nowhere-labels/
     /^classes\|^records\|^channels\|^height\|^width/d' "$tiny" >"$T/no-data.ini"
expect 3 check "$T/no-data.ini"
expect 0 topo "$T/no-data.ini"

# A described machine. All options about placement apply, and errors of the recipe are reported.
four='numa:4 core:6 pu:2'
expect 0 topo --from "$four" "$tiny" --framework sandblaster --set cluster.workers_per_group=4 \
    --set cluster.servers_per_group=2
has out '^framework +sandblaster .4 workers share each batch; 2 servers on spare cores.$'
has out 'worker0\.3 +cpu, node 3, cores 18-23$'
has out 'server0\.1 +cpu'
expect 0 topo --from "$four" "$tiny" --device sim:gpus=3
has out 'worker0\.2 +sim:2,'
expect 0 topo --from "$four" -v
has out 'worker0\.3 +cpu, node 3, cores 18-23, 6 threads: all 6 cores of NUMA node 3'
expect 2 topo --from "$four" "$tiny" --set cluster.wokers_per_group=4
has err 'did you mean .workers_per_group.'
expect 2 topo --from "$four" "$tiny" --set cluster.worker_groups=2
has err 'allreduce has one worker group; for several use downpour, hogwild or custom'
expect 0 topo --from "$four" "$tiny" --framework downpour --set cluster.workers_per_group=1
has out 'worker1\.0'

# Invalid machines, and options that need a recipe.
expect 3 topo --from /nowhere.xml
has err 'singa-ws: cannot open the machine map /nowhere.xml'
expect 3 topo --from 'numa:four'
for vain in --set=job.batch=1 --device=cpu --framework=allreduce --oversubscribe; do
    expect 2 topo $vain
    has err "needs a RECIPE"
done
expect 2 topo "$tiny" "$tiny"

# refused PATTERN ARGUMENT...: exit 2 with that reason; the suggested options work instead.
refused() {
    pattern=$1
    shift
    expect 2 topo "$@"
    has err "$pattern"
    # Skip the command line that is quoted above a caret.
    sets=$(grep -E '^ *hint: |^singa-ws: ' "$T/err" |
        grep -oE -- '--(set [a-z_.]+=[0-9]+|framework [a-z]+|device [a-z0-9:=,]+)')
    [ -n "$sets" ] || fail "no suggestion for: $*"
    # shellcheck disable=SC2086
    expect 0 topo "$@" $sets
}
refused '25 workers need a core each, but 24 may be used' --from "$four" "$tiny" \
    --set job.batch=32 --set job.eval_batch=32 --set cluster.workers_per_group=25
refused '17 workers cannot share a batch of 16 rows: use at most 16' --from "$four" "$tiny" \
    --set cluster.workers_per_group=17
refused '20 workers cannot share a batch of 16 rows' --from 'numa:2 core:4 pu:1' "$tiny" \
    --set cluster.workers_per_group=20 --set cluster.servers_per_group=20
refused '3 workers need a device each, but there are 2' --from "$four" "$tiny" \
    --device sim:gpus=2 --set cluster.workers_per_group=3
refused 'workers_per_group = 0: must be from 1' --from "$four" "$tiny" \
    --set cluster.workers_per_group=0
refused 'servers_per_group = 0: must be from 1' --from "$four" "$tiny" \
    --set cluster.servers_per_group=0
# A missing device is exit 3, not a recipe error.
expect 3 topo --from "$four" "$tiny" --device cuda
has err 'no CUDA device; use --device cpu'
expect 0 topo --from "$four" "$tiny" --set job.batch=32 --set job.eval_batch=32 \
    --set cluster.workers_per_group=25 --oversubscribe
has out 'worker0\.24 +cpu, node 0, cores 0 .shared: oversubscribed.$'
# `run` prints the same messages.
expect 2 run "$tiny" --set cluster.workers_per_group=17 --oversubscribe
has err 'hint: --set cluster.workers_per_group=16$'
expect 2 run "$tiny" --device tpu
has err 'unknown device'

# JSON: one object on one line.
have_python || exit 0
check_json() {
    [ "$(wc -l <"$T/out")" = 1 ] || fail 'topo --json is not one object on one line'
    python3 -c "
import json, sys
d = json.load(open(sys.argv[1]))
m, p = d['machine'], d['placement']
workers = [u for u in p if u['unit'].startswith('worker')]
cores = [c for u in workers for c in u['cores']]
assert all(u['reason'] and u['cores'] and 'numa' in u and 'device' in u for u in p), p
$1" "$T/out" || fail "topo --json: $1"
}
expect 0 topo --json
check_json "assert m['here'] and len(m['cores']) == m['core_count'] and m['nodes']"
expect 0 topo --json --from "$four" "$tiny" --framework sandblaster \
    --set cluster.workers_per_group=16 --set cluster.servers_per_group=4
check_json "
units = [u for u in p if '.' in u['unit']]
assert len(workers) == 16 and len(units) == 20 and len(set(cores)) == len(cores)
home = {c['core']: c['numa'] for c in m['cores']}
assert all({home[c] for c in u['cores']} == {u['numa']} for u in units)
assert d['framework'] == 'sandblaster' and d['name'] == 'tiny'"

data=$SW_SOURCE_DIR/../shared/data/topologies
[ -r "$data/nvidiaDGX2.xml" ] || skip "$data is not there"
expect 0 topo --from "$data/nvidiaDGX2.xml"
has out 'GPU 15 0000:e7:00.0: Tesla V100'
has out '^ +15( +NV150){15} +X$'
expect 0 topo --from "$data/24em64t-2n6c2t-pci.xml"
has out '^ +1 +SYS +X +PHB$'
has out 'PHB +the same host bridge'
has out 'network 0000:05:00.0: eth2 ib0 mlx4_0'
refused '16 workers need a core each, but 4 may be used' --from "$data/nvidiaDGX2.xml" "$tiny" \
    --device cuda
expect 3 topo --from "$data/24em64t-2n6c2t-pci.xml" "$tiny" --device cuda:0,3
has err 'cuda:3: there are 3 CUDA devices, the last is cuda:2; try --device cuda'
expect 0 topo --json --from "$data/nvidiaDGX2.xml" "$tiny" --device cuda --oversubscribe
check_json "
gpu = {'cuda:%d' % g['gpu']: g['numa'] for g in m['gpus']}
assert len(gpu) == 16 and len(m['gpu_links']) == 120
assert sorted(gpu) == sorted(u['device'] for u in workers)
assert all(gpu[u['device']] == u['numa'] for u in workers)"
# GPUs update their own parameters unless something prevents it.
copies() {
    want=$1
    shift
    expect 0 topo --from "$data/nvidiaDGX2.xml" "$tiny" --device cuda --oversubscribe "$@"
    has out "^copy +$want"
}
copies 'none: every GPU updates its own replica, and only gradient sums are exchanged$'
copies 'none: the GPU updates its parameters, and none is copied$' --set cluster.workers_per_group=1
copies 'async: as requested$' --set cluster.copy=async
copies 'async: servers that are not bound to workers reduce gradients$' --framework sandblaster
copies 'none: the GPU' --framework sandblaster --set cluster.workers_per_group=1
copies 'async: asynchronous groups update values on the host$' --framework downpour
copies 'async: repeat_exact reduces in one order, on the servers$' --set job.repeat_exact=yes \
    --set cluster.workers_per_group=2
copies 'async: comm = adam sends factors to servers$' --set layer.fc1.comm=adam
copies 'async: on_nan = rollback restores values through the host$' --set job.on_nan=rollback
copies 'none: every GPU' --set job.precision=fp16 --set job.grad_clip=norm:1 --set job.on_nan=skip
expect 0 topo --json --from "$data/16amd64-8n2c-cpusets.xml" "$tiny" \
    --set cluster.workers_per_group=10
check_json "assert sorted(cores) == list(range(10)) and m['hidden_hardware_threads'] == 6"

# Peer links between GPUs: stored results, or tested with --measure.
expect 0 topo "$tiny" --device sim:gpus=2 --oversubscribe
has out '^copies +sim:0 to sim:1: not verified$'
has out '^copy +async: simulated GPUs exercise the server path, unless copy = none is set$'
expect 0 topo "$tiny" --device sim:gpus=2 --oversubscribe --measure
has out '^copies +sim:0 to sim:1: directly, [0-9.]+ [kMGT]B/s, [0-9.]+ [num]s, verified$'
has out '^ +all-reduce: .*, verified$'
expect 0 topo "$tiny" --device sim:gpus=2 --oversubscribe
has out '^ +sim:1 to sim:0: directly, .* verified$'
# No measured bandwidth exceeds that of the link.
expect 0 topo "$tiny" --device sim:gpus=2,pcie=1GB/s --oversubscribe --measure
has out '^copies +sim:0 to sim:1: directly, ([0-9.]+ MB|1\.0 GB)/s, '
expect 0 topo "$tiny" --device sim:gpus=2,peer=corrupt --oversubscribe --measure
has out 'sim:0 to sim:1: through the host, .*, verified; direct: damaged: '
expect 0 topo "$tiny" --device sim:gpus=2,peer=corrupt --oversubscribe --json
has out '"direct":"damaged","verified":true'
