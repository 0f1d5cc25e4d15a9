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
has out '^updates - update 24000 24000 0 4$' # 5 arrays of 4800 bytes

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
