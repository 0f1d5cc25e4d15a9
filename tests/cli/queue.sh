# ctest-timeout: 120
# The queue: run --when-free waits for cores, says for what, starts in the order of arrival, and is left
# by a signal.
. "$(dirname "$0")/lib.sh"
export XDG_RUNTIME_DIR="$T/run"
mkdir -m 700 "$T/run"
forever='--set job.steps=100000000 --set job.eval_every=0'
is_queued() {
    "$SW" ps | grep -qE "^ *-- +$1 +[0-9]+ +[^ ]+ +queued "
}
queue() { # NAME OPTION...: in the background as $pid, into $T/NAME
    name=$1
    shift
    "$SW" run "$tiny" --when-free --name "$name" --out "$T/$name.d" "$@" >"$T/$name" 2>&1 </dev/null &
    pid=$!
    children="$children $pid"
    until_true 20 is_queued "$name"
}

# On a free machine it starts at once.
expect 0 run "$tiny" --when-free --name free --steps 2
hasnt err 'waiting'

start run "$tiny" --name holder $forever
holder=$pid
until_true 20 file_has out '^step=5 '
queue early --steps 2
early=$pid
has early '^singa-ws: waiting for [0-9]+ cores? \(0 of [0-9]+ free\): cores? [0-9-]+ (is|are) used by run 2 "holder" \(pid '"$holder"'\); Ctrl-C leaves the queue$'
queue leaves --steps 2
leaves=$pid
has leaves '; 1 run waits before this one'
queue late --cores 1 --steps 2
late=$pid
has late 'waiting for 1 core .*; 2 runs wait before this one'
expect 0 ps
has out '^ +2 +holder +'"$holder"' .* running '
has out "^early \(pid $early\) waits for [0-9]+ core"
[ "$(sql 'SELECT count(*) FROM runs')" = 2 ] || fail 'a queued run is in the history'
expect 0 run "$tiny" --detach --when-free --name detached --steps 2 --out "$T/detached.d"
has err '^singa-ws: process [0-9]+ is waiting for .*; .singa-ws ps. shows it'
until_true 20 is_queued detached

# Leaving the queue; the others are told.
kill -INT "$leaves"
pid=$leaves
ended 130
until_true 20 file_has late '; 1 run waits before this one'

# stop ends a queued run, as a signal does, also where an earlier run has its name; pause says that it
# is queued.
queue free --steps 2
expect 3 pause free
has err "^singa-ws: run \"free\" \(pid $pid\) is queued and not running yet: it waits for [0-9]+ core.*; .singa-ws stop free. ends it$"
expect 0 stop free
has err "^singa-ws: run \"free\" \(pid $pid\) has left the queue$"
ended 143
! is_queued free || fail 'it is still queued'
expect 2 resume holder
has err ' is still running .*; wait for its end, or use .singa-ws stop 2.$'

# The others start in the order of arrival.
expect 0 stop holder
has err '^singa-ws: run 2 "holder" is stopped after step .*; .singa-ws resume 2. continues it$'
for pid in $early $late; do
    ended 0
done
in_history() {
    [ "$("$SW" history sql "SELECT count(*) FROM runs WHERE name = '$1' AND status = 'done'")" = 1 ]
}
until_true 20 in_history detached
order=$("$SW" history sql "SELECT name FROM runs WHERE name IN ('early', 'late', 'detached')
    ORDER BY id" | tr '\n' ' ')
[ "$order" = 'early late detached ' ] || fail "started in the order $order"
hasnt early 'level=warning source=placement'
hasnt late 'level=warning source=placement'
nothing_is_registered() { # the detached run may still be ending
    [ "$(ls "$SINGA_REGISTRY" | grep -c '\.run$')" = 0 ]
}
until_true 20 nothing_is_registered

# With a second core free, a run that needs one does not wait for one that needs more.
expect 0 topo
limit=$(sed -n 's/^machine .* \([0-9]*\) cores\{0,1\}.*/\1/p' "$T/out")
[ "${limit:-1}" -ge 3 ] || exit 0
start run "$tiny" --name half --cores 1 $forever
until_true 20 file_has out '^step=5 '
queue all --steps 2 --cores $((limit - 1))
expect 0 stop half
