# ctest-timeout: 240
# The loss of a host: its process is killed or stopped, its cable is out, or the network is divided. The
# others end soon, name it, and write the checkpoint of the last complete step, which is that of a run
# that nothing has disturbed. Where packets are lost nobody is. With --long, all roles, moments and faults,
# SW_NET_REPEAT (10) times.
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1
tried=0 most_ms=0

# strikes FAULT HOST
strikes() {
    eval "victim=\$pid_$2"
    case $1 in
    kill) kill -9 "$victim" ;;
    stop) kill -STOP "$victim" ;;
    cable) cable "$2" down ;;
    partition) partition "$2" ;;
    esac
}
# recovers FAULT HOST: the network is as before. A process that was stopped finds its connections
# closed, and ends.
recovers() {
    case $1 in
    kill) wait "$victim" ;;
    stop)
        kill -CONT "$victim"
        wait "$victim"
        ;;
    cable) cable "$2" up ;;
    partition) healed ;;
    esac 2>/dev/null
}
# survives HOST FAULT LOST: host HOST has ended as it should.
survives() {
    finished "$1" 75
    took=$(($(ms) - begin))
    [ "$took" -lt 15000 ] || net_fail "host $1 ended $took ms after $2 of host $3"
    [ "$took" -le "$most_ms" ] || most_ms=$took
}
# saved_by HOST: the newest of its checkpoints. Hosts other than 0 have a folder of their own.
saved_by() {
    find "$T/$1" -name 'checkpoint-*.safetensors' | sort -t- -k2 -V | tail -n 1
}
# undisturbed CHECKPOINT: a run that ends after the same step has the same bits.
undisturbed() {
    step=${1##*-}
    step=${step%.safetensors}
    cp "$1" "$T/saved"
    job "$tiny" --no-ui --set job.eval_every=0 --steps "$step"
    for i in $(seq 0 $((hosts - 1))); do
        finished "$i" 0
    done
    same_tensors "$T/saved" "$(latest "$T/0/out")"
}
# loses FAULT HOST SECONDS: host HOST is lost that long after the first steps.
loses() {
    fault=$1 lost=$2
    job "$tiny" --no-ui --set job.steps=100000000 --set job.eval_every=0
    until_true 20 trains 0 5
    sleep "$3"
    begin=$(ms)
    strikes "$fault" "$lost" || { all_killed; echo "not tested: $fault"; return; }

    checkpoint=
    for i in $(seq 0 $((hosts - 1))); do
        [ "$i" != "$lost" ] || continue
        survives "$i" "$fault" "$lost"
        # Host 0 reports for all, and without it each for itself.
        [ "$i" = 0 ] || [ "$lost" = 0 ] || continue
        grep -q "host $(name_of $((lost + 1))): .* wrote a checkpoint of step [0-9]" "$T/err.$i" ||
            net_fail "host $i does not name host $lost"
        ! grep -q "host $(name_of $((i + 1))) wrote" "$T/err.$i" || checkpoint=$(saved_by "$i")
    done
    # Host 0 was one step behind, and another host is to write.
    for i in $(seq 1 $((hosts - 1))); do
        [ -n "$checkpoint" ] || [ "$i" = "$lost" ] || checkpoint=$(saved_by "$i")
    done
    [ -s "$checkpoint" ] || net_fail "no host has written a checkpoint after $fault of host $lost"

    recovers "$fault" "$lost"
    for i in $(seq 0 $((hosts - 1))); do
        until_true 10 idle "$i"
    done
    ! have_python || undisturbed "$checkpoint"
    tried=$((tried + 1))
    echo "$hosts hosts, $fault of host $lost: the others ended after $took ms"
}

# endures HOST SECONDS: from then on packets from and to host HOST are lost, and the job goes on until it is
# asked to stop.
endures() {
    job "$tiny" --no-ui --set job.steps=100000000 --set job.eval_every=0
    until_true 20 trains 0 5
    sleep "$2"
    lossy_host "$1" || { all_killed; echo 'not tested: loss of packets'; return; }

    sleep 3
    kill -TERM "$pid_0"
    for i in $(seq 0 $((hosts - 1))); do
        finished "$i" 75
        ! grep -q 'wrote a checkpoint of step' "$T/err.$i" || net_fail "a host was lost with 5 % of packets of host $1"
    done
    healed
    checkpoint=$(saved_by 0)
    [ -s "$checkpoint" ] || net_fail "no checkpoint with 5 % of packets of host $1 lost"
    ! have_python || undisturbed "$checkpoint"
    tried=$((tried + 1))
    echo "$hosts hosts, 5 % of packets of host $1 lost: nobody is"
}

if [ "${1:-}" = --long ]; then
    net_up 3
    for repetition in $(seq "${SW_NET_REPEAT:-10}"); do
        for hosts in 2 3; do
            for lost in $(seq 0 $((hosts - 1))); do
                for fault in kill stop cable partition; do
                    for moment in 0 0.1 0.37 1; do
                        loses $fault "$lost" $moment
                    done
                done
                for moment in 0 0.1 0.37 1; do
                    endures "$lost" $moment
                done
            done
        done
        echo "repetition $repetition: $tried jobs so far, the slowest end after $most_ms ms"
    done
    exit 0
fi
net_up 3
hosts=2
loses kill 0 0.1
loses kill 1 0.2
loses stop 0 0.1
loses stop 1 0.1
loses cable 1 0.1
loses partition 0 0.1
hosts=3
loses kill 1 0.1
