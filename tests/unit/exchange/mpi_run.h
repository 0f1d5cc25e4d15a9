/* For tests that need several processes of an MPI: starts this program again under a launcher. A
 * process that MPI_CASE is set for was started so. */
#pragma once

#include "exchange/hosts/mpi.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct mpi_made {
    enum sw_mpi_kind kind;
    const char *name, *module;
    const char *launchers[2]; /* Debian's name and the usual one */
    const char *says;         /* in the launcher's --version */
};

static const struct mpi_made mpi_made[] = {
    {SW_MPI_OPENMPI,
     "Open MPI",
     "singa_mpi_openmpi.so",
     {"mpirun.openmpi", "mpirun"},
     "Open MPI\\|OpenRTE"},
    {SW_MPI_MPICH, "MPICH", "singa_mpi_mpich.so", {"mpirun.mpich", "mpirun"}, "HYDRA"},
};
enum { MPI_MADE = sizeof mpi_made / sizeof *mpi_made };

/* The launcher of an MPI; NULL: it is not installed. */
static inline const char *mpi_launcher(const struct mpi_made *m)
{
    for (int i = 0; i < 2; i++) {
        char command[200];
        snprintf(command, sizeof command, "%s --version 2>/dev/null | grep -q '%s'",
                 m->launchers[i], m->says);
        if (system(command) == 0)
            return m->launchers[i];
    }
    return NULL;
}

/* Why nothing can run on an MPI here; NULL: it can. */
static inline const char *mpi_missing(const struct mpi_made *m)
{
    const char *build = getenv("SW_BINARY_DIR"), *sanitizers = getenv("SINGA_SANITIZE");
    char module[4096];

    snprintf(module, sizeof module, "%s/%s", build ? build : ".", m->module);
    if (access(module, R_OK) != 0)
        return "this build has no module for it";
    if (sanitizers && strstr(sanitizers, "thread"))
        return "the thread sanitizer does not know what happens inside MPI";
    return mpi_launcher(m) ? NULL : "its mpirun is not here";
}

/* Runs `program` as several processes with MPI_CASE = what, and its output in the file `log`, if
 * there is one. Returns the launcher's process. */
static inline pid_t mpi_start(const struct mpi_made *m, int processes, const char *program,
                              const char *what, const char *log)
{
    char number[16];
    const char *launcher = mpi_launcher(m), *words[10] = {launcher, "-n", number, NULL};
    int count = 3;

    snprintf(number, sizeof number, "%d", processes);
    if (m->kind == SW_MPI_OPENMPI) {
        words[count++] = "--oversubscribe";
        words[count++] = "--bind-to";
        words[count++] = "none";
    }
    words[count++] = program;
    words[count] = NULL;

    fflush(NULL);
    pid_t pid = fork();
    if (pid != 0)
        return pid;

    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    setenv("MPI_CASE", what, 1);
    /* MPI leaks, and has unloaded the plug-ins that did when the sanitizer looks for leaks, so that
     * no list of suppressions can name them. */
    setenv("ASAN_OPTIONS", "detect_stack_use_after_return=1:detect_leaks=0", 1);
    if (log && (!freopen(log, "w", stdout) || dup2(STDOUT_FILENO, STDERR_FILENO) < 0))
        _exit(126);
    if (!freopen("/dev/null", "r", stdin))
        _exit(126);
    execvp(launcher, (char **)words);
    _exit(127);
}

/* The exit code; 128 and more: a signal. */
static inline int mpi_wait(pid_t pid)
{
    int status = 0;

    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
