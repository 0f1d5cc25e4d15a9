# Shared by the scripts of this folder: a private state directory, a small recipe, and checks. SW is
# the binary, SW_SOURCE_DIR the sources.
set -u
SW=${SW:?the program to test}
SW_SOURCE_DIR=${SW_SOURCE_DIR:?the source tree}
T=$(mktemp -d)
children=
# Kill all processes that the script started when it ends.
finish() {
    for child in $children; do
        kill -9 "$child" 2>/dev/null
    done
    [ -z "${mounted:-}" ] || umount "$mounted"
    rm -rf "$T"
}
trap finish EXIT
trap 'exit 1' INT TERM
export XDG_STATE_HOME="$T/state" SINGA_DB="$T/history.db" SINGA_REGISTRY="$T/registry"
unset SINGA_DATA NO_COLOR

fail() {
    echo "FAILED: $*" >&2
    for file in out err; do
        [ -s "$T/$file" ] && { echo "--- $file"; tail -n 20 "$T/$file"; } >&2
    done
    exit 1
}
skip() {
    echo "skipped: $*"
    exit 77
}

# expect CODE ARGUMENT...: runs the program into $T/out and $T/err and checks the exit code.
expect() {
    wanted=$1
    shift
    "$SW" "$@" >"$T/out" 2>"$T/err" </dev/null
    got=$?
    [ "$got" = "$wanted" ] || fail "singa-ws $*: exit $got, not $wanted"
}
# has FILE PATTERN: an extended regular expression matches a line.
has() {
    grep -qE -- "$2" "$T/$1" || fail "no /$2/ in $1"
}
hasnt() {
    ! grep -qE -- "$2" "$T/$1" || fail "there is /$2/ in $1"
}
# until_true SECONDS COMMAND...: waits until the command succeeds, else fails. Waits up to ten times as
# long on a busy machine.
until_true() {
    tries=$(($1 * 200))
    shift
    until "$@"; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || fail "waited in vain for: $*"
        sleep 0.05
    done
}
file_has() {
    grep -qE -- "$2" "$T/$1" 2>/dev/null
}
# start ARGUMENT...: runs the program in the background as $pid, and removes earlier output first.
start() {
    : >"$T/out"
    "$SW" "$@" >"$T/out" 2>"$T/err" </dev/null &
    pid=$!
    children="$children $pid"
}
# ended CODE: $pid has exited with this code.
ended() {
    wait "$pid"
    got=$?
    [ "$got" = "$1" ] || fail "exit $got, not $1"
}
# The newest checkpoint of a run's folder.
latest() {
    ls "$1"/checkpoint-*.safetensors 2>/dev/null | sort -t- -k2 -V | tail -n 1
}
# sql QUERY: one value of the history, read with the program itself.
sql() {
    "$SW" history sql "$1" | tail -n 1
}
have_python() {
    command -v python3 >/dev/null 2>&1
}
# same_tensors A B: parameters and updater state of two checkpoints have the same bits.
same_tensors() {
    python3 "$SW_SOURCE_DIR/tests/cli/same_tensors.py" "$1" "$2" || fail "$1 and $2 differ"
}

# linear NAME: prints the smallest recipe that trains, one layer with 4 outputs.
linear() {
    printf '[job]\nname = %s\nbatch = 8\n' "$1"
    cat <<'END'
[data train]
format = synthetic
classes = 4
records = 64
height = 8
width = 8
[updater]
type = sgd
lr = 0.01
[layer image]
type = input
field = image
[layer label]
type = input
field = label
[layer fc]
type = inner_product
src = image
outputs = 4
[layer loss]
type = softmax_loss
src = fc, label
END
}

# A net that uses all randomness: initial values, order, crop, mirror, dropout.
tiny=$T/tiny.ini
cat >"$tiny" <<'END'
[job]
name = tiny
batch = 16
eval_batch = 32
steps = 40
eval_every = 20
[data train]
format = synthetic
classes = 4
records = 200
channels = 3
height = 12
width = 12
mean = 127
std = 64
crop = 10
mirror = yes
shuffle = yes
[data test]
format = synthetic
classes = 4
records = 50
channels = 3
height = 12
width = 12
mean = 127
std = 64
crop = 10
[updater]
type = sgd
lr = 0.02
policy = inverse
gamma = 0.001
power = 0.75
momentum = 0.9
weight_decay = 0.0005
[updater *.bias]
lr_mult = 2
[layer image]
type = input
field = image
[layer label]
type = input
field = label
[layer conv1]
type = convolution
src = image
outputs = 8
kernel = 3
[layer relu1]
type = activation
src = conv1
function = relu
[layer pool1]
type = pooling
src = relu1
method = max
kernel = 2
stride = 2
[layer fc1]
type = inner_product
src = pool1
outputs = 32
[layer relu2]
type = activation
src = fc1
function = relu
[layer drop]
type = dropout
src = relu2
ratio = 0.3
[layer fc2]
type = inner_product
src = drop
outputs = 4
[layer loss]
type = softmax_loss
src = fc2, label
[layer accuracy]
type = accuracy
src = fc2, label
include = eval
END
