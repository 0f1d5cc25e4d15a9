/* The end of a job that has lost a host. All updates of a step are applied together (two phases),
 * so a host has either all of them or none, and can complete those that were decided. A sum
 * needs all hosts, so none is more than one step behind. The lowest of the hosts with the latest
 * step writes the checkpoint; its values are those that all would have had. */
#include "run/host_loss.h"
#include "run/host_fetch.h"

#include "checkpoint/checkpoint.h"
#include "run/hosts_history.h"
#include "run/job_checkpoint.h"
#include "run/job_private.h"
#include "worker/rescue.h"
#include "worker/worker.h"

/* The others end their roles first, perhaps in the middle of a checkpoint; then one writes a file.
 */
enum { STEP_MS = 600000, SAVE_MS = 600000, LEAVE_MS = 5000 };

static bool returns(const struct sw_job *job)
{
    return job->workers[0].shared.returns;
}

void sw_host_loss_cancel_devices_v(void *job)
{
    const struct sw_job *j = job;

    if (!j->workers)
        return;
    if (returns(j) && sw_fault_code(&j->fault) == SW_ERR_LOST)
        return;
    for (int i = 0; i < j->topology->workers; i++)
        if (!j->workers[i].device->host_memory)
            sw_device_cancel(j->workers[i].device);
}

uint64_t sw_job_lost_hosts(const struct sw_job *job)
{
    return job->hosts.lost;
}

static uint64_t all_hosts(const struct sw_job *job)
{
    return UINT64_MAX >> (64 - job->topology->hosts);
}

/* Completes the last decided update, and sets the running statistics to those of its step. */
static int return_to_step(struct sw_job *job, int64_t *step, struct sw_err *err)
{
    uint64_t version;

    if (job->topology->devices > 0)
        return sw_workers_rescue(job->workers, job->span.first_step, step, err);

    int rc = sw_table_finish(job->params.table, &version, err);
    *step = (int64_t)version;

    for (int i = 0; i < job->topology->workers && rc == SW_OK; i++) {
        struct sw_worker *w = &job->workers[i];

        if (w->state.before && w->state.saved_step == *step + 1)
            rc = sw_buffers_restore(w, err);
        w->step = *step;
    }

    return rc;
}

static int write_checkpoint(struct sw_job *job, int64_t step, struct sw_err *err)
{
    const struct sw_checkpoint_job c = sw_job_checkpoint(job);

    if (__atomic_load_n(&job->retention.saved_step, __ATOMIC_RELAXED) == step &&
        job->topology->host == 0)
        return SW_OK;

    return sw_checkpoint_write(&c, err);
}

/* The lowest of the hosts with the latest step, *step; bits of the hosts that have told theirs. */
static int choose_writer(const struct sw_job *job, uint64_t told, uint64_t failed, int64_t *step)
{
    int writer = -1;

    for (int i = job->topology->hosts - 1; i >= 0; i--) {
        int64_t its = job->hosts.notices.room[SW_HOST_STEP][i];

        if ((told >> i & 1) && its > *step)
            *step = its;
    }

    for (int i = 0; i < job->topology->hosts && writer < 0; i++)
        if (((told & ~failed) >> i & 1) && job->hosts.notices.room[SW_HOST_STEP][i] == *step)
            writer = i;

    return writer;
}

/* Writes the checkpoint, or waits for the one who does. */
static int save_at(struct sw_job *job, int writer, int64_t step, struct sw_err *err)
{
    struct sw_host_notices *n = &job->hosts.notices;
    const struct sw_hosts *hosts = job->options.hosts->list;

    if (writer == job->topology->host) {
        int rc = write_checkpoint(job, step, err);
        sw_host_notices_tell(n, job->hosts.fabric, hosts, SW_HOST_SAVED, rc);
        if (rc == SW_OK)
            sw_host_fetch_give(job, step);
        return rc;
    }

    uint64_t bit = (uint64_t)1 << writer;
    if (!(sw_host_notices_await(n, job->hosts.fabric, SW_HOST_SAVED, bit, SAVE_MS) & bit))
        return sw_err_set(err, SW_ERR_LOST, "it was to write the checkpoint, and is lost as well");

    int rc = (int)n->room[SW_HOST_SAVED][writer];
    if (rc != SW_OK)
        return sw_err_set(err, SW_ERR_IO, "it could not write the checkpoint");

    sw_retention_skip(&job->retention, step);
    sw_host_fetch_take(job, writer, step);
    return SW_OK;
}

static int count_bits(uint64_t bits)
{
    int n = 0;
    for (; bits; bits &= bits - 1)
        n++;
    return n;
}

int sw_host_loss_save(struct sw_job *job, int rc, struct sw_err *err)
{
    struct sw_host_notices *n = &job->hosts.notices;
    struct sw_err why, ignored;
    int64_t own, step = job->span.first_step;

    if (job->topology->is_async)
        return sw_job_hosts_end(job, rc, err);
    if (rc != SW_ERR_LOST || !job->hosts.fabric)
        return rc;

    job->hosts.lost = sw_host_notices_lost(n);

    /* A host that was away for a while finds that most of the others have gone on without it. */
    if (count_bits(job->hosts.lost) * 2 > job->topology->hosts)
        return rc;
    if (!returns(job))
        return rc;
    if (return_to_step(job, &own, &why) != SW_OK)
        return sw_err_set(err, rc, "%s; the last step is lost on this host: %s", err->text,
                          why.text);

    /* From here on the others count on an answer. */
    const struct sw_hosts *hosts = job->options.hosts->list;
    uint64_t others = all_hosts(job) & ~((uint64_t)1 << hosts->own);
    sw_host_notices_tell(n, job->hosts.fabric, hosts, SW_HOST_STEP, own);
    uint64_t told = sw_host_notices_await(n, job->hosts.fabric, SW_HOST_STEP, others, STEP_MS);

    n->room[SW_HOST_STEP][hosts->own] = own;
    told |= (uint64_t)1 << hosts->own;

    int writer = choose_writer(job, told, 0, &step), last = writer;
    if (step == job->span.first_step)
        return rc; /* nothing is lost */

    /* If the first one cannot, the next one does. */
    int saved = save_at(job, writer, step, &why);
    for (uint64_t failed = 0; saved != SW_OK && writer >= 0;) {
        last = writer;
        failed |= (uint64_t)1 << writer;
        writer = choose_writer(job, told, failed, &step);
        if (writer >= 0)
            saved = save_at(job, writer, step, &why);
    }

    const char *name = hosts->host[writer < 0 ? last : writer].name;
    job->hosts.lost = sw_host_notices_lost(n);
    sw_hosts_history_stop(job, true);
    int left = sw_fabric_leave(job->hosts.fabric, LEAVE_MS, &ignored);
    (void)left; /* who does not leave is lost as well */
    sw_job_hosts_free(job);

    if (saved != SW_OK)
        return sw_err_set(err, rc, "%s; host %s: %s", err->text, name, why.text);
    return sw_err_set(err, SW_ERR_CANCELLED, "%s; host %s wrote a checkpoint of step %lld",
                      err->text, name, (long long)step);
}
