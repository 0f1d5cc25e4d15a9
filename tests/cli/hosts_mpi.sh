# ctest-timeout: 120
# A job whose processes mpirun starts: they use its MPI, host 0 reports, and two on one machine need
# --share-machine.
. "$(dirname "$0")/lib.sh"
[ -z "${SINGA_SANITIZE:-}" ] || skip 'MPI libraries leak under sanitizers'
unset RANK WORLD_SIZE SLURM_STEP_NUM_TASKS OMPI_COMM_WORLD_SIZE PMI_SIZE PMIX_RANK
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
linear hosts | sed 's/^batch = .*/&\nsteps = 3/' >"$T/r.ini"
sed 's/^outputs = 32/outputs = 512/; s/^eval_every = .*/eval_every = 0/' "$tiny" >"$T/large.ini"
cd "$T" || exit 1

# launched LAUNCHER CODE ARGUMENT...: as expect, with two processes.
launched() {
    launcher=$1 wanted=$2
    shift 2
    "$launcher" -n 2 "$SW" "$@" >"$T/out" 2>"$T/err" </dev/null
    got=$?
    [ "$got" = "$wanted" ] || fail "$launcher singa-ws $*: exit $got, not $wanted"
}
tried=
for launcher in mpirun.openmpi mpirun.mpich; do
    command -v "$launcher" >/dev/null 2>&1 || continue
    "$launcher" -n 2 "$SW" run r.ini --share-machine --steps 1 --quiet >"$T/out" 2>"$T/err" </dev/null
    grep -qE 'no module for|started 2 processes' "$T/err" && continue
    tried=yes
    launched "$launcher" 0 run r.ini --share-machine --steps 2
    has out '^hosts        2 hosts by mpirun, fabric mpi \((Open MPI|MPICH) [0-9.]+.*\), not encrypted: this is host 0'
    [ "$(grep -c '^done ' "$T/out")" = 1 ] || fail 'not one report'
    launched "$launcher" 0 run large.ini --share-machine --steps 2 -v --set cluster.comm=auto
    has out 'chosen for .* \(measured, the slowest link from'
    launched "$launcher" 2 run r.ini --steps 2
    has err 'by mpirun there are 2 processes on this machine.*--share-machine'
    launched "$launcher" 2 run r.ini --share-machine --hosts a,b,c
    has err 'hosts names 3 hosts, but by mpirun there are 2'
done
[ -n "$tried" ] || skip 'there is no mpirun with a module for its MPI'
