/* Starts OpenMP teams safely. libgomp ends the process if it cannot start a thread of a team.
 * Therefore as many threads as the team will have are first started and ended here, where an error
 * can be reported. The team is created right after that and persists: later parallel regions of the
 * same size reuse its threads. */
#include "base/os.h"
#include "device/device.h"
#include "thread/thread.h"
#include <omp.h>
#include <unistd.h>

/* Waits for the gate, so that all threads exist at the same time. */
static void wait_for_gate(void *gate)
{
    sw_mutex_lock(gate);
    sw_mutex_unlock(gate);
}

static int try_threads(int count, struct sw_err *err)
{
    struct sw_mutex gate;
    struct sw_thread *t = sw_calloc((size_t)count, sizeof *t);
    int rc = SW_OK;

    if (!t)
        return sw_err_nomem(err, "math threads", (size_t)count * sizeof *t);

    sw_mutex_init(&gate);
    sw_mutex_lock(&gate);
    for (int i = 0; i < count && rc == SW_OK; i++)
        rc = sw_thread_start(&t[i], "math", wait_for_gate, &gate, err);
    sw_mutex_unlock(&gate);
    for (int i = 0; i < count; i++)
        sw_thread_join(&t[i]);
    sw_mutex_fini(&gate);
    sw_free(t);

    return rc;
}

int sw_cpu_start_team(int threads, struct sw_err *err)
{
    int rc = threads > 1 ? try_threads(threads - 1, err) : SW_OK;
    if (rc != SW_OK)
        return sw_err_prefix(err, rc, "%d math threads", threads);

    omp_set_num_threads(threads);

#pragma omp parallel num_threads(threads)
    (void)omp_get_thread_num();

    return SW_OK;
}

/* ---- Waiting beside other processes ---- */

struct sw_idle_team {
    struct sw_thread thread;
    struct sw_mutex gate; /* locked by the owner as long as the team exists */
    int threads;
};

static void idle_main(void *arg)
{
    struct sw_idle_team *t = arg;

#pragma omp parallel num_threads(t->threads)
    (void)omp_get_thread_num();

    wait_for_gate(&t->gate); /* the end of this thread ends its team */
}

int sw_idle_team_start(struct sw_idle_team **out, struct sw_err *err)
{
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    struct sw_idle_team *t = sw_calloc(1, sizeof *t);
    if (!t)
        return sw_err_nomem(err, "idle threads", sizeof *t);

    t->threads = cpus > 0 ? (int)cpus + 1 : 1;

    int rc = try_threads(t->threads, err);
    if (rc != SW_OK) {
        sw_free(t);
        return rc;
    }

    sw_mutex_init(&t->gate);
    sw_mutex_lock(&t->gate);
    *out = t;
    return sw_thread_start(&t->thread, "idle", idle_main, t, err);
}

void sw_idle_team_end(struct sw_idle_team *t)
{
    if (!t)
        return;

    sw_mutex_unlock(&t->gate);
    sw_thread_join(&t->thread);
    sw_mutex_fini(&t->gate);
    sw_free(t);
}

int sw_math_team(void)
{
    return omp_get_max_threads();
}
