/* Reads the environment of mpirun, srun, torchrun and Kubernetes operators. The variables are
 * documented by Open MPI (mpirun(1)), MPICH's Hydra and PMI, PMIx (its standard, 3.4), Slurm
 * (srun(1), "output environment variables"), and torch.distributed.run. */
#include "run/launcher.h"

#include "base/str.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PORT = 65535, SLURM_PORTS = 12000, SLURM_FIRST_PORT = 20000, SLURM_STEPS = 37 };

/* ---- Numbers ---- */

/* Reads a variable as a number from `least` on; *given tells whether it is set. */
static int read_number(sw_launcher_env *env, const char *name, int least, int *value, bool *given,
                       struct sw_err *err)
{
    const char *text = env(name);
    int64_t number;

    *given = text && *text;
    if (!*given)
        return SW_OK;
    if (!sw_parse_int(text, &number) || number < least || number > INT_MAX)
        return sw_err_set(err, SW_ERR_INVALID,
                          "the environment has %s=%.100s, which is not a number from %d on", name,
                          text, least);

    *value = (int)number;
    return SW_OK;
}

/* Reads size and rank from two variables; size 0: the first is not set. */
static int read_ranks(sw_launcher_env *env, struct sw_launcher *l, struct sw_err *err)
{
    bool sized, ranked;

    int rc = read_number(env, l->size_of, 1, &l->size, &sized, err);
    if (rc == SW_OK)
        rc = read_number(env, l->rank_of, 0, &l->rank, &ranked, err);
    if (rc != SW_OK || !sized)
        return rc;

    if (!ranked && l->size > 1)
        return sw_err_set(err, SW_ERR_INVALID, "the environment has %s=%d, but not %s", l->size_of,
                          l->size, l->rank_of);
    if (l->rank >= l->size)
        return sw_err_set(err, SW_ERR_INVALID,
                          "the environment has %s=%d, but %s=%d: ranks are 0 to %d", l->size_of,
                          l->size, l->rank_of, l->rank, l->size - 1);
    return SW_OK;
}

static int read_local(sw_launcher_env *env, const char *name, struct sw_launcher *l,
                      struct sw_err *err)
{
    bool given;

    l->local = 1;
    return read_number(env, name, 1, &l->local, &given, err);
}

int sw_launcher_master_port(sw_launcher_env *env, int *port, struct sw_err *err)
{
    bool given;

    *port = 0;
    int rc = read_number(env, "MASTER_PORT", 1, port, &given, err);
    if (rc == SW_OK && *port > MOST_PORT)
        rc = sw_err_set(err, SW_ERR_INVALID, "the environment has MASTER_PORT=%d; ports end at %d",
                        *port, MOST_PORT);
    return rc;
}

static const char *given(sw_launcher_env *env, const char *name)
{
    const char *text = env(name);
    return text && *text ? text : NULL;
}

/* ---- MPI ---- */

/* The variables of the launchers, the innermost first: Open MPI's mpirun may itself be started by
 * srun. */
static const struct mpi_row {
    const char *name, *size_of, *rank_of, *local_of;
    enum sw_launcher_mpi mpi;
} mpi_rows[] = {
    {"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
     SW_LAUNCHER_OPEN_MPI},
    {"mpirun", "PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", SW_LAUNCHER_MPICH},
};

/* PMIx does not tell the number of processes in the environment; srun does. */
static int read_pmix(sw_launcher_env *env, struct sw_launcher *l, struct sw_err *err)
{
    struct sw_launcher step;

    if (!given(env, "PMIX_RANK"))
        return SW_OK;

    int rc = sw_launcher_slurm(env, &step, err);
    if (rc != SW_OK)
        return rc;
    if (step.size == 0)
        return sw_err_set(err, SW_ERR_INVALID,
                          "the environment has PMIX_RANK, but nothing tells the number of "
                          "processes: start the job with mpirun or srun");

    *l = (struct sw_launcher){.name = "srun with PMIx",
                              .size_of = step.size_of,
                              .rank_of = "PMIX_RANK",
                              .mpi = SW_LAUNCHER_OPEN_MPI};
    rc = read_ranks(env, l, err);
    l->local = step.local;
    return rc;
}

