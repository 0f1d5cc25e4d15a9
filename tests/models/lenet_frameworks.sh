# ctest-timeout: 3600
# Every framework trains LeNet to within 0.3 % of the accuracy of one worker, in at most 1.3 times as
# many epochs. A step of two groups that are apart is two updates, so they get half of the steps.
. "$(dirname "$0")/lib.sh"
needs mnist/train-images-idx3-ubyte.gz mnist/t10k-images-idx3-ubyte.gz
steps=5000

# go NAME STEPS GOAL ARGUMENT...: two workers.
go() {
    name=$1 most=$2 goal=$3
    shift 3
    train lenet.ini --name "$name" --steps "$most" --set job.eval_every=$((most / 5)) --oversubscribe "$@"
    workers=$("$SW" history sql "SELECT count(DISTINCT worker) FROM step_time WHERE run_id =
        (SELECT max(id) FROM runs)")
    [ "$workers" = 2 ] || fail "$name has trained with $workers workers"
    reaches "$(final accuracy)" "$goal" "accuracy of lenet, $name, $most steps"
}

train lenet.ini --name single --steps $steps --set cluster.workers_per_group=1 --set job.eval_every=$((steps / 5))
goal=$(awk -v a="$(final accuracy)" 'BEGIN { printf "%.4f", a - 0.003 }')
echo "one worker, $steps steps: $(final accuracy)"

apart=$((steps * 13 / 20))
go sandblaster $steps "$goal" --framework sandblaster --set cluster.workers_per_group=2
go allreduce $steps "$goal" --framework allreduce --set cluster.workers_per_group=2
go downpour $apart "$goal" --framework downpour --set cluster.worker_groups=2
go ssp $apart "$goal" --framework downpour --set cluster.worker_groups=2 --set cluster.staleness=4
go hogwild $apart "$goal" --framework hogwild --set cluster.worker_groups=2
go merged $apart "$goal" --framework hogwild --set cluster.worker_groups=2 \
    --set cluster.server_groups=2

echo 'accuracy by seconds of training:'
"$SW" history sql "SELECT r.name, group_concat(printf('%.1f:%.4f', m.time - r.started_at, m.value), ' ')
    FROM metrics m JOIN runs r ON r.id = m.run_id WHERE m.split <> 'train' AND m.name = 'accuracy'
    GROUP BY r.id"
