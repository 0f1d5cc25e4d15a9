#!/bin/sh
# ctest-timeout: 300
# The trainer on the cuda device: the same parameters as on the CPU after some steps, for every exchange
# mode, with one worker and with two on one GPU, and with parameters that live on the device. Uses a GPU
# if there is one, else the kernels compiled for the CPU.
. "$(dirname "$0")/lib.sh"

if [ -e /dev/nvidiactl ]; then
    unset SINGA_CUDA_MODULE
else
    [ -f "${SW_CUDA_ON_HOST:-}" ] || skip "there is no GPU, and the kernels on the host are not built"
    export SINGA_CUDA_MODULE="$SW_CUDA_ON_HOST" SINGA_NCCL_MODULE="${SW_NCCL_ON_HOST:-/none}"
fi

# Direct convolution, because Winograd's, which the CPU may choose, rounds differently.
sed 's/^\[job\]$/&\nwinograd = no/' "$tiny" >"$T/direct.ini"
tiny=$T/direct.ini

# near NAME: equal to the CPU's parameters except for the order of sums.
near() {
    "$SW" weights "$T/cpu/checkpoint-3.safetensors" diff "$T/$1/checkpoint-3.safetensors" \
        --tolerance 2e-4 >"$T/out" 2>"$T/err" || fail "$1 has other parameters than the CPU"
}
# learns_as NAME OTHER: the losses of three steps differ by less than a part in 500. Where factors are
# rounded, one between two representable numbers may go either way, and so may a maximum.
learns_as() {
    expect 0 history sql "SELECT sum(value) FROM metrics JOIN runs ON runs.id = run_id WHERE split = 'train' AND metrics.name = 'loss' AND runs.name IN ('$1', '$2') GROUP BY runs.id"
    awk '{ x[++n] = $1 } END { exit !(n == 2 && (d = x[1] - x[2]) < x[1] / 500 && -d < x[1] / 500) }' \
        "$T/out" || fail "$1 has other losses than $2"
}
# train NAME OPTION...
train() {
    name=$1
    shift
    expect 0 run "$tiny" -v --steps 3 --set job.eval_every=0 --out "$T/$name" --name "$name" --no-ui "$@"
}

train cpu --device cpu
for copy in async sync none; do
    train $copy --device cuda:0 --set cluster.copy=$copy
    near $copy
done
# By default a GPU keeps its parameters, and the run reports it.
train auto --device cuda:0
has out '^copy +none: the GPU updates its parameters'
expect 0 history sql "SELECT value FROM tags JOIN runs ON runs.id = run_id WHERE name = 'auto' AND key = 'copy'"
has out '^none$'
"$SW" weights "$T/auto/checkpoint-3.safetensors" diff "$T/none/checkpoint-3.safetensors" \
    --tolerance 0 >"$T/out" 2>"$T/err" || fail 'copy = auto is not copy = none'
train late --device cuda:0 --set cluster.overlap=no
near late
train two --device cuda:0,0 --oversubscribe
near two
# Under ssp one group makes the updates of one worker, and two exchange factors.
ssp='--device cuda:0,0 --oversubscribe --framework downpour --set cluster.staleness=1
    --set cluster.comm=sfb'
# shellcheck disable=SC2086
train one-group $ssp --set cluster.worker_groups=1 --set cluster.workers_per_group=2
near one-group
# shellcheck disable=SC2086
train two-groups $ssp --set cluster.worker_groups=2 --set cluster.workers_per_group=1
expect 0 history sql "SELECT count(*) FROM link_traffic l JOIN runs r ON r.id = l.run_id WHERE r.name = 'two-groups' AND kind = 'factor' AND bytes > 0"
has out '^6$'

# Steps of a cell that pass more than its output: both states of both layers, and their gradients.
awk 'BEGIN { s = 7; for (i = 0; i < 400; i++) { s = (s * 75 + 74) % 65537
    printf "%s", (s % 5 == 0) ? "if (n)\n" : (s % 5 < 3) ? "\tx += y;\n" : "}\n" } }' >"$T/text"
