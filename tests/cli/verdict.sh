# ctest-timeout: 120
# The bottleneck verdict, of runs in which one part was slowed down on purpose.
. "$(dirname "$0")/lib.sh"
have_python || skip 'python3 is not installed'
# bound: prints the verdict of the newest run.
bound() {
    "$SW" top @last --once --json >"$T/top" || fail 'top --once'
    python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["bound"])' "$T/top"
}
is_bound() {
    found=$(bound)
    [ "$found" = "$1" ] || fail "$2: $found, not $1
$(cat "$T/top")"
}

expect 0 run "$tiny" --quiet --steps 10 --device sim:gpus=1,slow=200
is_bound compute 'a slow device'
# So slow that computing takes less time even on a busy machine; and the worker waits for it, since a
# wait of the device counts as forward time.
expect 0 run "$tiny" --quiet --steps 5 --device sim:gpus=1,pcie=100KB/s --set cluster.copy=sync
is_bound copy 'a slow link'

# Distorting images takes longer than a tiny net.
cat >"$T/pictures.ini" <<'END'
[job]
batch = 16
steps = 12
[data train]
format = synthetic
records = 64
channels = 3
height = 96
width = 96
elastic_alpha = 8
elastic_sigma = 4
workers = 1
[updater]
type = sgd
lr = 0.001
[layer image]
type = input
field = image
[layer label]
type = input
field = label
[layer small]
type = pooling
src = image
method = avg
kernel = 32
stride = 32
[layer fc]
type = inner_product
src = small
outputs = 10
[layer loss]
type = softmax_loss
src = fc, label
END
expect 0 run "$T/pictures.ini" --quiet
is_bound decode 'slow transforms'
exit 0
