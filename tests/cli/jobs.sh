# ctest-timeout: 120
# Several runs on one machine: they take free cores first, share only with a warning that names the
# other run, and a killed run gives its cores back. ps, pause, unpause, ctl and stop control them.
. "$(dirname "$0")/lib.sh"
expect 0 topo # counts cores, not hardware threads
limit=$(sed -n 's/^machine .* \([0-9]*\) cores\{0,1\}.*/\1/p' "$T/out")
[ "${limit:-1}" -ge 2 ] || skip 'this machine has one core'
export XDG_RUNTIME_DIR="$T/run"
mkdir -m 700 "$T/run"
forever='--set job.steps=100000000 --set job.eval_every=0'
cores_of() { # NAME: the cores that the start report of $T/NAME names
    sed -n 's/^placement .*cores \([0-9,-]*\).*/\1/p' "$T/$1"
}
registered() {
    ls "$SINGA_REGISTRY" | grep -c '\.run$'
}

# Without runs, and without a history.
expect 0 ps
has out '^ *RUN +NAME +PID +USER +STATE +STEP +% +CORES +GPUS +SINCE$'
[ "$(wc -l <"$T/out")" = 1 ] || fail 'ps lists runs before any ran'
[ -e "$SINGA_DB" ] && fail 'ps created the history'

# One core each: disjoint ones, and no warning.
start run "$tiny" --name first --cores 1 $forever --out "$T/first.d"
first=$pid
until_true 20 file_has out '^step=5 '
cp "$T/out" "$T/first"
start run "$tiny" --name second --cores 1 $forever --out "$T/second.d"
second=$pid
until_true 20 file_has out '^step=5 '
cp "$T/out" "$T/second"
hasnt first 'used by run'
hasnt second 'used by run'
[ "$(cores_of first)" != "$(cores_of second)" ] || fail 'both runs are on the same core'
[ "$(registered)" = 2 ] || fail "the registry has $(registered) runs"

# A third one takes the cores that are left, or shares and says with whom.
expect 0 run "$tiny" --name third --cores "$limit" --steps 2
has out 'level=warning source=placement .*used by run 1 .*first.* \(pid '"$first"'\)'
has out 'used by run 2 .*second'
expect 2 run "$tiny" --cores $((limit + 1)) --steps 2
has err "cores = $((limit + 1)): $((limit + 1)) cores, but this process may use $limit"
[ "$(registered)" = 2 ] || fail 'a run that ended is still registered'

# What trains nothing registers nothing, and is not in the way.
for verb in check topo eval; do
    expect 0 run "$tiny" --name done --cores 1 --steps 1 --out "$T/$verb.d" --quiet
    if [ $verb = eval ]; then expect 0 eval "$tiny" --weights done; else expect 0 $verb "$tiny"; fi
    hasnt out 'used by run'
    [ "$(registered)" = 2 ] || fail "$verb is registered"
done

# Threads of runs that share cores do not spin while they wait: the first run notices the other one,
# and that it has gone.
idles() {
    grep -qsx idle "/proc/$first/task/"*/comm
}
has_no_idle() {
    ! idles
}
until_true 30 has_no_idle # the short runs above may have shared its core
start run "$tiny" --name both --cores "$limit" $forever --out "$T/both.d"
until_true 30 idles
kill -9 "$pid"
ended 137
until_true 30 has_no_idle

# The list of runs.
expect 0 ps
has out "^ +1 +first +$first +[^ ]+ +running +[0-9]+ +0 +$(cores_of first) +-- +20"
has out "^ +2 +second +$second .* running "
if have_python; then
    expect 0 ps --json
    python3 - "$T/out" "$first" <<'END' || fail 'ps --json'
