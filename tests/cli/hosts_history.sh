# ctest-timeout: 240
# One history for a job on several hosts, which are processes of this machine: host 0 has the run, with
# rows of all; a host that dies leaves its rows, and the reason is known; without host 0 the rows of the
# others are merged by the next command.
. "$(dirname "$0")/lib.sh"
unset RANK WORLD_SIZE SSH_CONNECTION SLURM_STEP_NUM_TASKS OMPI_COMM_WORLD_SIZE PMI_SIZE PMIX_RANK
have_python || skip 'no python3 to find a free port'
linear hosts | sed 's/^batch = .*/&\nsteps = 40/' >"$T/r.ini"
printf '[cluster]\nnetwork = trusted\n' >>"$T/r.ini"
cd "$T" || exit 1

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}
# hosts ARGUMENT...: starts the job on two hosts, as $host0 and $host1, with output in out.N and err.N.
hosts() {
    port=$(free_port)
    for rank in 0 1; do
        RANK=$rank WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
            "$SW" run r.ini --share-machine "$@" >"$T/out.$rank" 2>"$T/err.$rank" </dev/null &
        eval "host$rank=$!"
        children="$children $!"
    done
}
# code PID: its exit code as $got.
code() {
    wait "$1" 2>/dev/null
    got=$?
}
rows() {
    sql "SELECT count(*) FROM $1"
}
# more COUNT FROM: the query counts at least as many rows.
more() {
    [ "$(rows "$2")" -ge "$1" ] 2>/dev/null
}
# shows PATTERN: the dashboard of run 2.
shows() {
    "$SW" top --once --json 2 >"$T/out" 2>"$T/err" </dev/null && file_has out "$1"
}

# Both hosts in one run. Only host 0 has curves, checkpoints and a claim of the folder.
hosts --out both
code "$host1"
[ "$got" = 0 ] || fail "host 1 exits with $got: $(cat err.1)"
code "$host0"
[ "$got" = 0 ] || fail "host 0 exits with $got: $(cat err.0)"
[ "$(rows runs)" = 1 ] || fail 'the hosts have several runs'
[ "$(sql 'SELECT workers FROM runs')" = 2 ] || fail 'the run does not have the workers of both hosts'
[ "$(sql 'SELECT group_concat(n) FROM (SELECT count(*) n FROM step_time GROUP BY worker)')" = 40,40 ] ||
    fail 'step times of one of the hosts are missing'
[ "$(rows "placement WHERE unit IN ('worker0.0', '1/worker0.0')")" = 2 ] || fail 'placement'
[ "$(rows "layer_time WHERE layer = 'fc'")" = 2 ] || fail 'times of layers'
[ "$(rows "link_traffic WHERE from_unit = '1/worker0.0' AND to_unit = '1/server0.0'")" = 40 ] ||
    fail 'traffic inside of host 1'
[ "$(rows "traffic WHERE kind = 'net' AND bytes > 0")" = 2 ] || fail 'traffic between the hosts'
[ "$(rows "point p JOIN series s ON s.id = p.series_id WHERE name = 'loss' AND split = 'train'")" = 40 ] ||
    fail 'the curve'
[ "$(sql 'SELECT group_concat(name) FROM hosts WHERE left_at IS NOT NULL AND why IS NULL')" = 0,1 ] ||
    fail 'the hosts did not leave'
[ "$(rows 'hosts WHERE cpu IS NULL')" = 0 ] || [ "$(rows 'hosts WHERE cpu IS NOT NULL')" = 0 ] ||
    fail 'one host did not tell its processor'
[ ! -e both/hosts ] && [ ! -e both/metrics.jsonl ] || fail 'rows were spooled'
expect 0 history show
has out '^HOST +CPU'
has out '^1 '
expect 0 history show --json
has out '"name": ?"1"'

# Host 1 is killed: its rows so far are there, and why it left.
hosts --out first --set job.steps=1000000 --set job.eval_every=0
until_true 20 more 1 'step_time WHERE run_id = 2 AND worker = 1'
until_true 20 shows '"unit": ?"1/worker0.0"'
shows '"host": ?"1","state": ?"running"' || fail 'host 1 does not run'
kill -9 "$host1"
code "$host0"
[ "$got" = 75 ] || fail "host 0 exits with $got: $(cat err.0)"
[ "$(rows "hosts WHERE run_id = 2 AND host = 1 AND left_at IS NOT NULL AND why <> ''")" = 1 ] ||
    fail 'nobody knows why host 1 left'
[ "$(rows "hosts WHERE run_id = 2 AND host = 0 AND left_at IS NOT NULL AND why IS NULL")" = 1 ] ||
    fail 'host 0 did not leave'
expect 0 top --once 2
has out 'host 1 +lost: '

# Host 0 is killed: what host 1 could not send, and its checkpoint, are merged.
hosts --out second --set job.steps=1000000 --set job.eval_every=0
until_true 20 more 1 'step_time WHERE run_id = 3 AND worker = 1'
kill -9 "$host0"
code "$host1"
[ "$got" = 75 ] || fail "host 1 exits with $got: $(cat err.1)"
[ -s second/hosts/1/metrics.jsonl ] || fail 'host 1 has no spool'
expect 0 history list
hasnt err 'cannot be merged'
[ "$(rows "hosts WHERE run_id = 3 AND host = 0 AND left_at IS NOT NULL AND why <> ''")" = 1 ] ||
    fail 'nobody knows why host 0 left'
[ "$(rows runs)" = 3 ] || fail 'the spool has a run of its own'
step=$(latest second)
step=${step##*-}
step=${step%.safetensors}
[ "$(rows "checkpoints WHERE run_id = 3 AND step = $step")" = 1 ] ||
    fail "the checkpoint of step $step is unknown"
[ "$(sql 'SELECT max(step) FROM step_time WHERE run_id = 3 AND worker = 1')" -ge $((step - 1)) ] ||
    fail "step times of host 1 end before step $step"

# Both go on: host 1 finds the run and its checkpoint, and records nothing of its own.
port=$(free_port)
for rank in 0 1; do
    RANK=$rank WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
        "$SW" resume 3 --steps $((step + 5)) --share-machine >"$T/out.$rank" 2>"$T/err.$rank" </dev/null &
    eval "host$rank=$!"
    children="$children $!"
done
code "$host1"
[ "$got" = 0 ] || fail "host 1 exits with $got: $(cat err.1)"
code "$host0"
[ "$got" = 0 ] || fail "host 0 exits with $got: $(cat err.0)"
[ "$(rows runs)" = 3 ] && [ "$(rows 'segments WHERE run_id = 3')" = 2 ] || fail 'the run did not go on'
[ "$(rows "step_time WHERE run_id = 3 AND step > $step")" = 10 ] || fail 'step times after the resume'
[ "$(rows 'hosts WHERE run_id = 3 AND left_at IS NOT NULL AND why IS NULL')" = 2 ] ||
    fail 'the hosts did not join again'
[ -z "$(find state -name metrics.jsonl)" ] || fail 'a host spooled rows'
