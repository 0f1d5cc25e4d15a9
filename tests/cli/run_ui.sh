# ctest-timeout: 180
# A training with --ui and one with --detach: the end of the dashboard does not end the training, no
# output is lost, and the exit codes are those of the trainer.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tmux.sh"
export XDG_RUNTIME_DIR="$T/live"
mkdir -m 700 "$T/live"
forever='--set job.steps=100000000 --set job.eval_every=2000'
pid_of() {
    sql "SELECT pid FROM runs WHERE id = $1"
}

# Mutually exclusive options; no terminal; errors before a run begins.
expect 2 run "$tiny" --ui --json
expect 2 run "$tiny" --ui --detach
expect 2 run "$tiny" --detach --json
expect 0 run "$tiny" --ui --steps 2 --out "$T/lines"
has err 'no terminal'
has out '^step=2 '
terminal one 90 28
enter one "'$SW' run --ui '$T/none.ini'; echo code \$?"
sees one 'none.ini'
sees one '^code 3'
enter one clear

# The training continues after q; watched again, it is stopped by x and y, with exit code 75.
enter one "'$SW' run --ui '$tiny' --name beside --out '$T/beside' $forever; echo code \$?"
sees one 'beside +(running|evaluating)'
press one q
sees one 'continues as process'
sees one '^code 0'
sane one
trainer=$(pid_of 2)
children="$children $trainer"
kill -0 "$trainer" || fail 'q ended the training'
enter one "'$SW' top beside; echo code \$?"
sees one '2 throughput'
press one x
sees one '\(y/n\)'
press one n
sees one '2 throughput'
press one x y
sees one 'beside +stopped'
press one q
sees one '^code 0'
sane one

enter one "'$SW' resume beside --ui; echo code \$?"
sees one 'beside +(running|evaluating)'
children="$children $(pid_of 2)"
press one x y
sees one 'beside +stopped'
press one q
sees one 'resume 2'
sees one '^code 75'
sane one

# SIGTERM to the dashboard is passed on to the trainer.
enter one "'$SW' run --ui '$tiny' --name told --out '$T/told' $forever; echo code \$?"
sees one 'told +(running|evaluating)'
children="$children $(pid_of 3)"
viewer=$(tmux_ display -p -t one '#{pane_pid}')
viewer=$(ps -o pid=,args= --ppid "$viewer" | grep 'run --ui' | awk '{print $1}')
kill -TERM "$viewer"
sees one '^code 75'
sane one

# The trainer is killed: the terminal is restored, and the exit code reports the failure.
enter one "'$SW' run --ui '$tiny' --name killed --out '$T/killed' $forever; echo code \$?"
sees one 'killed +(running|evaluating)'
kill -9 "$(pid_of 4)"
sees one 'killed +crashed'
press one q
sees one 'signal 9'
sees one '^code 1'
sane one

# Output of libraries is stored with the run and shown as events.
enter one "DNNL_VERBOSE=1 '$SW' run --ui '$tiny' --name loud --out '$T/loud' --steps 3; echo code \$?"
sees one 'loud +done'
if [ -s "$T/loud/output.log" ]; then
    sees one 'output +(onednn|dnnl)_verbose'
    sees one '^╭ 1 curves'
fi
press one q
sees one '^code 0'

# In the background from the start.
expect 0 run "$tiny" --detach --name away --out "$T/away" $forever
has out 'run 6 continues as process'
trainer=$(pid_of 6)
children="$children $trainer"
kill -TERM "$trainer"
gone() {
    ! kill -0 "$trainer" 2>/dev/null
}
until_true 20 gone
[ "$(sql 'SELECT status FROM runs WHERE id = 6')" = stopped ] || fail 'not stopped'
expect 2 run "$tiny" --detach --set job.batch=0
exit 0
