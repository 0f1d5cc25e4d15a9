/* The engines of this build. */
#include "run/launch.h"

#include "exchange/hosts/mpi.h"

static int load_mpi(enum sw_launcher_mpi which, const struct sw_fabric_engine **out,
                    struct sw_err *err)
{
    const enum sw_mpi_kind kind = which == SW_LAUNCHER_MPICH ? SW_MPI_MPICH : SW_MPI_OPENMPI;
    return sw_mpi_engine_load(kind, out, err);
}

const struct sw_launch_engines sw_launch_engines = {
    .tcp = &sw_fabric_tcp, .tcp_listen = sw_tcp_listen, .mpi = load_mpi};
