/* What started this process: mpirun, srun, torchrun or a Kubernetes operator, as they tell it in
 * the environment. Nothing is called or connected. Pure functions. */
#pragma once

#include "base/err.h"
#include <stdbool.h>

enum sw_launcher_kind {
    SW_LAUNCHER_NONE, /* nothing, or one process */
    SW_LAUNCHER_MPI,
    SW_LAUNCHER_TORCHRUN, /* RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, whoever set them */
    SW_LAUNCHER_SLURM,
};

/* Which MPI a process that an MPI launcher started must use. */
enum sw_launcher_mpi { SW_LAUNCHER_OPEN_MPI, SW_LAUNCHER_MPICH };

typedef const char *sw_launcher_env(const char *name); /* as getenv */

/* The processes of a job. Texts are borrowed from the environment. */
struct sw_launcher {
    enum sw_launcher_kind kind;
    const char *name; /* "mpirun", "torchrun's environment": after "by" in a sentence */
    const char *size_of, *rank_of; /* the variables that told size and rank */
    int size, rank;
    int local;           /* processes on this machine, as far as known; else 1 */
    const char *address; /* of host 0; NULL: not known */
    int port;            /* where host 0 listens; 0: not known */
    enum sw_launcher_mpi mpi;
};

/* Each sets *l, whose kind is SW_LAUNCHER_NONE unless this launcher started several processes.
 * Errors: SW_ERR_INVALID (names the variable that is missing or wrong). */
int sw_launcher_mpi(sw_launcher_env *env, struct sw_launcher *l, struct sw_err *err) SW_MUST_CHECK;
/* The port is MASTER_PORT, or the next one where torchrun's own store has that. */
int sw_launcher_torchrun(sw_launcher_env *env, struct sw_launcher *l,
                         struct sw_err *err) SW_MUST_CHECK;
/* A step of several tasks. The address is MASTER_ADDR, else NULL: the first of the step's hosts
 * (run/node_list.h). The port is MASTER_PORT, else sw_launcher_slurm_port. */
int sw_launcher_slurm(sw_launcher_env *env, struct sw_launcher *l,
                      struct sw_err *err) SW_MUST_CHECK;

/* 20000 + (37 job + step) modulo 12000: the same on all hosts, another one for the steps of a job
 * and for jobs that share a host, and below the ports that systems give to clients. */
int sw_launcher_slurm_port(long long job, long long step);
/* Sets *port to MASTER_PORT, or to 0 if it is not set. Errors: SW_ERR_INVALID. */
int sw_launcher_master_port(sw_launcher_env *env, int *port, struct sw_err *err) SW_MUST_CHECK;