int sw_launcher_mpi(sw_launcher_env *env, struct sw_launcher *l, struct sw_err *err)
{
    int rc = SW_OK;

    *l = (struct sw_launcher){.local = 1};

    for (size_t i = 0; i < sizeof mpi_rows / sizeof *mpi_rows && rc == SW_OK && !l->size; i++) {
        const struct mpi_row *row = &mpi_rows[i];

        *l = (struct sw_launcher){
            .name = row->name, .size_of = row->size_of, .rank_of = row->rank_of, .mpi = row->mpi};
        rc = read_ranks(env, l, err);
        if (rc == SW_OK)
            rc = read_local(env, row->local_of, l, err);
    }

    if (rc == SW_OK && !l->size)
        rc = read_pmix(env, l, err);
    if (rc == SW_OK && l->size > 1)
        l->kind = SW_LAUNCHER_MPI;
    return rc;
}

/* ---- torchrun, and operators that set the same variables ---- */

int sw_launcher_torchrun(sw_launcher_env *env, struct sw_launcher *l, struct sw_err *err)
{
    const bool elastic = given(env, "TORCHELASTIC_RUN_ID") != NULL;

    *l = (struct sw_launcher){.local = 1};
    if (!given(env, "RANK"))
        return SW_OK;

    *l = (struct sw_launcher){.name = elastic ? "torchrun's environment" : "RANK and WORLD_SIZE",
                              .size_of = "WORLD_SIZE",
                              .rank_of = "RANK",
                              .address = given(env, "MASTER_ADDR")};
    int rc = read_ranks(env, l, err);
    if (rc == SW_OK)
        rc = read_local(env, "LOCAL_WORLD_SIZE", l, err);
    if (rc == SW_OK)
        rc = sw_launcher_master_port(env, &l->port, err);
    if (rc != SW_OK || l->size <= 1)
        return rc;

    if (!l->address || !l->port)
        return sw_err_set(err, SW_ERR_INVALID,
                          "the environment has WORLD_SIZE=%d, but not %s, which tells where host 0 "
                          "listens",
                          l->size, l->address ? "MASTER_PORT" : "MASTER_ADDR");

    if (sw_str_eq(env("TORCHELASTIC_USE_AGENT_STORE"), "True"))
        l->port += l->port < MOST_PORT ? 1 : -1;
    l->kind = SW_LAUNCHER_TORCHRUN;
    return SW_OK;
}

/* ---- Slurm ---- */

int sw_launcher_slurm_port(long long job, long long step)
{
    unsigned long long number = (unsigned long long)job * SLURM_STEPS + (unsigned long long)step;
    return SLURM_FIRST_PORT + (int)(number % SLURM_PORTS);
}

/* The most tasks of one host in "2(x3),1". */
static int most_tasks(const char *text)
{
    int most = 1;

    while (text && *text) {
        int tasks = atoi(text);
        most = tasks > most ? tasks : most;
        text += strcspn(text, ",");
        text += *text == ',';
    }

    return most;
}

static int read_step_port(sw_launcher_env *env, struct sw_launcher *l, struct sw_err *err)
{
    int job = 0, step = 0;
    bool known, ignored;

    int rc = sw_launcher_master_port(env, &l->port, err);
    if (rc != SW_OK || l->port)
        return rc;

    rc = read_number(env, "SLURM_JOB_ID", 0, &job, &known, err);
    if (rc == SW_OK && !known)
        return sw_err_set(err, SW_ERR_INVALID, "the environment has %s=%d, but not SLURM_JOB_ID",
                          l->size_of, l->size);
    if (rc == SW_OK)
        rc = read_number(env, "SLURM_STEP_ID", 0, &step, &ignored, err);

    l->port = sw_launcher_slurm_port(job, step);
    return rc;
}

int sw_launcher_slurm(sw_launcher_env *env, struct sw_launcher *l, struct sw_err *err)
{
    *l = (struct sw_launcher){.name = "srun",
                              .size_of = "SLURM_STEP_NUM_TASKS",
                              .rank_of = "SLURM_PROCID",
                              .address = given(env, "MASTER_ADDR")};

    int rc = read_ranks(env, l, err);
    l->local = most_tasks(env("SLURM_STEP_TASKS_PER_NODE"));
    if (rc == SW_OK && l->size > 1)
        rc = read_step_port(env, l, err);
    if (rc == SW_OK && l->size > 1)
        l->kind = SW_LAUNCHER_SLURM;
    return rc;
}
