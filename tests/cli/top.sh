# ctest-timeout: 180
# The dashboard in a terminal: two viewers, pause, continue, checkpoint, stop, resize, quit, kill. The
# training survives the dashboard, and the terminal is restored.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tmux.sh"
have_python || skip 'python3 is not installed'
export XDG_RUNTIME_DIR="$T/live"
mkdir -m 700 "$T/live"
forever='--set job.steps=100000000 --set job.eval_every=20000'
# now KEY: a value of the snapshot as JSON.
now() {
    "$SW" top watched --once --json | python3 -c "import json, sys; print(json.load(sys.stdin)['$1'])"
}
is_now() {
    [ "$(now "$1")" = "$2" ]
}
alive() {
    kill -0 "$pid" 2>/dev/null || fail "$1 ended the training"
}

expect 3 top
expect 2 top --theme nice
expect 2 top a b

"$SW" run "$tiny" --out "$T/run" --name watched $forever >"$T/lines" 2>&1 </dev/null &
pid=$!
children=$pid
until_true 20 file_has lines '^step=5 '

# Values appear with the first rows of the history.
measured() {
    [ "$(now step_ms)" != None ] && [ "$(now loss)" != None ]
}
until_true 20 measured

# Without a terminal: text, and one object.
expect 0 top watched
has out 'watched'
has out '7 events'
hasnt out "$(printf '\033')"
expect 0 top watched --once --json
python3 - "$T/out" <<'END' || fail 'the object of top --once --json'
import json, sys
o = json.loads(open(sys.argv[1]).read())
assert o["name"] == "watched" and o["status"] in ("running", "evaluating", "saving") and o["live"]
assert o["step"] > 0 and o["steps"] == 100000000 and o["loss"] > 0
assert {u["unit"] for u in o["units"]} >= {"worker0.0", "server0.0"}
assert abs(sum(o["time_shares"].values()) - 1) < 1e-6
END

# The remote end of ssh is this program; arguments arrive unchanged.
mkdir "$T/bin"
ln -s "$SW" "$T/bin/singa-ws"
cat >"$T/bin/ssh" <<'END'
#!/bin/sh
printf '%s|' "$@" >"$FAKE/ssh.words"
for word; do :; done
exec sh -c "$word"
END
chmod +x "$T/bin/ssh"
FAKE=$T PATH="$T/bin:$PATH" "$SW" top 'ada@big:watched' --once --json >"$T/far" || fail 'top USER@HOST'
grep -q '"name":"watched"' "$T/far" || fail 'the far end shows another run'
grep -qF -- "-T|--|ada@big|singa-ws top --once --json -- 'watched'|" "$T/ssh.words" ||
    fail "ssh gets $(cat "$T/ssh.words")"
FAKE=$T PATH="$T/bin:$PATH" "$SW" top "ada@big:no'such; run" --once >"$T/far" 2>&1
[ $? = 3 ] || fail 'the exit code of the far end'
grep -qF "no run 'no'such; run'" "$T/far" || fail "a word was taken apart: $(cat "$T/far")"
FAKE=$T PATH="$T/bin:$PATH" "$SW" top -- -x@y >"$T/far" 2>&1
[ $? = 2 ] || fail 'a host that is an option'

terminal one 100 30
enter one "'$SW' top watched; echo left \$?"
sees one '#1 watched +(running|evaluating)'
sees one 'loss +(A )?train [0-9.]+'
sees one 'worker0.0'

# Pause and continue; another terminal sees it, too.
press one p
until_true 10 is_now status paused
a=$(now step)
terminal two 80 24
enter two "'$SW' top; echo left \$?"
sees two 'paused'
[ "$(now step)" = "$a" ] || fail 'a paused run makes steps'
press two p
until_true 10 is_now status running
sees one '#1 watched +(running|evaluating)'
[ "$(now step)" -ge "$a" ] || fail 'it does not go on'

# A checkpoint on request, in the list of events.
before=$(latest "$T/run")
press one c
changed() {
    [ "$(latest "$T/run")" != "$before" ]
}
until_true 10 changed
sees one 'checkpoint +step [1-9][0-9]*: checkpoint-'

# Panels and help, opened and closed, also by mouse: a click on the last line, then one anywhere.
press one '?'
sees one 'any other closes it'
press one Space
sees one 'any other closes it'
sees one 'bars: read'
press one z
sees one 'x stop  r runs'
tmux_ send-keys -t one -H 1b 5b 4d 20 2a 3e 1b 5b 4d 23 2a 3e
sees one 'any other closes it'
tmux_ send-keys -t one -H 1b 5b 4d 20 2a 2a 1b 5b 4d 23 2a 2a
sees one 'x stop  r runs'
press one 3
press one 4
sees one '4 machine'
sees one 'trainer +[0-9.]+ cpus'
press one 0
sees one '1 curves'
press one r
sees one '8 runs'
press one 0

# Resizing, down to one line.
for size in 200x50 40x10 1x1 30x3 120x40 250x70 2x60 100x2 80x24; do
    tmux_ resize-window -t one -x "${size%x*}" -y "${size#*x}"
    sleep 0.1
done
sees one '2 throughput'
tmux_ resize-window -t one -x 60 -y 1
sees one '^#1 .*loss'
tmux_ resize-window -t one -x 100 -y 30
sees one '7 events'

# Quitting by q, by a signal, by kill -9, and by closing the terminal.
press one q
sees one '^left [0-9]'
sane one
alive 'q'
enter one "FAKE='$T' PATH='$T/bin:$PATH' '$SW' top ada@big; echo left \$?"
sees one '#1 watched +(running|evaluating)'
press one q
sees one '^left [0-9]'
sane one
enter one "'$SW' top watched; echo left \$?"
sees one '2 throughput'
viewer=$(tmux_ display -p -t one '#{pane_pid}')
viewer=$(ps -o pid= --ppid "$viewer" | tr -d ' ')
kill -TERM "$viewer"
sees one '^left [0-9]'
sane one
enter one "'$SW' top watched; echo left \$?"
sees one '2 throughput'
viewer=$(tmux_ display -p -t one '#{pane_pid}')
viewer=$(ps -o pid= --ppid "$viewer" | tr -d ' ')
kill -9 "$viewer"
# The message of the shell may appear on the alternate screen and vanish with it.
first_screen() {
    [ "$(tmux_ display -p -t one '#{alternate_on}')" = 0 ]
}
until_true 20 first_screen
press one Enter
sees one 'ready> *$'
sane one
alive 'a killed viewer'
tmux_ kill-session -t two
sleep 0.3
alive 'a terminal that has gone'

# Processor figures are recorded every two seconds.
sampled() {
    [ "$(sql "SELECT count(*) > 2 AND min(util) >= 0 AND min(mem_used) > 1000000 FROM hardware
        WHERE run_id = 1 AND device = 'cpu'")" = 1 ]
}
until_true 20 sampled

# The trainer dies: the dashboard reports it and stays open.
enter one "'$SW' top watched; echo left \$?"
sees one '2 throughput'
kill -9 "$pid"
sees one 'run 1 has crashed after step [0-9]+; q quits'
sees one '#1 watched +crashed'
press one p
sees one 'is not running'
press one q
sees one '^left [0-9]'
sane one
expect 0 top watched --once --json
has out '"status":"crashed","live":false'
exit 0
