#!/bin/sh
# ctest-timeout: 300
# device = auto: a GPU is tested once, and used if it computes correctly; else the run uses the CPU and
# says why. The two GPUs are the kernels compiled
# for the CPU.
. "$(dirname "$0")/lib.sh"

[ ! -e /dev/nvidiactl ] || skip "the machine has GPUs of its own"
[ -f "${SW_CUDA_ON_HOST:-}" ] || skip "the kernels on the host are not built"
unset SINGA_AUTO

# run NAME OPTION...: two steps; its device goes to $T/device.
train() {
    name=$1
    shift
    expect 0 run "$tiny" -v --steps 2 --set job.eval_every=0 --out "$T/$name" --name "$name" --no-ui "$@"
    cp "$T/out" "$T/report"
    expect 0 history sql "SELECT device FROM runs WHERE name = '$name'"
    cp "$T/out" "$T/device"
}
# uses DEVICE: so the history says.
uses() {
    grep -qx "$1" "$T/device" || { cat "$T/report" >&2; fail "the run used $(cat "$T/device"), not $1"; }
}
# says PATTERN; without one, that there is nothing to say.
says() {
    grep -E '^device ' "$T/report" >"$T/line" || true
    [ $# -gt 0 ] || { [ ! -s "$T/line" ] || fail "a reason: $(cat "$T/line")"; return 0; }
    grep -Eq "$1" "$T/line" || fail "no '$1' in '$(cat "$T/line")'"
}
# probe NAME LINE...: a program that tests nothing and runs these lines.
probe() {
    printf '#!/bin/sh\n%s\n' "$2" >"$T/probe-$1"
    chmod +x "$T/probe-$1"
    export SINGA_PROBE="$T/probe-$1"
}
forget() {
    rm -f "$XDG_STATE_HOME/singa-ws/ways"
}

export XDG_STATE_HOME="$T/state"
train without
uses cpu
says

export SINGA_CUDA_MODULE="$SW_CUDA_ON_HOST"
# A recipe is checked without a test of the GPU; the first run tests it, and the second one knows.
expect 0 check "$tiny"
has out '^device +cpu: cuda:0 .* is not used: it has not been tested yet'
train first
uses cuda
says
[ "$(grep -c '^self|' "$XDG_STATE_HOME/singa-ws/ways")" = 2 ] || fail 'the result was not saved'
probe counts "echo tested >>'$T/tested'; echo ready; echo ok 0 0"
train second
uses cuda
[ ! -e "$T/tested" ] || fail 'the GPU was tested again'
expect 0 check "$tiny"
hasnt out '^device '

# A CPU run is resumed on the CPU.
expect 0 resume without -v --steps 3
has out 'cpu'
hasnt out 'cuda'

# More workers than GPUs.
train many --set cluster.workers_per_group=3 --oversubscribe
uses cpu
says '3 workers need a CUDA device each, and there are 2'

forget
probe wrong "echo ready; echo damaged a sum is wrong"
train wrong
uses cpu
says 'cpu: cuda:0 .* is not used: a sum is wrong$'
forget
probe one 'echo ready; case $1 in *02:00.0) echo damaged a sum is wrong;; *) echo ok 0 0;; esac'
train one
uses cuda:0
says 'cuda:0: cuda:1 .* is not used: a sum is wrong$'
forget
probe wrong "echo ready; echo damaged a sum is wrong"
train again
unset SINGA_PROBE
train still
uses cpu
says 'a sum is wrong$'

forget
probe crash 'echo ready; kill -9 $$'
train crash
uses cpu
says 'the probe process died$'

forget
probe hang 'exec sleep 1000'
train hang
uses cpu
says 'not finished within 15 s$'
