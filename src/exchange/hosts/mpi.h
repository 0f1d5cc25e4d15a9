/* Engine `mpi`: messages over the MPI of a cluster, in a job that its launcher (mpirun, srun) has
 * started as several processes. The engine is a module, built once for each MPI, since two of them
 * share no binary interface; it is loaded when a job asks for it (device/module.h).
 * SINGA_MPI_MODULE names another file.
 *
 * MPI is initialized once in a process: one fabric at a time is open, others may follow it, and
 * MPI_Finalize is called when the process ends (mpi/engine.c). Any thread may call. */
#pragma once

#include "device/module.h"
#include "exchange/hosts/engine.h"

enum sw_mpi_kind {
    SW_MPI_OPENMPI, /* and what is derived from it */
    SW_MPI_MPICH,   /* and those that share its binary interface: Intel MPI, MVAPICH */
};

/* What the module exports, as sw_mpi_module. */
struct sw_mpi_module {
    struct sw_module_head head;
    struct sw_fabric_engine engine;
};

/* Has a launcher of MPI started this process, as one of `size`? It tells so in the environment
 * (OMPI_COMM_WORLD_RANK, PMI_RANK, PMIX_RANK); MPI is not called. Outputs are written only then. */
bool sw_mpi_launched(int *rank, int *size, enum sw_mpi_kind *kind);
/* Loads the module. Errors: SW_ERR_UNSUPPORTED (this build has none for that MPI, or the module is
 * of another build), SW_ERR_NOTFOUND (SINGA_MPI_MODULE names no file), SW_ERR_LIBRARY (the MPI is
 * not installed). */
int sw_mpi_engine_load(enum sw_mpi_kind kind, const struct sw_fabric_engine **out,
                       struct sw_err *err) SW_MUST_CHECK;
