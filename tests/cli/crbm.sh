# ctest-timeout: 240
# Conditional Boltzmann machines: the recipe learns to predict the next frame better than the last
# frame and a linear function of the past do; it continues a series; bits after a resume; several
# workers; and what is refused.
. "$(dirname "$0")/lib.sh"
export OMP_NUM_THREADS=1
recipe=$SW_SOURCE_DIR/recipes/crbm.ini
data='--set data.train.records=9700 --set data.test.records=1940'

# metric NAME: its value in the last evaluation of the run whose output is in $T/out.
metric() {
    grep 'split=test' "$T/out" | tail -n 1 | sed -n "s/.* $1=\([0-9.e-]*\).*/\1/p"
}
is() { # EXPRESSION of awk
    awk "BEGIN { exit !($1) }" || fail "not $1"
}

expect 0 run "$recipe" --no-ui --out "$T/crbm" --name motion $data --set job.steps=5000
hasnt out 'nan'
error=$(metric rmse) repeat=$(metric rmse.repeat)

cat >"$T/linear.ini" <<'END'
[job]
name = linear
batch = 100
eval_batch = 100
steps = 2000
eval_every = 1000
[data train]
format = synthetic
kind = series
[data test]
format = synthetic
kind = series
[updater]
type = sgd
lr = 0.01
momentum = 0.9
[layer past]
type = input
field = past
standardize = yes
[layer frame]
type = input
field = frame
standardize = yes
[layer next]
type = inner_product
src = past
outputs = 12
[layer loss]
type = euclidean_loss
src = next, frame
[layer error]
type = rmse
src = next, frame
END
expect 0 run "$T/linear.ini" --no-ui --out "$T/linear" $data
linear=$(metric rmse)
echo "rmse: $error, of the last frame $repeat, of a linear function $linear"
is "$error < 0.5 * $repeat"
is "$error < $linear"

# Predictions of the test data are frames.
expect 0 predict motion --layer next --output "$T/next.npy"
has out '1940x12'

# The series goes on: as many frames, of bounded size, and the same for the same seed.
expect 0 sample motion --length 50 --start 7
[ "$(wc -l <"$T/out")" = 50 ] || fail '50 frames are not 50 lines'
awk -F, 'NF != 12 { exit 1 } { for (i = 1; i <= NF; i++) if ($i * $i > 16) exit 1 }' "$T/out" ||
    fail 'a frame has no 12 values below 4'
expect 0 sample motion --length 50 --output "$T/mean.npy"
expect 0 sample motion --length 50 --output "$T/a.npy" --seed 1 --set layer.next.sampled=yes
expect 0 sample motion --length 50 --output "$T/b.npy" --seed 1 --set layer.next.sampled=yes
expect 0 sample motion --length 50 --output "$T/c.npy" --seed 2 --set layer.next.sampled=yes
cmp -s "$T/a.npy" "$T/b.npy" || fail 'the same seed gave another series'
cmp -s "$T/a.npy" "$T/c.npy" && fail 'another seed gave the same series'
expect 0 sample motion --length 50 --output "$T/c.npy" --seed 4294967297 --set layer.next.sampled=yes
cmp -s "$T/a.npy" "$T/c.npy" && fail 'a seed that differs only above bit 31 gave the same series'
expect 0 sample motion --length 2 --json
has out '"frames": ?\[\[-?[0-9.e-]+,'
expect 0 sample motion --length 2 --json --output "$T/json.npy"
has out '"output":".*json.npy"'
expect 2 sample motion --prime text
has err '--prime: only for texts'
expect 2 sample motion --start 100000
has err '--start 100000: generated data has 1940 records'

# Bits after a resume, and three workers.
few="--set job.batch=12 --set job.eval_batch=12 --set data.train.records=970 --set data.test.records=97"
expect 0 run "$recipe" --no-ui --steps 6 --out "$T/one" $few
expect 0 run "$recipe" --no-ui --steps 3 --out "$T/two" $few --name two
expect 0 resume two --no-ui --steps 6
same_tensors "$T/one/checkpoint-6.safetensors" "$T/two/checkpoint-6.safetensors"
expect 0 run "$recipe" --no-ui --steps 6 --out "$T/three" $few --oversubscribe \
    --set cluster.workers_per_group=3
expect 0 weights "$T/one/checkpoint-6.safetensors" diff "$T/three/checkpoint-6.safetensors" \
    --tolerance 1e-4

# A series in files.
awk 'BEGIN { for (t = 0; t < 60; t++) printf "%.4f,%.4f\n", sin(t / 3), cos(t / 4) }' >"$T/train.csv"
tables="--set data.train.paths=$T/train.csv --set data.test.paths=$T/train.csv --set vars.values=2"
expect 0 run "$recipe" --no-ui --steps 20 --out "$T/files" $tables --set job.batch=10
has out 'split=test rmse='

# What does not fit.
expect 2 check "$recipe" --set layer.vis.src=frame
has err 'conditioned requires the layer that computes the biases'
expect 2 check "$recipe" --set layer.hid.conditioned=no
has err 'layer hid: src = vis, to_hidden: a second source requires conditioned = yes'
expect 2 check "$recipe" --set layer.hid.src=vis,to_visible
has err 'source 2, the condition, is 100x12 f32: it must have 100 rows of 200 values'
expect 2 check "$recipe" --set layer.hid.persistent=yes
has err 'conditioned = yes requires replicated = no and persistent = no'
expect 2 check "$recipe" --set layer.next.src=start,first,to_hidden,to_visible
has err 'the condition of start is to_visible: name it here'
expect 2 check "$recipe" --set layer.energy.type=free_energy --set layer.energy.src=vis,hid \
    --set layer.energy.include=eval --set layer.energy.visible_units=gaussian
has err 'the biases of vis depend on to_visible .*free_energy does not support this'
expect 2 check "$recipe" --set layer.hid.partition=1 --set cluster.workers_per_group=2 --oversubscribe
has err 'its condition has the biases of whole rows'
