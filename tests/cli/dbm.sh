# ctest-timeout: 240
# A deep Boltzmann machine: the recipe's three stages, its bound, a run that is killed and resumed in
# the last stage, a bound with other settings from a checkpoint, and machines that are refused.
. "$(dirname "$0")/lib.sh"
export OMP_NUM_THREADS=1
recipe=$SW_SOURCE_DIR/recipes/dbm.ini
small='--set job.batch=20 --set job.eval_batch=20 --set layer.h1.hidden=15 --set layer.h2.hidden=11
    --set data.train.records=200 --set data.test.records=60 --set layer.bound.chains=10
    --set layer.bound.temperatures=30 --set stage.rbm1.steps=15 --set stage.rbm2.steps=15
    --set stage.dbm.steps=30'

expect 0 run "$recipe" --no-ui --out "$T/whole" $small
has out 'variational_bound=-[0-9.]+'
has out 'log_partition_high=[0-9.]+'

# Killed at any moment of the last stage, whose chains are in its checkpoints.
"$SW" run "$recipe" --no-ui --out "$T/killed" --name killed $small --set job.checkpoint_every=5 \
    --set job.keep_checkpoints=100 >"$T/out" 2>"$T/err" &
child=$!
children="$children $child"
until [ -e "$T/killed/checkpoint-45.safetensors" ]; do
    kill -0 $child 2>/dev/null || break
    sleep 0.02
done
kill -9 $child 2>/dev/null
wait $child 2>/dev/null
rm -f "$T/killed/checkpoint-60.safetensors" "$T/killed/checkpoint-55.safetensors"
expect 0 resume killed --no-ui
expect 0 weights "$T/whole/checkpoint-60.safetensors" diff "$T/killed/checkpoint-60.safetensors" \
    --tolerance 0

expect 0 eval "$recipe" --weights "$T/whole/checkpoint-60.safetensors" --json $small \
    --set layer.bound.temperatures=200 --set layer.bound.mean_field=5
has out '"variational_bound": ?-[0-9.]+'
has out '"variational_bound.log_partition_high": ?[0-9.]+'
cp "$T/out" "$T/first"
expect 0 eval "$recipe" --weights "$T/whole/checkpoint-60.safetensors" --json $small \
    --set layer.bound.temperatures=200 --set layer.bound.mean_field=5
[ "$(grep -o '"variational[^,}]*' "$T/first")" = "$(grep -o '"variational[^,}]*' "$T/out")" ] ||
    fail 'another estimate with the same seed'

# Two workers with the rows and chains of one; hidden units cannot be shared out.
expect 0 run "$recipe" --no-ui --oversubscribe --out "$T/two" $small \
    --set cluster.workers_per_group=2
expect 0 weights "$T/whole/checkpoint-60.safetensors" diff "$T/two/checkpoint-60.safetensors" \
    --tolerance 1e-3
expect 2 check "$recipe" --stage dbm --set cluster.workers_per_group=2 --set layer.h2.partition=1
has err 'layer h2: .*deep Boltzmann machine read both neighbors'
expect 2 check "$recipe" --set layer.h1.doubled=none --set stage.dbm.layer.h1.k=2
has err 'k of h1 differs'
expect 2 check "$recipe" --stage rbm1 --set layer.energy.type=free_energy \
    --set layer.energy.src=vis,h1
has err 'h1 has doubled = up, which free_energy does not support'
