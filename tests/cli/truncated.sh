# ctest-timeout: 120
# Files that another program truncates while a run reads or writes them: a message and an exit code, no
# signal. The last checkpoint of the run remains.
. "$(dirname "$0")/lib.sh"
unset XDG_RUNTIME_DIR # the live snapshot lies in the state folder then
forever='--set job.steps=100000000 --set job.eval_every=0 --set job.checkpoint_every=5'

# A shard that has been read before, truncated to zero bytes and to part of its records.
for left in 0 20000; do
    expect 0 data import "$tiny" --out "$T/train-$left.shard"
    start run "$tiny" --out "$T/shard-$left" $forever \
        --set data.train.format=shard --set data.train.paths="$T/train-$left.shard"
    until_true 20 file_has out '^step=10 checkpoint='
    truncate -s "$left" "$T/train-$left.shard"
    ended 3
    has err "data train: .*train-$left\.shard: was truncated from [0-9]+ to $left bytes while it"
    [ -n "$(latest "$T/shard-$left")" ] || fail 'the failed run kept no checkpoint'
done

# The live snapshot: viewers report it; the run continues and reports it once.
start run "$tiny" --out "$T/snapshot" --name snapshot $forever
until_true 20 file_has out '^step=5 '
live=$(find "$T/state" -name '*.live')
[ -s "$live" ] || fail 'there is no live snapshot'
truncate -s 0 "$live"
until_true 20 file_has out 'another program truncated it'
expect 0 top snapshot --once
before=$(latest "$T/snapshot")
another() {
    now=$(latest "$T/snapshot")
    [ "$now" != "$before" ]
}
until_true 20 another
kill -s TERM "$pid"
wait "$pid"
got=$?
[ "$got" = 75 ] || fail "the run whose snapshot was truncated: exit $got, not 75"
