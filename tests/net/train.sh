# ctest-timeout: 120
# Jobs over TLS between hosts with addresses of their own reach the numbers of one machine; where 5 % of
# all packets are lost, too. Nothing listens while they train, and without a key they are not reached.
. "$(dirname "$0")/lib.sh"
net_up 3
cd "$T" || exit 1

# The reference is one machine. Evaluation, dropout and the order of the samples are those of a job.
expect 0 run "$tiny" --no-ui --out "$T/one"
steps=40

# reaches CHECKPOINT: its values are those of the reference, but for the order of sums.
reaches() {
    python3 "$SW_SOURCE_DIR/tests/cli/same_tensors.py" "$(latest "$T/one")" "$1" 1e-3 ||
        net_fail "$1 is not what one machine computes"
}
for hosts in 2 3; do
    job "$tiny" --no-ui
    for i in $(seq 0 $((hosts - 1))); do
        finished "$i" 0
        idle "$i" || net_fail "host $i: a process is left"
    done
    has out.0 "^hosts        $hosts hosts by RANK and WORLD_SIZE, fabric tcp, TLS 1.3 .*: this is host 0 \(ada\)$"
    ! have_python || reaches "$(latest "$T/0/out")"
done

# The recipe limits what a host sends: each of 40 steps has 4.5 k parameters of 4 bytes.
begin=$(ms) hosts=2
job "$tiny" --no-ui --set cluster.bandwidth=4Mbit
finished 0 0
finished 1 0
took=$(($(ms) - begin))
[ "$took" -gt 1000 ] || net_fail "0.7 MB took $took ms at 500 kB/s"

# mpirun gets to a host by an agent that enters its namespace.
cat >"$T/agent" <<'END'
#!/bin/sh
host=h$((${1##*.} - 1))
shift
exec nsenter --net=/run/netns/$host sh -c "$*"
END
chmod +x "$T/agent"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
net=10.0.0.0/24
if command -v mpirun.openmpi >/dev/null && command -v nsenter >/dev/null &&
    (on 0 mpirun.openmpi --mca plm_rsh_agent "$T/agent" --mca btl tcp,self --mca btl_tcp_if_include $net \
        --mca oob_tcp_if_include $net --host 10.0.0.1:1,10.0.0.2:1 "$SW" run "$tiny" --no-ui --share-machine \
        --out "$T/mpi") >"$T/out" 2>"$T/err" </dev/null && file_has out 'fabric mpi \(Open MPI'; then
    ! have_python || reaches "$(latest "$T/mpi")"
else
    echo "not tested: Open MPI between namespaces; $(tail -n 1 "$T/err" 2>/dev/null)"
fi

# Packets are lost: all that was sent comes all the same.
hosts=2
if lossy; then
    begin=$(ms)
    job "$tiny" --no-ui
    finished 0 0
    finished 1 0
    echo "$steps steps with 5 % of packets lost: $(($(ms) - begin)) ms"
    ! have_python || reaches "$(latest "$T/0/out")"
    healed
else
    echo 'not tested: loss of packets; nft cannot filter what a bridge forwards'
fi
