# ctest-timeout: 120
# comm = auto on several hosts: where a choice depends on rates they are measured, once for all stages,
# and a resumed run keeps its choices. While hosts meet, it is told who is awaited.
. "$(dirname "$0")/lib.sh"
unset RANK WORLD_SIZE SSH_CONNECTION SLURM_STEP_NUM_TASKS OMPI_COMM_WORLD_SIZE PMI_SIZE PMIX_RANK
cd "$T" || exit 1
printf '#!/bin/sh\nshift\nexec "$@"\n' >"$T/ssh"
chmod +x "$T/ssh"
export SINGA_SSH="$T/ssh" SINGA_REMOTE="$SW"
two='--hosts localhost,127.0.0.1 --share-machine'
sed 's/^outputs = 32/outputs = 512/; s/^steps = .*/steps = 4/; s/^eval_every = .*/eval_every = 0/' "$tiny" >"$T/large.ini"

"$SW" run large.ini $two --steps 1 --quiet >"$T/out" 2>"$T/err" </dev/null
file_has err 'built without OpenSSL' && two="$two --set cluster.network=trusted"

expect 0 run large.ini $two -v --set cluster.comm=auto --name measured
has out '^gradients +fc1: (ps|sfb), predicted to take'
has out '^ +chosen for [0-9.]+ [kMG]B/s between hosts and [0-9.e+]+ GFLOP/s on each \(measured, the slowest link from [a-z0-9.]+ to'
"$SW" history sql "SELECT count(*) || ' ' || (min(bytes) > 0) FROM link_traffic WHERE kind = 'net_test'" >"$T/rates"
has rates '^2 1$'
expect 0 resume measured $two -v --steps 6
has out '^gradients +fc1: sfb, from the checkpoint|^gradients +ps \(whole gradients\) for conv1'
hasnt out 'measured, the slowest|predicted'

# The limit of what a host sends is also one of what it measures.
expect 0 run large.ini $two -v --set cluster.comm=auto --set cluster.bandwidth=80Mbit
has out '^ +chosen for ([0-9.]+ [kM]B/s|10\.0 MB/s \(cluster\.bandwidth\) of [0-9.]+ MB/s) between hosts'
expect 2 check large.ini $two --set cluster.bandwidth=60
has err 'bandwidth = 60: must be from 1000 to'

# Without a layer that has large factors nothing is measured.
expect 0 run "$tiny" $two -v --set cluster.comm=auto --set 'job.batch=512' --steps 1
has out '^ +chosen for 118\.0 MB/s between hosts and 100 GFLOP/s on each \(assumed: no rate changes a choice\)'

# Stages connect the hosts once more; they are not measured again.
{
    sed '/^steps = /d' large.ini
    printf '[stage one]\nsteps = 2\n[stage two]\nsteps = 2\n'
} >"$T/stages.ini"
expect 0 run stages.ini $two -v --set cluster.comm=auto
has out 'measured, the slowest link'

# A host that comes late.
have_python || exit 0
free=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
trusted='--share-machine --set cluster.network=trusted --steps 1'
(RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$free exec "$SW" run "$tiny" $trusted) \
    >"$T/out" 2>"$T/err" </dev/null &
first=$!
children="$children $first"
until_true 20 file_has err 'warning: network: waiting for host 1 since [0-9]+ s, for 29[0-9] s more'
(RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$free exec "$SW" run "$tiny" $trusted --out "$T/other") \
    >"$T/out.1" 2>&1 </dev/null || fail 'the late host has failed'
wait "$first" || fail 'the host that waited has failed'
"$SW" history sql "SELECT * FROM events" >"$T/events"
has events 'waiting for host 1 since'
