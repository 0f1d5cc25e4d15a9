# ctest-timeout: 120
# A process that was suspended for longer than the stall limit, as by a debugger or ^Z, continues: no
# thread is reported as stalled.
. "$(dirname "$0")/lib.sh"
start run "$tiny" --out "$T/stopped" --set job.steps=100000000 --set job.eval_every=0 \
    --set cluster.on_stall=stop --set cluster.stall_s=4 --set job.display_every=1000
until_true 20 file_has out '^step=2000 '
kill -s STOP "$pid"
sleep 7
before=$(tail -n 1 "$T/out")
kill -s CONT "$pid"
goes_on() {
    [ "$(tail -n 1 "$T/out")" != "$before" ]
}
until_true 20 goes_on
kill -0 "$pid" || fail 'it ended'
kill -s TERM "$pid"
ended 75
[ "$(sql "SELECT count(*) FROM events WHERE text LIKE 'stall%'")" = 0 ] || fail 'it was called a stall'
