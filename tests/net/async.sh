# ctest-timeout: 240
# Asynchronous jobs between hosts with addresses of their own. One host is killed, or cut off from the others:
# these train on without it, or write a checkpoint and end. Without host 0 all end and name it.
. "$(dirname "$0")/lib.sh"
net_up 3
cd "$T" || exit 1
hosts=3

# begins ARGUMENT...: a job that has begun to train.
begins() {
    job "$tiny" --no-ui --set updater.momentum=0 "$@"
    until_true 20 trains 0 5
}
# ended HOST...: nothing is left there, and nothing of the fault.
ended() {
    for i in "$@"; do
        until_true 10 idle "$i"
    done
    healed
}
for mode in '--framework downpour' '--framework downpour --set cluster.staleness=2' '--framework hogwild'; do
    # shellcheck disable=SC2086 # several options
    begins $mode --set job.steps=100000000 --set job.eval_every=500 --set cluster.on_host_loss=go_on
    kill -9 "$pid_2"
    until_true 10 file_has out.0 'host cyd is lost .*; the others go on without it'
    step=$(sed -n 's/^step=\([0-9]*\).*/\1/p' "$T/out.0" | tail -n 1)
    until_true 20 trains 0 $((step + 1000))
    kill -TERM "$pid_0"
    finished 0 75
    finished 1 75
    ended 0 1
    [ -s "$(latest "$T/0/out")" ] || net_fail "$mode: no checkpoint of the others"

    # shellcheck disable=SC2086
    begins $mode --set job.steps=100000000 --set job.eval_every=500
    partition 1
    finished 0 75
    finished 2 75
    finished 1 1
    file_has err.0 'host bob is lost; the others wrote a checkpoint of step [0-9]' || net_fail "$mode: bob is not named"
    file_has err.1 'host ada' || net_fail "$mode: bob does not name ada"
    ended 0 1 2

    # shellcheck disable=SC2086
    begins $mode --set job.steps=100000000 --set job.eval_every=500 --set cluster.on_host_loss=go_on
    kill -9 "$pid_0"
    for i in 1 2; do
        finished "$i" 1
        file_has "err.$i" 'host ada' || net_fail "$mode: host $i does not name ada"
    done
    ended 0 1 2
done
echo "3 ways to lose a host of 3 asynchronous jobs"
