/* Which launcher of MPI started this process, and the module for its MPI. */
#include "exchange/hosts/mpi.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

/* ---- The launcher ---- */

/* What launchers write. Open MPI's also writes PMIX_RANK, as does srun --mpi=pmix, which tells the
 * number of processes in its own way. */
static const struct {
    const char *rank, *size, *size_too;
    enum sw_mpi_kind kind;
} launchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", NULL, SW_MPI_OPENMPI},
    {"PMI_RANK", "PMI_SIZE", NULL, SW_MPI_MPICH},
    {"PMIX_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", SW_MPI_OPENMPI},
};

/* The number that a variable holds; -1: none. */
static int number_in(const char *variable)
{
    const char *text = variable ? getenv(variable) : NULL;
    char *end;

    if (!text || !*text)
        return -1;

    errno = 0;
    long n = strtol(text, &end, 10);
    return errno || *end || n < 0 || n > INT_MAX ? -1 : (int)n;
}

bool sw_mpi_launched(int *rank, int *size, enum sw_mpi_kind *kind)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        int r = number_in(launchers[i].rank), n = number_in(launchers[i].size);
        if (n < 0)
            n = number_in(launchers[i].size_too);
        if (r < 0 || r >= n)
            continue;

        *rank = r;
        *size = n;
        *kind = launchers[i].kind;
        return true;
    }

    return false;
}

/* ---- The module ---- */

#define MPI_MODULE(stem, mpi)                                                                      \
    {                                                                                              \
        .file = "singa_mpi_" stem ".so", .variable = "SINGA_MPI_MODULE", .table = "sw_mpi_module", \
        .abi = SW_FABRIC_ABI, .table_bytes = sizeof(struct sw_mpi_module),                         \
        .what = "module for " mpi,                                                                 \
        .without = "it is built where " mpi "'s mpicc and mpi.h are; fabric = tcp needs no MPI",   \
        .global = true                                                                             \
    }

static const struct sw_module_kind modules[] = {
    [SW_MPI_OPENMPI] = MPI_MODULE("openmpi", "Open MPI"),
    [SW_MPI_MPICH] = MPI_MODULE("mpich", "MPICH"),
};

int sw_mpi_engine_load(enum sw_mpi_kind kind, const struct sw_fabric_engine **out,
                       struct sw_err *err)
{
    const void *table;

    int rc = sw_module_load(&modules[kind], &table, err);
    if (rc == SW_OK)
        *out = &((const struct sw_mpi_module *)table)->engine;
    return rc;
}
