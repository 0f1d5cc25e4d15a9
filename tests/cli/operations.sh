# bench/operations: the counts of a net computed by hand, and the table's rows on the CPU and on a simulated GPU.
. "$(dirname "$0")/lib.sh"

operations=$SW_BINARY_DIR/tests/operations
cat >"$T/net.ini" <<'END'
[job]
batch = 2
steps = 1

[data train]
format = synthetic
channels = 1
height = 4
width = 4
classes = 10

[updater]
type = sgd
lr = 0.1
momentum = 0.9

[layer image]
type = input
field = image

[layer label]
type = input
field = label

[layer conv]
type = convolution
src = image
outputs = 16
kernel = 3

[layer relu]
type = activation
src = conv
function = relu

[layer fc]
type = inner_product
src = relu
outputs = 16

[layer loss]
type = softmax_loss
src = fc, label
END

"$operations" --count "$T/net.ini" >"$T/out" 2>"$T/err" || fail "it does not count"
# A batch is [2, 1, 4, 4], 128 bytes. conv has weights of 16 x 9 (576 bytes), 16 biases (64) and an output of
# 2 x 16 x 2 x 2 (512); fc has weights of 16 x 64 (4096), 16 biases (64) and an output of 2 x 16 (128).
# No blocked layout pads these.
has out '^conv convolution forward 1280 1280 2304 1$' # 128 + 576 + 64 + 512; 2 x 9 flops per output
# All of that, with the gradient of the output; nothing needs the gradient of the image.
has out '^conv convolution backward 1280 1280 2304 1$'
hasnt out '^relu activation forward'                   # conv computes it
has out '^relu activation backward 1536 1536 [0-9]+ 1$' # its output, and both gradients
has out '^fc inner_product forward 4800 4800 4096 1$'  # 512 + 4096 + 64 + 128
# The output's gradient (which two plans read), source, weights, and the gradients of these and the biases.
has out '^fc inner_product backward 9408 9536 8192 2$'
has out '^- plan 9536 2$'
has out '^updates - update 24000 24000 0 1$' # 5 arrays of 4800 bytes

for device in cpu sim; do
    "$operations" --trial --device $device "$T/net.ini" job.batch=4 >"$T/out" 2>"$T/err" || fail "no table on $device"
    has out "^$device.*, fp32: a copy of 4 MiB reads and writes [0-9.]+ GB/s; a product of side 128 [0-9.]+ Gflop/s"
    has out '^layer +type +pass +ms +MB +GB/s +share +Gflop +Gflop/s +share$'
    for pass in forward backward; do
        for row in 'conv +convolution' 'fc +inner_product' 'loss +softmax_loss' '\(type\) +convolution'; do
            has out "^$row +$pass( +[0-9.]+){7}\$"
        done
    done
    hasnt out '^image'
    has out '^\(all\) +- +both( +[0-9.]+){7}$'
done

! "$operations" --count --device sim "$T/net.ini" >"$T/out" 2>"$T/err" || fail "it counts on another device"
has err 'usage: operations'
! "$operations" "$T/net.ini" layer.conv.kernel=9 >"$T/out" 2>"$T/err" || fail "a wrong net is accepted"
has err 'conv'

# bench/estimate: a case's row, and its model on numbers that can be checked by hand.
have_python || exit 0
python3 "$SW_SOURCE_DIR/bench/estimate" --operations "$operations" --layers mlp gru >"$T/out" 2>"$T/err" ||
    fail "there is no estimate"
has out '^An estimate for an H200, not a measurement'
has out '^mlp +tf32( +[0-9.]+){8} +launch bound$'
has out '^gru +tf32 '
has out '^    gru +gru +backward '
python3 - "$SW_SOURCE_DIR/bench/estimate" 2>"$T/err" <<'END' || fail "the model is wrong"
import importlib.machinery, importlib.util, sys
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("estimate", sys.argv[1])
e = importlib.util.module_from_spec(importlib.util.spec_from_loader("estimate", loader))
loader.exec_module(e)
e.BANDWIDTH, e.LAUNCH_S, e.PEAK, e.EFFICIENCY = 1000, 0.5, {"tf32": 100}, {"tf32": 0.5}
e.SHARES, e.OTHER_SHARES = {"convolution": (0.5, 1), "add": (0.1, 1)}, (0.25, 1)
e.EXTRA, e.RECURRENT = {"tf32": (2, 0)}, {"recurrent": (2, (6, 1))}
conv, gru = e.parse("""c convolution forward 0 900 300 2
- plan 500 1
- add 400 1
r gru forward 0 250 100 1
- recurrent 250 1""")
# The plan: 300 flops at 50 per second, then 500 bytes twice at 500; the sum: 400 bytes at 100; two launches.
assert e.pass_s(conv, "tf32", e.NOW) == 6 + 2 + 4 + 1
assert e.pass_s(conv, "tf32", e.AIM) == 6 + 0.4 + 1
# 100 flops at 50 per second, three launches, and 5 time steps.
assert e.pass_s(gru, "tf32", e.NOW, time_steps=5) == 2 + 1.5 + 30
assert e.pass_s(gru, "tf32", e.AIM, time_steps=5) == 2 + 1.5 + 5
END