cat >"$T/steps.ini" <<END
[job]
batch = 6
steps = 3
[updater]
type = sgd
lr = 0.5
[data train]
format = text
paths = $T/text
length = 7
streams = 6
[layer tokens]
type = input
field = tokens
[layer target]
type = input
field = target
[layer vectors]
type = embedding
src = tokens
vocabulary = 20
outputs = 9
[layer h]
type = lstm
src = vectors, h
connections = one-to-one, stateful
hidden = 11
layers = 2
unroll = 7
[layer scores]
type = inner_product
src = h
outputs = 20
axis = 2
[layer loss]
type = softmax_loss
src = scores, target
END
recipe=$tiny
tiny=$T/steps.ini
train cpu-steps --device cpu
train steps --device cuda:0
tiny=$recipe
"$SW" weights "$T/cpu-steps/checkpoint-3.safetensors" diff "$T/steps/checkpoint-3.safetensors" \
    --tolerance 2e-4 >"$T/out" 2>"$T/err" || fail "an unrolled lstm has other parameters than the CPU"

# Pairs of words, whose tables are on the device. No step waits for the host.
sed -n '1,/^length/p' "$T/steps.ini" >"$T/pairs.ini"
cat >>"$T/pairs.ini" <<END
unit = words
[layer tokens]
type = input
field = tokens
[layer vectors]
type = embedding
src = tokens
vocabulary = 9
outputs = 6
[layer loss]
type = negative_sampling
src = vectors, tokens
vocabulary = 9
subsample = 0.1
END
tiny=$T/pairs.ini
for type in negative_sampling hierarchical_softmax; do
    train "cpu-$type" --device cpu --set "layer.loss.type=$type"
    train "$type" --device cuda:0 --set "layer.loss.type=$type"
    grep -q 'not as a graph' "$T/out" "$T/err" && fail "$type: a step is not captured"
    "$SW" weights "$T/cpu-$type/checkpoint-3.safetensors" diff "$T/$type/checkpoint-3.safetensors" \
        --tolerance 2e-4 >"$T/out" 2>"$T/err" || fail "$type has other parameters than the CPU"
done
tiny=$recipe

# An RBM whose hidden units are partitioned over two workers, at a boundary within a block of draws.
cat >"$T/machine.ini" <<END
[job]
algorithm = cd
batch = 10
steps = 3
[data train]
format = synthetic
classes = 4
records = 60
height = 8
width = 8
scale = 0.00392156863
[updater]
type = sgd
lr = 0.1
[layer image]
type = input
field = image
[layer vis]
type = rbm_visible
src = image
binary = yes
[layer rbm]
type = rbm_hidden
src = vis
hidden = 27
k = 2
persistent = yes
weight.init = gaussian
weight.std = 0.1
END
tiny=$T/machine.ini
train cpu-machine --device cpu
train machine --device cuda:0,0 --oversubscribe --set layer.rbm.partition=1
tiny=$recipe
"$SW" weights "$T/cpu-machine/checkpoint-3.safetensors" diff "$T/machine/checkpoint-3.safetensors" \
    --tolerance 2e-4 >"$T/out" 2>"$T/err" || fail "a machine in parts has other parameters than the CPU"

# Steps as graphs: what a launcher reads on the host, instead of leaving it to the kernel, would be
# as old as the capture.
# same_as_graphs NAME RECIPE OPTION...
same_as_graphs() {
    name=$1
    shift
    for graphs in yes no; do
        expect 0 run "$@" -v --steps 7 --out "$T/$name-$graphs" --name "$name-$graphs" --no-ui \
            --device cuda:0 --set cluster.copy=none --set job.graphs=$graphs
        grep -q 'not as a graph' "$T/out" "$T/err" &&
            fail "$name, graphs = $graphs: a step is not captured"
    done
    "$SW" weights "$T/$name-no/checkpoint-7.safetensors" diff "$T/$name-yes/checkpoint-7.safetensors" \
        --tolerance 0 >"$T/out" 2>"$T/err" || fail "$name: graphs change what is learnt"
}
same_as_graphs graphs "$tiny" --set job.eval_every=3
same_as_graphs words "$SW_SOURCE_DIR/recipes/rnnlm-class.ini" --set job.eval_every=0 \
    --set data.train.records=3000 --set data.test.records=320

