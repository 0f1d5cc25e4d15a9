# ctest-timeout: 240
# kill -9 at random moments of a run, again and again in what goes on: the last checkpoint has the
# bytes of a run that was left alone, and the history is whole. Where to kill is drawn anew in every
# run; a failure prints it.
set -u
SW=${SW:?the program to test}
T=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill -9 "$pid" 2>/dev/null; rm -rf "$T"' EXIT
trap 'exit 1' INT TERM
export HOME="$T" XDG_STATE_HOME="$T/state" XDG_RUNTIME_DIR="$T/live" SINGA_DB="$T/history.db"
mkdir -m 700 "$T/live"
steps=3000
interval=23
rounds=${ROUNDS:-20}
seconds=${SECONDS_AT_MOST:-25}

fail() {
    echo "FAILED: $*" >&2
    [ -z "${moments:-}" ] || echo "killed after (s): $moments" >&2
    tail -n 20 "$T/out" "$T/err" >&2
    exit 1
}
sql() {
    "$SW" history sql "$1" || fail "history sql $1"
}
now() {
    date +%s
}

# Everything that is random takes part; a checkpoint every few steps is written, and an old one
# removed, at most moments.
cat >"$T/net.ini" <<END
[job]
name = killed
batch = 16
eval_batch = 20
steps = $steps
eval_every = 250
checkpoint_every = $interval
keep_checkpoints = 2
checkpoint_best = yes
[data train]
format = synthetic
classes = 4
records = 200
height = 16
width = 16
mean = 127
std = 64
crop = 14
mirror = yes
shuffle = yes
[data test]
format = synthetic
classes = 4
records = 53
height = 16
width = 16
mean = 127
std = 64
crop = 14
[updater]
type = sgd
lr = 0.02
policy = inverse
gamma = 0.01
power = 0.75
momentum = 0.9
weight_decay = 0.0005
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
[layer pool1]
type = pooling
src = conv1
method = max
kernel = 2
stride = 2
[layer relu1]
type = activation
src = pool1
function = relu
[layer fc1]
type = inner_product
src = relu1
outputs = 24
[layer drop]
type = dropout
src = fc1
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

last=checkpoint-$steps.safetensors
began=$(date +%s%N)
"$SW" run "$T/net.ini" --out "$T/whole" --quiet >"$T/out" 2>"$T/err" || fail 'the run left alone'
whole_ms=$((($(date +%s%N) - began) / 1000000))
echo "a run takes $whole_ms ms"

# A moment within that time, as seconds.
draw_moment() {
    random=$(od -An -N4 -tu4 /dev/urandom)
    ms=$((random % whole_ms))
    moment=$((ms / 1000)).$(printf %03d $((ms % 1000)))
    moments="$moments $moment"
}

# kill_during ARGUMENT...: starts the program and kills it at a random moment, if it still runs then.
# A whole run that does not was quicker than the one left alone: the machine has less to do by now.
kill_during() {
    draw_moment
    "$SW" "$@" >"$T/out" 2>"$T/err" </dev/null &
    pid=$!
    sleep "$moment"
    if kill -9 "$pid" 2>/dev/null; then
        kills=$((kills + 1))
    elif [ "$1" = run ]; then
        whole_ms=$((whole_ms / 2 + 1))
    fi
    wait "$pid" 2>/dev/null
    pid=
}

kills=0
round=0
until_s=$(($(now) + seconds))
while [ $round -lt "$rounds" ] && { [ "$(now)" -lt "$until_s" ] || [ $kills = 0 ]; }; do
    round=$((round + 1))
    moments=
    out=$T/$round
    kill_during run "$T/net.ini" --out "$out"
    # Killed before there was anything to go on from: the user runs it again.
    while ! ls "$out"/checkpoint-*.safetensors >"$T/out" 2>&1; do
        kill_during run "$T/net.ini" --out "$out"
    done
    tries=0
    while [ ! -e "$out/$last" ] && [ $tries -lt 3 ]; do
        tries=$((tries + 1))
        kill_during resume @last
    done
    if [ ! -e "$out/$last" ]; then
        "$SW" resume @last --quiet >"$T/out" 2>"$T/err" || fail "round $round: resume: exit $?"
    fi
    # Name, recipe and set-up are the same, so the metadata are, too.
    cmp "$T/whole/$last" "$out/$last" || fail "round $round: the last checkpoint differs"
    left=$(find "$out" -name '*.tmp-*' | wc -l)
    [ "$left" -le 1 ] || fail "round $round: $left temporary files"
    # The newest two, the best, and the one that the last segment went on from.
    kept=$(find "$out" -name '*.safetensors' | wc -l)
    [ "$kept" -le 4 ] || fail "round $round: $kept checkpoints were kept"
done
echo "$round rounds, $kills kills"
[ $kills -gt 0 ] || fail "no kills in $round rounds"

# A kill between a checkpoint's file and its row may cost the points since the one before, which were
# not stored yet; nothing else is missing, nothing is there twice, and no point is another's.
[ "$(sql 'PRAGMA integrity_check')" = ok ] || fail 'the database is damaged'
[ -z "$(sql 'PRAGMA foreign_key_check')" ] || fail 'rows without a run'
for run in $(sql "SELECT id FROM runs WHERE status = 'done'"); do
    points="FROM metrics WHERE run_id = $run AND split = 'train' AND name = 'loss'"
    [ "$(sql "SELECT max(step) $points")" = $steps ] || fail "run $run: no point at step $steps"
    [ "$(sql "SELECT count(*) - count(DISTINCT step) $points")" = 0 ] ||
        fail "run $run: a step with two points"
    segments=$(sql "SELECT count(*) FROM segments WHERE run_id = $run")
    missing=$(sql "SELECT $steps - count(*) $points")
    [ "$missing" -le $((interval * (segments - 1))) ] ||
        fail "run $run: $missing points are missing after $((segments - 1)) kills"
    differing=$(sql "SELECT count(*) FROM metrics a JOIN metrics b USING (split, name, step)
        WHERE a.run_id = 1 AND b.run_id = $run AND name = 'loss' AND a.value <> b.value")
    [ "$differing" = 0 ] || fail "run $run: $differing points are not those of the run left alone"
done
# Rows of checkpoints are files, and one of them is the best.
for path in $(sql 'SELECT path FROM checkpoints'); do
    [ -s "$path" ] || fail "the history promises $path"
done
[ "$(sql "SELECT count(*) FROM (SELECT run_id FROM checkpoints JOIN runs ON runs.id = run_id
    WHERE status = 'done' GROUP BY run_id HAVING sum(is_best) <> 1)")" = 0 ] ||
    fail 'a run without a best checkpoint, or with several'
finished=$(sql "SELECT count(*) FROM runs WHERE status = 'done'")
[ "$finished" -gt $((round / 2)) ] || fail "only $finished runs are done"
exit 0
