# ctest-timeout: 180
# A resumed run is bit-identical to an uninterrupted one: after an early end, after a kill -9, and with
# the newest checkpoint damaged. Runs that cannot be resumed are refused with a reason.
. "$(dirname "$0")/lib.sh"

expect 0 run "$tiny" --out "$T/whole" --name whole --set job.checkpoint_every=10 --quiet
whole=$T/whole/checkpoint-40.safetensors
[ -s "$whole" ] || fail 'no checkpoint at step 40'

same_as_whole() {
    expect 0 eval "$tiny" --weights "$whole" --json
    sed 's/"weights.*//; s/"run.*//' "$T/out" >"$T/expected"
    expect 0 eval "$tiny" --weights "$1" --json
    sed 's/"weights.*//; s/"run.*//' "$T/out" | cmp -s - "$T/expected" ||
        fail "$1: $(cat "$T/out") where the whole run has $(cat "$T/expected")"
    have_python && same_tensors "$whole" "$1"
    return 0
}

# Two runs with one seed.
expect 0 run "$tiny" --out "$T/again" --name again --quiet
same_as_whole "$T/again/checkpoint-40.safetensors"
expect 0 run "$tiny" --out "$T/other" --set job.seed=2 --quiet
have_python && python3 "$SW_SOURCE_DIR/tests/cli/same_tensors.py" "$whole" \
    "$T/other/checkpoint-40.safetensors" >/dev/null && fail 'another seed gives the same bits'

# Stopped half-way.
expect 0 run "$tiny" --out "$T/half" --name half --steps 15 --quiet
expect 0 resume half --steps 23 --no-ui
has out '^run +[0-9]+, half .*from step 15'
has out '^step=16 '
hasnt out '^step=15 '
expect 0 resume half --steps 40
same_as_whole "$T/half/checkpoint-40.safetensors"
expect 0 resume half
has err 'already at step 40 of 40'
expect 0 resume half --steps 30
has err 'already at step 40, beyond step 30'
expect 0 resume half --set job.steps=30
has err 'already at step 40, beyond step 30'

# Overrides and folder come from the run.
expect 0 run "$tiny" --out "$T/set" --name set --steps 10 --set layer.fc1.outputs=9 --quiet
rm -f "$T/gone.ini"
cp "$tiny" "$T/gone.ini"
expect 0 run "$T/gone.ini" --out "$T/gone" --name gone --steps 10 --quiet
rm "$T/gone.ini"
expect 0 resume set --steps 12
has out "^checkpoint +$T/set/checkpoint-12"
expect 0 resume gone --steps 40 --quiet
same_as_whole "$T/gone/checkpoint-40.safetensors"

# So do --device and --framework.
expect 0 run "$tiny" --out "$T/sim" --name sim --steps 10 --device sim:gpus=2,mem=64MiB \
    --framework sandblaster --oversubscribe --quiet
expect 0 resume sim -v --steps 12 --oversubscribe
has out 'worker0\.1 +sim:1,'
has out 'sandblaster'
expect 0 resume sim -v --steps 14 --device cpu --set cluster.workers_per_group=1
has out '^placement +worker0\.0 +cpu,'

# Killed several times at random moments.
"$SW" run "$tiny" --out "$T/killed" --name killed --set job.checkpoint_every=1 --quiet \
    >"$T/out" 2>"$T/err" &
pid=$!
children="$children $pid"
until_true 20 test -e "$T/killed/checkpoint-3.safetensors"
kill -9 "$pid" 2>/dev/null
wait "$pid" 2>/dev/null
expect 0 resume killed
same_as_whole "$T/killed/checkpoint-40.safetensors"

