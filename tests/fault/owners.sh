# ctest-timeout: 120
# Several processes want one folder: `run --out` several times at once, then kill -9, then `resume`
# several times at once. Exactly one trains; every other one exits with 2 and says who does. At the end
# the history and all checkpoints are whole. ROUNDS is how often.
set -u
SW=${SW:?the program to test}
T=$(mktemp -d)
rounds=${ROUNDS:-20}
many=5
finish() {
    for file in "$T"/pid.*; do
        [ -s "$file" ] && kill -9 "$(cat "$file")" 2>/dev/null
    done
    wait
    rm -rf "$T"
}
trap finish EXIT
trap 'exit 1' INT TERM
export HOME="$T" XDG_STATE_HOME="$T/state" XDG_RUNTIME_DIR="$T/live" SINGA_DB="$T/history.db"
mkdir -m 700 "$T/live"

fail() {
    echo "FAILED: round $round: $*" >&2
    tail -n 5 "$T"/out.* "$T"/err.* >&2
    exit 1
}
sql() {
    "$SW" history sql "$1" | tail -n 1
}

cat >"$T/net.ini" <<END
[job]
name = owned
batch = 4
steps = 100000000
checkpoint_every = 20
keep_checkpoints = 2
[data train]
format = synthetic
classes = 4
records = 16
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

# begin NUMBER ARGUMENT...: the program in the background; its pid, output and exit code are in files.
begin() {
    number=$1
    shift
    (
        sh -c 'echo $$ >"$0"; exec "$@"' "$T/pid.$number" "$SW" "$@" >"$T/out.$number" \
            2>"$T/err.$number" </dev/null
        echo $? >"$T/code.$number"
    ) 2>/dev/null &
}
# How many have ended.
ended() {
    ls "$T" | grep -c '^code\.'
}

# compete FOLDER ARGUMENT...: the program several times at once. One of them trains in FOLDER; it is
# killed when it has written the checkpoint that the next step needs.
compete() {
    folder=$1
    shift
    rm -f "$T"/pid.* "$T"/code.* "$T"/out.* "$T"/err.*
    for i in $(seq $many); do
        begin "$i" "$@"
    done
    tries=0
    while [ "$(ended)" -lt $((many - 1)) ]; do
        tries=$((tries + 1))
        [ $tries -lt 3000 ] || fail "$*: only $(ended) of $many have ended"
        sleep 0.02
    done
    winner=
    for i in $(seq $many); do
        [ -e "$T/code.$i" ] || winner=$i
    done
    [ "$winner" ] || fail "$*: nobody trains"
    pid=$(cat "$T/pid.$winner")
    for i in $(seq $many); do
        [ "$i" = "$winner" ] && continue
        [ "$(cat "$T/code.$i")" = 2 ] || fail "$*: exit $(cat "$T/code.$i"), not 2"
        grep -q "pid $pid\b" "$T/err.$i" || fail "$*: process $i does not name pid $pid"
    done
    tries=0
    until grep -q '^step=' "$T/out.$winner" && ls "$folder"/checkpoint-*.safetensors >"$T/found" 2>&1; do
        tries=$((tries + 1))
        [ ! -e "$T/code.$winner" ] || fail "$*: the one that trains has ended"
        [ $tries -lt 3000 ] || fail "$*: no step, or no checkpoint"
        sleep 0.02
    done
    kill -9 "$pid"
    wait
    [ "$(ended)" = $many ] || fail "$*: not all have ended"
}

round=0
while [ $round -lt "$rounds" ]; do
    round=$((round + 1))
    compete "$T/$round" run "$T/net.ini" --out "$T/$round"
    compete "$T/$round" resume @last
done

[ "$(sql 'PRAGMA integrity_check')" = ok ] || fail 'the history is damaged'
[ "$(sql 'SELECT count(*) FROM runs')" = "$rounds" ] || fail 'a process that was refused has a run'
[ "$(sql 'SELECT count(*) FROM segments')" = $((2 * rounds)) ] || fail 'a process that was refused has a segment'
for file in "$T"/[0-9]*/checkpoint-*.safetensors; do
    "$SW" weights "$file" verify >"$T/out.verify" 2>"$T/err.verify" || fail "$file is damaged"
done
exit 0
