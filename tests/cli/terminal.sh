# On a terminal: one status line that is overwritten, cut to the width, and ended before the table.
. "$(dirname "$0")/lib.sh"
command -v script >/dev/null 2>&1 || skip 'script (util-linux) is not here to make a terminal'

script -qec true /dev/null >/dev/null 2>&1 </dev/null || skip 'no pseudo-terminal can be made here'

# on_terminal WIDTH [NAME=VALUE...]: a run on a terminal of that width; its screen in $T/out.
on_terminal() {
    width=$1
    shift
    rm -rf "$T/run"
    env TERM=xterm "$@" script -qec "stty cols $width rows 24; exec '$SW' run '$tiny' \
--out '$T/run' --set job.steps=30000 --set job.eval_every=5000" /dev/null >"$T/out" 2>"$T/err" \
        </dev/null || fail "exit $? on a terminal"
    tr '\r' '\n' <"$T/out" >"$T/lines"
    esc=$(printf '\033')
    sed "s/$esc\[[0-9;]*[A-Za-z]//g" "$T/lines" >"$T/plain"
}
file_matches() {
    grep -qE -- "$2" "$T/$1" || fail "no /$2/ in $1: $(tail -n 5 "$T/$1")"
}

on_terminal 120
file_matches plain '^run +1, '
file_matches plain '^step [0-9]+/30000  [0-9.]+%  loss [0-9.]+.*samples/s  ETA '
file_matches plain '^step [0-9]+/30000 .* accuracy [0-9.]+'
file_matches plain '^step=5000 split=test loss='
file_matches plain '^done +run 1'
# The table starts on a new line.
tr -d '\r' <"$T/out" | grep -qE '^done +run 1' || fail 'the status line was not ended'
[ "$(grep -cE '^step=[0-9]+ steps=' "$T/plain")" = 0 ] || fail 'a log line for a display'

on_terminal 40
awk '/^step [0-9]+\// && length($0) > 39 { print; bad = 1 } END { exit bad }' "$T/plain" ||
    fail 'a status line is wider than the terminal'
file_matches plain '^step [0-9]+/30000'

# Colors depend on NO_COLOR and the terminal; a dumb terminal gets plain lines.
on_terminal 80 NO_COLOR=1
grep -q "$esc\[3[0-9]m" "$T/out" && fail 'colours in spite of NO_COLOR'
on_terminal 80 TERM=dumb
file_matches plain '^step=1 steps=30000 '
grep -q "$esc" "$T/out" && fail 'an escape on a dumb terminal'
exit 0