import json, sys
rows = json.load(open(sys.argv[1]))
assert [r["name"] for r in rows] == ["first", "second"], rows
r = rows[0]
assert r["run"] == 1 and r["pid"] == int(sys.argv[2]) and r["state"] == "running", r
assert r["step"] > 0 and r["steps"] == 100000000 and 0 <= r["percent"] < 1, r
assert len(r["cores"]) == 1 and r["gpus"] == [] and r["since"] > 1e9 and not r["waits_for"], r
assert set(r["cores"]).isdisjoint(rows[1]["cores"]), rows
END
fi

# Control: by number, name, prefix and @last.
expect 0 pause first
has err '^singa-ws: run 1 "first" is paused after step [0-9]+; .singa-ws unpause 1. continues it$'
expect 0 ps
has out '^ +1 +first .* paused '
expect 0 unpause 1
has err 'run 1 "first": the run continues'
runs_on() {
    "$SW" ps | grep -qE '^ +1 +first .* running '
}
until_true 20 runs_on
expect 0 ctl first note looks fine
has err 'noted'
[ "$(sql "SELECT count(*) FROM events WHERE run_id = 1 AND text = 'looks fine'")" = 1 ] ||
    until_true 10 eval '[ "$(sql "SELECT count(*) FROM events WHERE text = '"'looks fine'"'")" = 1 ]'
before=$(latest "$T/first.d")
expect 0 ctl first checkpoint
until_true 20 eval '[ "$(latest "$T/first.d")" != "$before" ]'
expect 2 ctl first frobnicate
has err "run 1 .first.: unknown request 'frobnicate'; use "
expect 2 ctl first
expect 3 pause nobody
expect 3 stop third
has err '^singa-ws: run 3 "third" is not running: done since 20'
expect 0 stop second
has err "^singa-ws: run 2 \"second\" is stopped after step [0-9]+: $T/second.d/checkpoint-[0-9]+\.safetensors"
pid=$second
ended 75
expect 3 unpause second
has err 'run 2 "second" is not running: stopped since'
[ "$(registered)" = 1 ] || fail 'a stopped run is still registered'

# A killed run has given its core back: the next one may have all without a warning.
kill -9 "$first"
pid=$first
ended 137
expect 0 run "$tiny" --name after --cores "$limit" --steps 2
hasnt out 'used by run'
[ "$(registered)" = 0 ] || fail 'a killed run is still registered'
expect 3 stop first
has err 'run 1 "first" is not running: crashed'

# 20 runs started at the same moment: of those that use a core, all but the first say so.
i=0
while [ $i -lt 20 ]; do
    "$SW" run "$tiny" --name "r$i" --cores 1 --steps 30 --set job.eval_every=0 --out "$T/r$i.d" \
        >"$T/r$i" 2>&1 </dev/null &
    children="$children $!"
    i=$((i + 1))
done
wait
silent=0 warned=0
for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19; do
    grep -q '^done ' "$T/r$i" || { cat "$T/r$i"; fail "run r$i"; }
    if grep -q 'level=warning source=placement .*used by run' "$T/r$i"; then
        warned=$((warned + 1))
    else
        silent=$((silent + 1))
    fi
done
echo "$silent runs had a core of their own, $warned shared with a warning"
[ "$silent" -ge 1 ] || fail 'no run had a core of its own'
have_python || exit 0
# From the history: two runs on one core at the same time, and the later one did not say so.
python3 - "$SINGA_DB" <<'END' || fail 'two runs shared a core in silence'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
runs = db.execute("""SELECT r.id, r.started_at, r.ended_at, p.cores,
    (SELECT group_concat(text) FROM events e WHERE e.run_id = r.id AND source = 'placement')
    FROM runs r JOIN placement p ON p.run_id = r.id AND p.unit = 'worker0.0'
    WHERE r.name LIKE 'r%'""").fetchall()
assert len(runs) == 20, runs
for a in runs:
    for b in runs:
        if a < b and a[3] == b[3] and a[1] < b[2] and b[1] < a[2]:
            assert a[4] or b[4], (a, b)
END
