# Shared by the scripts of this folder: hosts of a job as network namespaces on this machine, without
# root. A script runs in namespaces of its own (user, network, mount and process), which end with it and
# everything in them. After net_up, host i is namespace h$i with address 10.0.0.(i + 1), on a bridge
# with one port v$i for each host. Its state and its output are in $T/$i.
[ -z "${SINGA_SANITIZE:-}" ] || { echo 'skipped: a slow host is no lost host: the release build only'; exit 77; }
if [ -z "${SW_NET_INSIDE:-}" ]; then
    PATH=$PATH:/usr/sbin:/sbin
    export PATH
    for tool in ip nft ss unshare; do
        command -v $tool >/dev/null || { echo "skipped: there is no command $tool"; exit 77; }
    done
    inside='unshare -Urnmpf --kill-child --mount-proc'
    $inside sh -c 'ip link add br0 type bridge && ip link add v0 type veth && mount -t tmpfs none /run' \
        >/dev/null 2>&1 || { echo 'skipped: no user and network namespaces, bridges or veth pairs'; exit 77; }
    SW_NET_INSIDE=1 exec $inside sh "$0" "$@"
fi
. "$(dirname "$0")/../cli/lib.sh"
mount -t tmpfs none /run
unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT SLURM_STEP_NUM_TASKS OMPI_COMM_WORLD_SIZE PMI_SIZE PMIX_RANK
export OMP_NUM_THREADS=1
net_port=29400 net_key=$T/key
(umask 077 && head -c 32 /dev/urandom >"$net_key")
# net_up COUNT: makes the hosts 0 to COUNT - 1.
net_up() {
    hosts=$1
    ip link set lo up
    ip link add br0 type bridge
    ip link set br0 up
    for i in $(seq 0 $((hosts - 1))); do
        ip netns add "h$i"
        ip link add "v$i" type veth peer name eth0 netns "h$i"
        ip link set "v$i" master br0 up
        ip -n "h$i" addr add "10.0.0.$((i + 1))/24" dev eth0
        ip -n "h$i" link set lo up
        ip -n "h$i" link set eth0 up
    done
}
# on HOST COMMAND...: runs a command on a host, with the host's own state.
on() {
    on_host=$1
    shift
    XDG_STATE_HOME="$T/$on_host/state" SINGA_DB="$T/$on_host/history.db" \
        SINGA_REGISTRY="$T/$on_host/registry" exec ip netns exec "h$on_host" "$@"
}
# name_of FIELD: names of hosts, for cut: host 0 is field 1.
name_of() {
    echo ada,bob,cyd,dan | cut -d, -f "$1"
}
# host HOST ARGUMENT...: starts a host of a job with all hosts, as $pid and pid_HOST, without a history. Its output
# goes to out.HOST and err.HOST, its checkpoints to HOST/out. The hosts are ada, bob, cyd and dan.
host() {
    host=$1
    shift
    rm -rf "$T/$host"
    mkdir "$T/$host"
    (on "$host" env "RANK=$host" "WORLD_SIZE=$hosts" MASTER_ADDR=10.0.0.1 "MASTER_PORT=$net_port" \
        "SINGA_JOB_KEY=$net_key" "$SW" run "$@" --share-machine --hosts "$(name_of "1-$hosts")" --out "$T/$host/out") \
        >"$T/out.$host" 2>"$T/err.$host" </dev/null &
    pid=$!
    children="$children $pid"
    eval "pid_$host=$pid"
}
# job ARGUMENT...: starts all hosts.
job() {
    for i in $(seq 0 $((hosts - 1))); do
        host "$i" "$@"
    done
}
# finished HOST CODE: waits for a host, and checks its exit code.
finished() {
    eval "wait \$pid_$1"
    got=$?
    needs_tls
    [ "$got" = "$2" ] || net_fail "host $1: exit $got, not $2"
}
net_fail() {
    for i in $(seq 0 $((hosts - 1))); do
        for file in out err; do
            [ -s "$T/$file.$i" ] && { echo "--- $file of host $i"; tail -n 20 "$T/$file.$i"; } >&2
        done
    done
    fail "$@"
}
needs_tls() {
    ! file_has err.0 'built without OpenSSL' || skip 'this build has no TLS'
}
# idle HOST: no process is left on it.
idle() {
    [ -z "$(ip netns pids "h$1")" ]
}
# all_killed: no host of the job is left.
all_killed() {
    for i in $(seq 0 $((hosts - 1))); do
        eval "kill -9 \$pid_$i; wait \$pid_$i"
    done 2>/dev/null
}
# trains HOST STEP: it has told a step of that number or more.
trains() {
    needs_tls
    awk -v least="$2" 'sub(/^step=/, "") && $1 + 0 >= least { found = 1 } END { exit !found }' "$T/out.$1"
}
ms() {
    echo $(($(date +%s%N) / 1000000))
}

# ---- Faults of the network ----

# cable HOST up|down: the port of the bridge, so that the host itself notices nothing.
cable() {
    ip link set "v$1" "$2"
}
# partition HOST: it and the others do not hear each other any more.
partition() {
    drop "iifname v$1 drop" "oifname v$1 drop"
}
# lossy: of what goes from host to host, 5 % is lost.
lossy() {
    drop 'numgen random mod 100 < 5 drop'
}
# lossy_host HOST: of what goes from and to it, 5 % is lost.
lossy_host() {
    drop "iifname v$1 numgen random mod 100 < 5 drop" "oifname v$1 numgen random mod 100 < 5 drop"
}
# drop RULE...: rules for what the bridge forwards.
drop() {
    nft add table bridge faults &&
        nft 'add chain bridge faults passes { type filter hook forward priority 0; }' || return 1
    for rule in "$@"; do
        nft add rule bridge faults passes "$rule" || return 1
    done
}
# healed: no more rules.
healed() {
    nft delete table bridge faults 2>/dev/null
}
# rate HOST RATE: limits what a host sends, such as 1gbit. Fails where the kernel has no tbf.
rate() {
    tc -n "h$1" qdisc replace dev eth0 root tbf rate "$2" burst 256k latency 20ms 2>/dev/null
}