# All-reduce by NCCL, if installed: one GPU uses it like several.
if [ -e /dev/nvidiactl ] || [ -f "$SINGA_NCCL_MODULE" ]; then
    train nccl --device cuda:0 --set cluster.copy=none --set cluster.all_reduce=library
    has out '^all-reduce +NCCL 2\..*in its own summation order'
    near nccl
    if [ ! -e /dev/nvidiactl ] || [ -e /dev/nvidia1 ]; then
        train nccl2 --device cuda:0,1 --oversubscribe --set cluster.copy=none
        has out '^all-reduce +NCCL 2\.'
        near nccl2
    fi
fi
train shared --device cuda:0,0 --oversubscribe --set cluster.copy=none
has out '^all-reduce +copies between devices .on one device.*no library: several workers share cuda:0'
near shared

# The CPU rounds the same operands in every precision.
for precision in tf32 bf16 fp16; do
    train "cpu-$precision" --device cpu --set "job.precision=$precision"
    train "$precision" --device cuda:0 --set "job.precision=$precision"
    learns_as "$precision" "cpu-$precision"
done
train none-bf16 --device cuda:0 --set job.precision=bf16 --set cluster.copy=none
learns_as none-bf16 cpu-bf16
# Update control over all gradients runs on the device, with the same results.
for set in job.grad_clip=norm:0.1 job.on_nan=skip updater.type=lars; do
    key=${set%=*}
    train "$key-async" --device cuda:0 --set "$set" --set cluster.copy=async
    train "$key-none" --device cuda:0 --set "$set" --set cluster.copy=none
    "$SW" weights "$T/$key-async/checkpoint-3.safetensors" diff \
        "$T/$key-none/checkpoint-3.safetensors" --tolerance 0 >"$T/out" 2>"$T/err" ||
        fail "$set: the device decides otherwise than servers"
done
expect 0 run "$tiny" -v --steps 7 --name scaled --no-ui --device cuda:0 --out "$T/scaled" \
    --set job.precision=fp16 --set cluster.copy=none
grep -q 'not as a graph' "$T/out" "$T/err" && fail 'fp16: a step is not captured'
# A GPU without bf16 refuses it at the start.
if [ ! -e /dev/nvidiactl ]; then
    export CUDA_ON_HOST_CAPABILITY=75
    expect 3 check "$tiny" --device cuda:0 --set job.precision=bf16
    has err 'cuda:0 has compute capability 7.5, and precision = bf16 needs 8.0'
    expect 0 check "$tiny" --device cuda:0 --set job.precision=fp16
    unset CUDA_ON_HOST_CAPABILITY
fi
# Without NCCL, copies are used; a recipe that requires NCCL is refused.
if [ ! -e /dev/nvidiactl ]; then
    nccl=$SINGA_NCCL_MODULE
    export SINGA_NCCL_MODULE=/none/nccl.so
    expect 0 check "$tiny" --device cuda:0,1 --oversubscribe --set cluster.copy=none
    has out '^all-reduce +copies between devices .*no library: SINGA_NCCL_MODULE names /none/nccl.so'
    expect 3 check "$tiny" --device cuda:0,1 --oversubscribe --set cluster.copy=none \
        --set cluster.all_reduce=library
    has err 'all_reduce = library: SINGA_NCCL_MODULE names /none/nccl.so, which cannot be read; try'
    export SINGA_NCCL_MODULE="$nccl"
fi

# One worker on a GPU and one on CPU cores share layouts, parameters and rows.
train mixed --device cuda:0+cpu --oversubscribe
near mixed

# The history records the devices.
expect 0 history sql "SELECT placement.device FROM placement JOIN runs ON runs.id = run_id WHERE name = 'two' AND unit LIKE 'worker%'"
[ "$(grep -c 'cuda:0' "$T/out")" = 2 ] || fail "two workers are not on cuda:0"
