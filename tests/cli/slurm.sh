# ctest-timeout: 60
# Slurm: its limits are honored and named, and the example script requeues a job that was stopped with a
# checkpoint and resumes it.
. "$(dirname "$0")/lib.sh"
script=$SW_SOURCE_DIR/recipes/share/singa-ws.sbatch
expect 0 topo
limit=$(sed -n 's/^machine .* \([0-9]*\) cores\{0,1\}.*/\1/p' "$T/out")
if [ "${limit:-1}" -ge 2 ]; then
    SLURM_CPUS_PER_TASK=1 expect 0 run "$tiny" -v --steps 2 --name limited
    has out "^limits       (.*; )?1 of $limit cores \\(SLURM_CPUS_PER_TASK\\)"
    has out '^placement    worker0\.0  cpu, node [0-9-]+, cores [0-9]+'
    SLURM_CPUS_PER_TASK=1 expect 0 run "$tiny" -v --steps 2 --cores 2 # the recipe's number comes first
    hasnt out 'SLURM'
    expect 0 run "$tiny" -v --steps 2 --cores 1
    has out "1 of $limit cores \\(job.cores\\)"
    taskset -c 0 true 2>/dev/null && {
        taskset -c 0 "$SW" run "$tiny" -v --steps 2 >"$T/out" 2>"$T/err" || fail 'under taskset'
        has out '^limits       a cpuset or taskset hides [0-9]+ hardware thread'
    }
fi

# A job of the example script: stopped by SIGTERM, requeued, resumed, done.
mkdir "$T/bin"
ln -s "$SW" "$T/bin/singa-ws"
printf '#!/bin/sh\necho "$*" >>"%s"\n' "$T/requeued" >"$T/bin/scontrol"
chmod +x "$T/bin/scontrol"
export PATH="$T/bin:$PATH" SLURM_JOB_ID=4711
: >"$T/out"
sh "$script" "$tiny" --out "$T/job" --set job.steps=100000000 --set job.eval_every=0 >"$T/out" 2>"$T/err" &
pid=$!
children="$children $pid"
until_true 20 file_has out '^step=5 '
kill -TERM "$pid"
ended 75
[ "$(cat "$T/requeued")" = 'requeue 4711' ] || fail "not requeued: $(cat "$T/requeued")"
[ "$(sql "SELECT status FROM runs WHERE name = 'slurm-4711'")" = stopped ] || fail 'the run is not stopped'
at=$(basename "$(latest "$T/job")" .safetensors)
sh "$script" "$tiny" >"$T/out" 2>"$T/err" &
pid=$!
children="$children $pid"
until_true 20 file_has out "from step ${at#checkpoint-}$"
until_true 20 file_has out '^step=[0-9]+ steps='
expect 0 stop slurm-4711
ended 75
[ "$(sql 'SELECT count(*) FROM runs WHERE name = '"'slurm-4711'")" = 1 ] || fail 'the requeued job is another run'

# Without a checkpoint to resume from, or after an error, it is not requeued.
rm "$T/requeued"
export SLURM_JOB_ID=4712
sh "$script" "$T/nowhere.ini" >"$T/out" 2>"$T/err"
[ $? = 3 ] || fail 'a missing recipe'
sh "$script" "$tiny" --steps 2 >"$T/out" 2>"$T/err" || fail 'a job that ends'
[ ! -e "$T/requeued" ] || fail 'requeued without need'