# The newest checkpoint is damaged or truncated: the previous one is used, with a message.
expect 0 run "$tiny" --out "$T/hurt" --name hurt --steps 30 --set job.checkpoint_every=10 --quiet
newest=$T/hurt/checkpoint-30.safetensors
size=$(wc -c <"$newest")
printf 'X' | dd of="$newest" bs=1 seek=$((size / 2)) conv=notrunc 2>/dev/null
expect 0 resume hurt --steps 31
has err 'checkpoint-30\.safetensors'
has err 'step 20'
has out 'from step 20'
expect 0 resume hurt --steps 40
same_as_whole "$T/hurt/checkpoint-40.safetensors"
head -c $((size / 3)) "$whole" >"$T/hurt/checkpoint-40.safetensors"
expect 0 resume hurt --steps 42
has err 'checkpoint-40\.safetensors'
# If the last checkpoint of a finished run is damaged, resume fails and names the previous one.
expect 0 run "$tiny" --out "$T/done" --name done --steps 30 --set job.checkpoint_every=10 --quiet
expect 0 resume done --steps 30
printf 'X' | dd of="$T/done/checkpoint-30.safetensors" bs=1 seek=$((size / 2)) conv=notrunc 2>/dev/null
expect 3 resume done --steps 30
has err 'done/checkpoint-30\.safetensors.*newest undamaged checkpoint is that of step 20, .*checkpoint-20\.safetensors'
rm "$T/done/checkpoint-30.safetensors"
expect 0 resume done --steps 30
has out 'from step 20'
for file in "$T"/hurt/checkpoint-*.safetensors; do
    : >"$file"
done
expect 3 resume hurt --steps 50
rm -f "$T"/hurt/checkpoint-*
expect 3 resume hurt --steps 50
has err 'files of its 7 checkpoints are missing'

# A power cut may lose the newest rows of the history: a checkpoint of the run in its folder counts, one
# of another run does not.
if have_python; then
    expect 0 run "$tiny" --out "$T/lost" --name lost --steps 20 --quiet
    cp "$T/other/checkpoint-40.safetensors" "$T/lost/checkpoint-35.safetensors"
    python3 - "$SINGA_DB" <<'END' || fail 'the history could not be edited'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
run = db.execute("select id from runs where name = 'lost'").fetchone()[0]
db.execute("delete from checkpoints where run_id = ? and step > 0", (run,))
db.commit()
END
    expect 0 resume lost --steps 40
    has out 'from step 20'
    same_as_whole "$T/lost/checkpoint-40.safetensors"
fi

# A folder with the checkpoints of another run is refused and not changed.
expect 0 run "$tiny" --out "$T/both" --name one --steps 10 --quiet
cp "$T/both/checkpoint-10.safetensors" "$T/before"
one=$(sql "SELECT id FROM runs WHERE name = 'one'")
expect 2 run "$tiny" --out "$T/both" --name two --steps 10 --set job.seed=5 --quiet
has err "both holds the checkpoints of run $one up to step 10"
has err 'choose another --out'
cmp "$T/before" "$T/both/checkpoint-10.safetensors" || fail 'a refused run wrote into the folder'
[ "$(sql "SELECT count(*) FROM runs WHERE name = 'two'")" = 0 ] || fail 'a refused run is in the history'
expect 0 history rm one --yes
expect 2 run "$tiny" --out "$T/both" --name two --steps 10 --set job.seed=5 --quiet
has err 'a run that is not in this history'
rm "$T"/both/checkpoint-*

# The advice of the message works; a folder with only the initial values is accepted.
expect 0 run "$tiny" --out "$T/both" --name three --steps 10 --quiet
expect 0 history rm three --files --yes
cp "$T/whole/checkpoint-0.safetensors" "$T/both"
expect 0 run "$tiny" --out "$T/both" --name four --steps 10 --quiet
[ -e "$T/both/run.lock" ] && fail 'a run that has ended left its lock'

# Files with which another program replaced checkpoints of the run are refused.
cp "$T/other/checkpoint-40.safetensors" "$T/both/checkpoint-10.safetensors"
rm "$T/both/checkpoint-0.safetensors"
expect 3 resume four --steps 12
has err 'its checksum differs from that in the history'

# No such run, no history, a run that is alive.
expect 3 resume no-such-run
has err 'no-such-run'
expect 3 resume --db "$T/none.db"
[ -e "$T/none.db" ] && fail 'resume created a history'
start run "$tiny" --out "$T/alive" --name alive --set job.steps=100000000 --set job.eval_every=0
until_true 20 file_has out '^step=5 '
"$SW" resume alive >"$T/refused" 2>&1
got=$?
[ "$got" = 2 ] || fail "resume of a running run: exit $got"
grep -qE "pid $pid on .*, since 20" "$T/refused" || fail "the pid is not named: $(cat "$T/refused")"
expect 2 run "$tiny" --out "$T/alive" --name second
has err "alive is in use: pid $pid on .* run [0-9]+ there since 20.*; choose another --out"
[ -e "$T/alive/run.lock" ] || fail 'the lock of a running run is gone'
kill -9 "$pid"
wait "$pid" 2>/dev/null
exit 0
