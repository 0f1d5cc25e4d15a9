/* Chooses the cores of a job and registers them. The contract is in run/reserve.h. */
#include "run/reserve.h"

#include "base/os.h"
#include "base/stop.h"
#include "base/text.h"
#include "plan/saved_choices.h"
#include "run/job_private.h"
#include "thread/thread.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WAIT_NS = 250000000 };

/* What the job asks for. */
struct request {
    struct sw_core_request cores;
    int wants_cores, wants_gpus; /* what it takes on an idle machine */
};

static const struct sw_driver *driver_on_bus(const struct sw_job *job)
{
    const struct sw_driver *d = job->place.devices.driver;
    return d->caps.on_bus ? d : NULL;
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

/* ---- What the job asks for ---- */

/* Cores for the CPUs (hardware threads) that Slurm granted to the task; 0: no limit. Where Slurm
 * binds the task to them, the machine map has only these. */
static int slurm_cores(const struct sw_machine *m)
{
    const char *text = getenv("SLURM_CPUS_PER_TASK");
    int64_t cpus;

    if (!m->here || !text || !sw_parse_int(text, &cpus) || cpus < 1 || cpus >= m->pu_count)
        return 0;
    return larger(1, (int)(cpus * m->core_count / m->pu_count));
}

/* Reads how many threads computed the checkpoint that is resumed. */
static void read_saved(struct sw_job *job)
{
    struct sw_json *saved = NULL;
    struct sw_err ignored;
    uint64_t workers, threads;
    const char *path = job->options.resume_checkpoint;

    if (path && !job->conf->cores && sw_saved_choices_read(path, &saved, &ignored) == SW_OK &&
        saved && sw_json_as_size(sw_json_get(saved, "workers"), &workers) &&
        sw_json_as_size(sw_json_get(saved, "threads"), &threads) && workers <= SW_MAX_CORES &&
        threads <= SW_MAX_CORES) {
        job->reserve.saved_workers = (int)workers;
        job->reserve.saved_threads = (int)threads;
    }

    sw_json_free(saved);
}

/* Cores that go with `gpus` of the machine's GPUs: the same part of the cores. */
static int cores_with_gpus(const struct sw_machine *m, int cores, int gpus)
{
    return m->gpu_count > 0 ? (cores * gpus + m->gpu_count - 1) / m->gpu_count : cores;
}

static void count_wants(const struct sw_job *job, struct request *r)
{
    const struct sw_machine *m = job->place.machine;
    const int named = job->place.devices.count;

    r->wants_cores = r->cores.cores ? r->cores.cores : m->core_count;
    if (!driver_on_bus(job))
        return;

    r->wants_gpus = named ? named : r->cores.workers > 1 ? r->cores.workers : m->gpu_count;
    if (r->wants_gpus > m->gpu_count)
        r->wants_gpus = m->gpu_count;
    if (!r->cores.cores)
        r->wants_cores = larger(r->cores.least, cores_with_gpus(m, m->core_count, r->wants_gpus));
}

static int read_request(struct sw_job *job, int least, struct request *r, struct sw_err *err)
{
    const struct sw_machine *m = job->place.machine;
    const int cores = (int)job->conf->cores;

    if (cores > m->core_count) {
        sw_recipe_error(job->recipe, sw_recipe_find(job->recipe, "job", NULL), "cores",
                        "%d cores, but this process may use %d: use at most %d", cores,
                        m->core_count, m->core_count);
        return sw_recipe_status(job->recipe, err);
    }

    job->reserve.slurm_cores = slurm_cores(m);
    *r = (struct request){
        .cores = {.cores = cores ? cores : job->reserve.slurm_cores, .workers = least}};
    r->cores.least = larger(least, job->reserve.saved_workers * job->reserve.saved_threads);
    if (r->cores.least > m->core_count)
        r->cores.least = m->core_count;
    count_wants(job, r);

    return SW_OK;
}

/* ---- Waiting ---- */

/* Are the GPUs that the recipe names free? */
static bool named_are_free(const struct sw_job *job, const struct sw_usage *u)
{
    for (int i = 0; driver_on_bus(job) && i < job->place.devices.count; i++) {
        int gpu = job->place.devices.index[i];
        if (gpu >= 0 && gpu < 64 && (u->used_gpus >> gpu & 1))
            return false;
    }

    return true;
}

/* Runs that arrived earlier and wait come first: what they want is not free. */
static bool is_enough(const struct sw_job *job, const struct sw_usage *u, const struct request *r)
{
    const struct sw_machine *m = job->place.machine;
    struct sw_core_set free = sw_usage_free_cores(m, u);

    return sw_core_set_count(&free) - u->queued_cores >= r->wants_cores &&
           sw_usage_free_gpus(m, u) - u->queued_gpus >= r->wants_gpus && named_are_free(job, u);
}

/* "2 cores (0 of 2 are free): cores 0-1 are used by run 3 "lenet" (pid 4711); 1 run waits before
 * this one". */
static void describe_wait(const struct sw_job *job, const struct request *r, struct sw_bytes *out)
{
    const struct sw_job_reserve *reserve = &job->reserve;
    const struct sw_machine *m = job->place.machine;
    struct sw_core_set all = sw_machine_cores(m), free = sw_usage_free_cores(m, &reserve->usage);
    struct sw_bytes users = {0};

    sw_bytes_printf(out, "%d core%s (%d of %d free)", r->wants_cores,
                    r->wants_cores == 1 ? "" : "s", sw_core_set_count(&free), m->core_count);
    if (r->wants_gpus)
        sw_bytes_printf(out, " and %d GPU%s (%d of %d free)", r->wants_gpus,
                        r->wants_gpus == 1 ? "" : "s", sw_usage_free_gpus(m, &reserve->usage),
                        m->gpu_count);

    sw_usage_add_users(m, reserve->registry, reserve->registration, &all,
                       r->wants_gpus ? ~UINT64_C(0) : 0, &users);
    sw_bytes_printf(out, "%s%s", users.length ? ": " : "", sw_bytes_text(&users));
    if (reserve->usage.queued_runs)
        sw_bytes_printf(out, "; %d run%s before this one", reserve->usage.queued_runs,
                        reserve->usage.queued_runs == 1 ? " waits" : "s wait");
    sw_bytes_fini(&users);
}

static int enter_queue(struct sw_job *job, const struct request *r, const char *text,
                       struct sw_err *err)
{
    struct sw_job_reserve *reserve = &job->reserve;

    reserve->reserved.state = SW_RESERVED_QUEUED;
    reserve->reserved.wants_cores = r->wants_cores;
    reserve->reserved.wants_gpus = r->wants_gpus;
    sw_utf8_copy(reserve->reserved.waits_for, sizeof reserve->reserved.waits_for, text);

    return reserve->registration
               ? sw_registration_write(reserve->registration, &reserve->reserved, err)
               : sw_registry_add(reserve->registry, &reserve->reserved, &reserve->registration,
                                 err);
}

/* Opens the registry and reads what is in use. */
static int read_usage(struct sw_job *job, const struct sw_registration *own, struct sw_err *err)
{
    struct sw_job_reserve *reserve = &job->reserve;

    int rc = sw_registry_open(&reserve->registry, err);
    if (rc == SW_OK)
        sw_usage_read(job->place.machine, reserve->registry, own, &reserve->usage);
    return rc;
}

static int wait_until_free(struct sw_job *job, const struct sw_job_options *o,
                           const struct request *r, struct sw_err *err)
{
    struct sw_bytes now = {0}, told = {0};
    int rc = SW_OK;

    while (rc == SW_OK && !is_enough(job, &job->reserve.usage, r)) {
        sw_bytes_clear(&now);
        describe_wait(job, r, &now);
        bool news = !told.length || !sw_str_eq(sw_bytes_text(&now), told.text);

        if (news)
            rc = enter_queue(job, r, sw_bytes_text(&now), err);
        sw_reserve_unlock(job);
        if (rc != SW_OK)
            break;

        if (news) {
            o->on_wait(o->wait_user, sw_bytes_text(&now));
            sw_bytes_clear(&told);
            sw_bytes_add(&told, sw_bytes_text(&now));
        }

        sw_thread_nap(WAIT_NS);
        rc = sw_stop_check(err);
        if (rc == SW_OK)
            rc = read_usage(job, job->reserve.registration, err);
    }

    sw_bytes_fini(&now);
    sw_bytes_fini(&told);
    return rc;
}

/* ---- Choosing ---- */

/* The job of a later stage has the cores of the run, and takes free GPUs. */
static int follow_stage(struct sw_job *job, const struct sw_job *before, struct sw_err *err)
{
    struct sw_err ignored;

    if (sw_core_set_count(&before->reserve.reserved.cores) > 0 && job->place.machine->owners == 1)
        sw_machine_restrict(job->place.machine, &before->reserve.reserved.cores);
    job->reserve.map_cores = before->reserve.map_cores;
    job->reserve.slurm_cores = before->reserve.slurm_cores;
    job->reserve.reserved = before->reserve.reserved;

    if (before->reserve.registration &&
        read_usage(job, before->reserve.registration, &ignored) != SW_OK)
        job->reserve.usage = before->reserve.usage;
    return SW_OK;
}

int sw_reserve_begin(struct sw_job *job, const struct sw_job_options *o, int least,
                     struct sw_err *err)
{
    struct sw_job_reserve *reserve = &job->reserve;
    struct request r;
    int rc;

    read_saved(job);
    if (o->previous.job)
        return follow_stage(job, o->previous.job, err);

    rc = read_request(job, least, &r, err);
    if (rc != SW_OK)
        return rc;

    reserve->map_cores = job->place.machine->core_count;
    sw_utf8_copy(reserve->reserved.name, sizeof reserve->reserved.name,
                 job->options.name ? job->options.name : "");
    rc = o->reserve ? read_usage(job, NULL, err) : SW_OK;
    if (rc == SW_OK && o->reserve && o->on_wait)
        rc = wait_until_free(job, o, &r, err);
    if (rc != SW_OK && o->on_wait)
        return rc;
    if (rc != SW_OK)
        sw_log_write(job->events.log, SW_LOG_WARN, "placement",
                     "%s: cores and GPUs of other runs are not known", err->text);

    if (r.cores.cores || o->reserve) {
        struct sw_core_set cores = sw_usage_choose(job->place.machine, &reserve->usage, &r.cores);
        sw_machine_restrict(job->place.machine, &cores);
    }

    return SW_OK;
}

/* The cores of workers and servers, and the nodes of these. */
static struct sw_core_set placed_cores(const struct sw_placement *p, uint64_t *nodes)
{
    struct sw_core_set cores = {0};

    *nodes = 0;
    for (int i = 0; i < p->worker_count + p->server_count; i++) {
        sw_core_set_add_all(&cores, &p->rows[i].cores);
        *nodes |= p->rows[i].node_mask;
    }

    return cores;
}

static uint64_t placed_gpus(const struct sw_placement *p)
{
    uint64_t gpus = 0;

    for (int i = 0; i < p->worker_count; i++)
        if (p->rows[i].gpu >= 0 && p->rows[i].gpu < 64)
            gpus |= UINT64_C(1) << p->rows[i].gpu;
    return gpus;
}

bool sw_reserve_narrow(struct sw_job *job, const struct sw_job_options *o)
{
    struct sw_machine *m = job->place.machine;
    const struct sw_placement *p = job->place.placement;
    uint64_t nodes;

    if (!job->reserve.registry || o->previous.job || job->conf->cores || !placed_gpus(p))
        return false;

    struct sw_core_set keep = placed_cores(p, &nodes), others = sw_machine_cores(m);
    int count = cores_with_gpus(m, job->reserve.map_cores, __builtin_popcountll(placed_gpus(p)));
    if (count >= m->core_count)
        return false;

    sw_core_set_remove_all(&others, &keep);
    others = sw_usage_pick(m, &others, count - sw_core_set_count(&keep), nodes);
    sw_core_set_add_all(&keep, &others);
    sw_machine_restrict(m, &keep);
    return true;
}

/* ---- Registering ---- */

/* All cores of the map, since helper threads use the spare ones; with a CPU quota only those on
 * which workers and servers compute. */
static void fill(struct sw_job *job)
{
    const struct sw_machine *m = job->place.machine;
    struct sw_reserved *r = &job->reserve.reserved;
    uint64_t gpus = placed_gpus(job->place.placement), nodes;

    r->state = SW_RESERVED_USED;
    r->waits_for[0] = '\0';
    r->cores = sw_machine_threads(m) < m->core_count ? placed_cores(job->place.placement, &nodes)
                                                     : sw_machine_cores(m);

    r->gpu_count = 0;
    for (int i = 0; i < m->gpu_count && i < 64; i++)
        if (gpus >> i & 1)
            snprintf(r->gpus[r->gpu_count++], sizeof r->gpus[0], "%s", sw_machine_gpu(m, i)->bus);
}

int sw_reserve_end(struct sw_job *job, const struct sw_job_options *o, struct sw_err *err)
{
    struct sw_job_reserve *reserve = &job->reserve;

    fill(job);
    if (!reserve->registry)
        return SW_OK;

    sw_usage_add_users(
        job->place.machine, reserve->registry,
        o->previous.job ? o->previous.job->reserve.registration : reserve->registration,
        &reserve->reserved.cores, placed_gpus(job->place.placement), &reserve->shared);
    if (o->previous.job)
        return SW_OK;

    return reserve->registration
               ? sw_registration_write(reserve->registration, &reserve->reserved, err)
               : sw_registry_add(reserve->registry, &reserve->reserved, &reserve->registration,
                                 err);
}

void sw_reserve_unlock(struct sw_job *job)
{
    sw_registry_close(job->reserve.registry);
    job->reserve.registry = NULL;
}

/* Replaces what is registered. If that fails, others see what was registered before. */
static void rewrite(struct sw_job_reserve *reserve)
{
    struct sw_registry *registry = NULL;
    struct sw_err err;

    if (!reserve->registration || sw_registry_open(&registry, &err) != SW_OK)
        return;

    int rc = sw_registration_write(reserve->registration, &reserve->reserved, &err);
    (void)rc;
    sw_registry_close(registry);
}

void sw_reserve_name_run(struct sw_job *job)
{
    struct sw_reserved *r = &job->reserve.reserved;
    const struct sw_history *h = job->events.history;

    r->run_id = sw_history_run_id(h);
    snprintf(r->run_uid, sizeof r->run_uid, "%s", sw_history_run_uid(h));
    sw_utf8_copy(r->history, sizeof r->history, sw_history_path(h) ? sw_history_path(h) : "");
    rewrite(&job->reserve);
}

void sw_reserve_report(struct sw_job *job)
{
    if (job->reserve.shared.length)
        sw_events_report(&job->events, SW_LOG_WARN, "placement",
                         "%s: the runs slow each other down; `run --when-free` waits, --cores N "
                         "takes fewer",
                         sw_bytes_text(&job->reserve.shared));
}

/* False if another process has the registry open just now. */
static bool read_sharing(const struct sw_job *job, bool *shared)
{
    const struct sw_core_set *cores = &job->reserve.reserved.cores;
    struct sw_registry *registry = NULL;
    struct sw_usage usage;
    struct sw_err ignored;

    if (sw_registry_try_open(&registry, &ignored) != SW_OK)
        return false;
    sw_usage_read(job->place.machine, registry, job->reserve.registration, &usage);
    sw_registry_close(registry);

    *shared = false;
    for (int c = sw_core_set_next(cores, -1); c >= 0; c = sw_core_set_next(cores, c))
        *shared |= usage.runs[c] > 0;
    return true;
}

void sw_reserve_watch(struct sw_job *job)
{
    struct sw_job_reserve *reserve = &job->reserve;
    struct sw_err ignored;
    bool shared;

    if (!reserve->registration || !read_sharing(job, &shared) || shared == !!reserve->idle_team)
        return;

    if (!shared || sw_idle_team_start(&reserve->idle_team, &ignored) != SW_OK)
        sw_reserve_unwatch(job); /* without idle threads both runs are slower, but correct */
}

void sw_reserve_unwatch(struct sw_job *job)
{
    sw_idle_team_end(job->reserve.idle_team);
    job->reserve.idle_team = NULL;
}

void sw_reserve_give_back(struct sw_job *job)
{
    struct sw_reserved *r = &job->reserve.reserved;

    r->state = SW_RESERVED_RELEASED;
    r->cores = (struct sw_core_set){0};
    r->gpu_count = 0;
    rewrite(&job->reserve);
}

void sw_reserve_hand_over(struct sw_job *from, struct sw_job *to)
{
    if (to->reserve.registration)
        return;

    to->reserve.registration = from->reserve.registration;
    from->reserve.registration = NULL;
    rewrite(&to->reserve);
}

void sw_reserve_fini(struct sw_job *job)
{
    sw_reserve_unlock(job);
    sw_registration_free(job->reserve.registration);
    sw_bytes_fini(&job->reserve.shared);
}
