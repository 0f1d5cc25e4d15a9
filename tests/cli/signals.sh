# ctest-timeout: 120
# SIGINT and SIGTERM stop with a checkpoint and exit 75, SIGUSR1 saves, SIGHUP changes nothing.
. "$(dirname "$0")/lib.sh"
forever='--set job.steps=100000000 --set job.eval_every=0'

for signal in INT TERM; do
    start run "$tiny" --out "$T/$signal" --name "$signal" $forever
    until_true 20 file_has out '^step=5 '
    kill -s $signal "$pid"
    ended 75
    has err 'singa-ws resume'
    has out '^stopped '
    checkpoint=$(latest "$T/$signal")
    step=${checkpoint##*-}
    step=${step%.safetensors}
    [ "${step:-0}" -ge 5 ] || fail "$signal left checkpoint '$checkpoint'"
    has out "^step=$step checkpoint=$checkpoint"
    # Only the checkpoints remain.
    left=$(find "$T/$signal" -type f ! -name 'checkpoint-*.safetensors')
    [ -z "$left" ] || fail "left behind: $left"
    expect 0 resume "$signal" --steps $((step + 3)) --no-ui
    has out "^step=$((step + 1)) "
    [ -s "$T/$signal/checkpoint-$((step + 3)).safetensors" ] || fail "$signal: resume did not end"
done

# A checkpoint on request; the training continues.
start run "$tiny" --out "$T/usr1" $forever
until_true 20 file_has out '^step=5 '
before=$(latest "$T/usr1")
kill -s USR1 "$pid"
saved() {
    now=$(latest "$T/usr1")
    [ -n "$now" ] && [ "$now" != "$before" ]
}
until_true 20 saved
kill -0 "$pid" || fail 'SIGUSR1 ended the run'

# The training survives the loss of its terminal.
kill -s HUP "$pid"
sleep 0.3
kill -0 "$pid" || fail 'SIGHUP ended the run'
kill -s TERM "$pid"
ended 75

# A second signal ends the run at once; the last checkpoint can be resumed.
start run "$tiny" --out "$T/twice" --name twice --set job.checkpoint_every=3 $forever
until_true 20 file_has out '^step=5 '
kill -s INT "$pid"
kill -s INT "$pid"
wait "$pid"
got=$?
case $got in
1 | 75) ;;
*) fail "two signals: exit $got" ;;
esac
checkpoint=$(latest "$T/twice")
step=${checkpoint##*-}
step=${step%.safetensors}
expect 0 resume twice --steps $((step + 2)) --quiet
