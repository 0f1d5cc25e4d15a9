# ctest-timeout: 240
# Boltzmann machines: the two recipes of a stack, an evaluation with a likelihood, reconstructions,
# filters, and persistent chains over several workers and a resume.
. "$(dirname "$0")/lib.sh"
export OMP_NUM_THREADS=1
recipes=$SW_SOURCE_DIR/recipes
small='--set layer.rbm1.hidden=20 --set data.train.records=300 --set data.test.records=60'

expect 0 run "$recipes/rbm1.ini" --no-ui --steps 30 --out "$T/rbm1" --set job.eval_batch=30 $small
has out 'split=train loss='
has out 'split=test reconstruction_error=[0-9.]+ free_energy=-'
hasnt out 'split=test.*(loss|nan)'

# The lower layers are read from the first machine's checkpoint and are frozen.
expect 0 run "$recipes/rbm2.ini" --no-ui --steps 10 --out "$T/rbm2" --set job.eval_batch=30 $small \
    --set layer.rbm2.hidden=7 --set "vars.below=$T/rbm1/checkpoint-30.safetensors"
for file in rbm1/checkpoint-30 rbm2/checkpoint-10; do
    expect 0 weights "$T/$file.safetensors" export --output "$T/$(dirname $file).npys"
done
for tensor in vis1.bias rbm1.weight rbm1.bias; do
    cmp "$T/rbm1.npys/$tensor.npy" "$T/rbm2.npys/$tensor.npy" || fail "$tensor was not left alone"
done
[ -s "$T/rbm2.npys/rbm2.weight.npy" ] || fail 'the second machine has no weight'

# A likelihood that the recipe does not request.
expect 0 eval "$recipes/rbm1.ini" --weights "$T/rbm1/checkpoint-30.safetensors" --json \
    --set job.eval_batch=30 $small --set layer.vis1.binary=yes --set layer.ll.type=log_likelihood \
    --set layer.ll.src=vis1,rbm1 --set layer.ll.chains=30 --set layer.ll.temperatures=50
has out '"log_likelihood": ?-[0-9.]+'
has out '"log_likelihood.log_partition": ?[0-9.]+'
has out '"log_likelihood.log_partition_high": ?[0-9.]+'

expect 0 predict "$recipes/rbm1.ini" --weights "$T/rbm1/checkpoint-30.safetensors" --layer down1 \
    --set job.eval_batch=30 $small --output "$T/down.npy"
has out '60x784'
expect 0 weights "$T/rbm1/checkpoint-30.safetensors" --plot "$T/filters.svg"
has out 'rbm1.weight: 20 filters'

# Persistent chains of 10 rows, by one worker, and by three after a resume.
chains="--set job.batch=10 --set job.eval_batch=10 --set layer.rbm.hidden=16 --set layer.likelihood.chains=4
    --set layer.likelihood.temperatures=5 --set data.train.records=300 --set data.test.records=20"
expect 0 run "$recipes/rbm-pcd.ini" --no-ui --steps 6 --out "$T/one" $chains
expect 0 run "$recipes/rbm-pcd.ini" --no-ui --steps 3 --out "$T/three" $chains --name three
expect 0 resume three --no-ui --steps 6 --oversubscribe --set cluster.workers_per_group=3
expect 0 weights "$T/one/checkpoint-6.safetensors" diff "$T/three/checkpoint-6.safetensors" \
    --tolerance 1e-4

# A layer that reads an RBM must declare the same units.
expect 2 check "$recipes/rbm1.ini" --set layer.vis1.units=gaussian
has err 'layer energy: the units of vis1 are gaussian: set visible_units = gaussian here too'
has err 'layer down1: the units of vis1 are gaussian: set units = gaussian'
expect 2 check "$recipes/rbm1.ini" --set layer.rbm1.units=gaussian
has err 'layer energy: the units of rbm1 are gaussian: set hidden_units = gaussian'
expect 2 check "$recipes/rbm1.ini" --set layer.vis1.units=gaussian --set layer.energy.type=pseudo_likelihood
has err 'layer energy: .*the units of vis1 are gaussian: pseudo_likelihood needs bernoulli'
expect 2 check "$recipes/rbm1.ini" --set layer.vis1.units=softmax
has err 'layer rbm1: the units of vis1 are softmax: set replicated = yes'
expect 3 check "$recipes/rbm2.ini" --set "vars.below=$T/none.safetensors"
has err 'init_from: cannot open .*none\.safetensors'
# A stack with a checkpoint that lacks the lower layers.
expect 0 run "$recipes/rbm3.ini" --no-ui --steps 2 --out "$T/rbm3" --set job.eval_batch=30 $small \
    --set "vars.below=$T/rbm1/checkpoint-30.safetensors"
has out 'frozen with the initial values .*: vis2\.bias, rbm2\.weight, rbm2\.bias; is init_from'
expect 2 check "$recipes/rbm1.ini" --set layer.rbm1.src=image
has err 'must be an rbm_visible layer, but image is input'
expect 2 check "$recipes/rbm1.ini" --set job.algorithm=bp
has err 'has no loss layer'
