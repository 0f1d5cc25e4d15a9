# ctest-timeout: 120
# The control socket: private, answers a line with a line, stops a run like SIGTERM, and is removed when
# the run ends, or by the next run after a crash.
. "$(dirname "$0")/lib.sh"
have_python || skip 'python3 is not installed'
export XDG_RUNTIME_DIR="$T/run"
mkdir -m 700 "$T/run"
forever='--set job.steps=100000000 --set job.eval_every=0'
live=$T/run/singa-ws
# tell LINE: sends it to the only running job.
tell() {
    python3 - "$live" "$1" <<'END'
import glob, os, socket, sys
os.chdir(sys.argv[1])
s = socket.socket(socket.AF_UNIX)
s.settimeout(10)
s.connect(glob.glob("*.sock")[0])
s.sendall(sys.argv[2].encode() + b"\n")
print(s.makefile().readline().strip())
END
}
is() {
    [ "$2" = "$3" ] || fail "$1: '$2', not '$3'"
}

start run "$tiny" --out "$T/told" --name told $forever
until_true 20 file_has out '^step=5 '
is 'mode of the folder' "$(stat -c %a "$live")" 700
is 'mode of the socket' "$(stat -c %a "$live"/*.sock)" 600
is pause "$(tell pause)" 'ok: the run will pause after the current step'
until_true 20 file_has out 'paused by request after step'
is note "$(tell 'note looks fine')" 'ok: noted'
is continue "$(tell continue)" 'ok: the run continues'
until_true 20 file_has out 'the pause after step'
is nonsense "$(tell frobnicate)" \
    "error: unknown request 'frobnicate'; use pause, continue, checkpoint, stop or note TEXT"
is stop "$(tell stop)" 'ok: the run will stop after the current step and write a checkpoint'
ended 75
is 'left behind' "$(ls "$live")" ''
is 'note in the history' \
    "$(sql "SELECT count(*) FROM events WHERE source = 'note' AND text = 'looks fine'")" 1

start run "$tiny" --out "$T/killed" --name killed $forever
until_true 20 file_has out '^step=5 '
kill -9 "$pid"
wait "$pid"
[ "$(ls "$live" | wc -l)" = 2 ] || fail "a crash leaves $(ls "$live")"
expect 0 run "$tiny" --out "$T/next" --steps 2
is 'left behind by a crash' "$(ls "$live")" ''
