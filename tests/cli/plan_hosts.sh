# run --plan --hosts: plans for the hosts of a job, whose links it measures, and starts the job with the
# plan on all of them. Both hosts are this machine.
# ctest-timeout: 120
. "$(dirname "$0")/lib.sh"
unset RANK WORLD_SIZE SSH_CONNECTION SLURM_STEP_NUM_TASKS OMPI_COMM_WORLD_SIZE PMI_SIZE PMIX_RANK
export OMP_NUM_THREADS=1
cd "$T" || exit 1
cat >"$T/ssh" <<'END'
#!/bin/sh
echo "$*" >>"$T/calls"
shift
exec "$@"
END
chmod +x "$T/ssh"
export T SINGA_SSH="$T/ssh" SINGA_REMOTE="$SW"
two='--hosts localhost,127.0.0.1 --share-machine'

"$SW" run "$tiny" $two --steps 1 --quiet >"$T/out" 2>"$T/err" </dev/null
file_has err 'built without OpenSSL' && two="$two --set cluster.network=trusted"
rm -f "$T/calls"

# Every host is started twice, to be measured and to train; all have workers, and the same keys.
expect 0 run "$tiny" --plan $two --steps 2 --name planned
has out '^plan +[a-z]+, 1 group of [0-9]+ workers on 2 of 2 hosts'
has out '^ +link of each host: [0-9.]+ [kMG]B/s \(measured, slowest link: .* to .*\)'
has out '^hosts        2 hosts by --hosts and ssh'
[ "$(wc -l <"$T/calls")" = 2 ] || fail "ssh was called: $(cat "$T/calls")"
"$SW" history sql "SELECT json FROM plans" >"$T/plan"
have_python && { python3 - "$T/plan" <<'END' || fail 'the plan of a job on two hosts'
import json, sys
d = json.loads(open(sys.argv[1]).read().split('\n')[-2].strip())
m = d["machine"]
assert m["hosts"] == 2 and len({x["host"] for x in m["devices"]}) == 2, m
assert d["workers_per_group"] * d["worker_groups"] % 2 == 0, d
assert any("slowest link" in l["bytes_per_s"]["source"] for l in m["links"]), m["links"]
END
}
"$SW" history sql "SELECT count(*) || ' ' || min(predicted_ms > 0) FROM plans" >"$T/count"
has count '^1 1$'

# Counts of the recipe are those of each host. Every framework; a server group of each host for hogwild.
expect 0 run "$tiny" --plan $two --steps 2 --set cluster.workers_per_group=1
has out '1 group of 2 workers on 2 of 2 hosts'
for framework in downpour hogwild; do
    expect 0 run "$tiny" --plan $two --steps 2 --framework $framework
    has out "^plan +$framework, .* on 2 of 2 hosts"
done
expect 0 run "$tiny" --plan $two --steps 2 --device sim --set cluster.copy=none
has out 'on 2 of 2 hosts'

# By a key of the recipe, and hosts of the recipe.
{
    printf '[cluster]\nhosts = localhost, 127.0.0.1\n'
    case $two in *trusted*) printf 'network = trusted\n' ;; esac
    cat "$tiny"
} >"$T/both.ini"
expect 0 run both.ini --set job.partition=auto --share-machine --steps 2
has out 'on 2 of 2 hosts'

# What cannot be: layers that are split between hosts, a batch that is too small, hosts that others start.
expect 2 run "$tiny" --plan $two --set layer.fc1.partition=1
has err 'layer fc1: partition = 1: layers cannot be split on several hosts'
expect 2 run "$tiny" --plan $two --set job.batch=1
has err 'no plan has workers on all of the 2 hosts'
RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29999 "$SW" run "$tiny" --plan --share-machine \
    --set cluster.network=trusted >"$T/out" 2>"$T/err" </dev/null && fail 'hosts of torchrun are planned for'
has err 'only if --hosts starts them'
exit 0
