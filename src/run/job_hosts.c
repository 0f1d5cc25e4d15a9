/* Connects a job with the other hosts. Workers and the parameter table only see sums that go on
 * beyond them (struct sw_group_outer, struct sw_table_outer), and requests on which all processes
 * agree (struct sw_requests). */
#include "run/job_hosts.h"

#include "base/hash.h"
#include "base/os.h"
#include "exchange/table/table.h"
#include "run/hosts_history.h"
#include "run/job_private.h"
#include "run/launch.h"
#include "run/microbatches.h"
#include "worker/worker.h"
#include <string.h>

/* One host may take longer than another to open its data. */
enum { CONNECT_MS = 300000, LEAVE_MS = 10000, ABORT_MS = 2000 };

static const struct sw_hosts *hosts_of(const struct sw_job *job)
{
    return job->options.hosts ? job->options.hosts->list : NULL;
}

static bool is_alone(const struct sw_job *job)
{
    return !job->topology || job->topology->hosts == 1;
}

enum sw_checkpoint_home sw_job_hosts_home(struct sw_job *job)
{
    if (is_alone(job) || job->topology->host == 0)
        return SW_CHECKPOINT_OF_RUN;
    if (sw_job_has_next(job))
        return SW_CHECKPOINT_OF_HOST;

    sw_retention_skip(&job->retention, job->workers[0].step);
    return SW_CHECKPOINT_ELSEWHERE;
}

/* ---- What cannot be done ---- */

/* Hosts add what each has summed over its microbatches: the order of the sum over all of them, if
 * these are a node of the reduction tree. */
static int check_exact(struct sw_job *job)
{
    const struct sw_topology *t = job->topology;
    const int own = t->microbatches;
    int64_t all = job->conf->virtual_workers;

    for (int split = 0; split < SW_SPLITS; split++)
        all = t->batch[split] < all ? t->batch[split] : all;

    if (own > 0 && (own & (own - 1)) == 0 && all == (int64_t)own * t->hosts &&
        t->batch[SW_SPLIT_TRAIN] % t->hosts == 0 && t->batch[SW_SPLIT_EVAL] % t->hosts == 0)
        return SW_OK;

    return sw_recipe_error(job->recipe, sw_recipe_find(job->recipe, "job", NULL), "repeat_exact",
                           "on %d hosts each needs the same number of rows, and 1, 2, 4, ... of "
                           "the virtual workers, of which there are %lld: use virtual_workers = "
                           "%d, and batches that %d divides",
                           t->hosts, (long long)all, 4 * t->hosts, t->hosts);
}

int sw_job_hosts_check(struct sw_job *job)
{
    const struct sw_section *cluster = sw_recipe_find(job->recipe, "cluster", NULL);
    const struct sw_section *section = sw_recipe_find(job->recipe, "job", NULL);
    const struct sw_topology *t = job->topology;
    int rc = SW_OK;

    if (is_alone(job))
        return SW_OK;

    const struct sw_cluster_conf *c = cluster->common;
    if (!t->is_async && c->on_host_loss == SW_ON_HOST_LOSS_GO_ON)
        rc = sw_recipe_error(job->recipe, cluster, "on_host_loss",
                             "every update needs the gradients of all hosts, so none can go on "
                             "without another: use save, or an asynchronous framework (downpour, "
                             "hogwild)");
    if (c->on_host_loss == SW_ON_HOST_LOSS_GO_ON && job->options.hosts->engine->ends_all)
        rc = sw_recipe_error(job->recipe, cluster, "on_host_loss",
                             "a process of MPI that ends ends all others: use fabric = tcp");
    if (t->server_groups > 1)
        rc = sw_recipe_error(job->recipe, cluster, "server_groups",
                             "every host has all parameters already: use one server group");
    if (sw_job_splits_layers(job))
        rc = sw_recipe_error(job->recipe, section, "partition",
                             "layers cannot be split on several hosts, because activations do not "
                             "move between hosts: split by rows");
    if (job->conf->on_nan != SW_ON_NAN_STOP)
        rc = sw_recipe_error(job->recipe, section, "on_nan",
                             "on several hosts a value that is not finite ends the run: use stop");
    if (job->conf->loss_scale > 0)
        rc = sw_recipe_error(job->recipe, section, "loss_scale",
                             "gradients cannot be scaled on several hosts: use precision = bf16, "
                             "or fp32");
    if (job->conf->repeat_exact && !t->is_async)
        rc = check_exact(job);

    for (int split = 0; split < SW_SPLITS && rc == SW_OK; split++)
        if (t->batch[split] < t->hosts && !(t->is_async && split == SW_SPLIT_TRAIN))
            rc = sw_recipe_error(job->recipe, section, split ? "eval_batch" : "batch",
                                 "%d hosts cannot share a batch of %lld rows", t->hosts,
                                 (long long)t->batch[split]);
    return rc;
}

static int check_nets(struct sw_job *job, struct sw_err *err)
{
    const struct sw_net *net = job->workers[0].eval;

    if (job->state.recurrent.count > 0)
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "on several hosts rows cannot keep a state between batches (streams, "
                          "persistent chains): train on one host");

    for (int i = 0; net && i < sw_net_layer_count(net); i++)
        if (sw_net_layer(net, i)->type->role == SW_ROLE_OUTPUT)
            return sw_err_set(err, SW_ERR_UNSUPPORTED,
                              "layer %s writes the results of all rows, and a host has only its "
                              "own: remove it, or train on one host",
                              sw_net_layer(net, i)->name);

    return SW_OK;
}

/* ---- What workers and the table see ---- */

static int sum_over_hosts(void *user, enum sw_group_channel channel, double *values, int count,
                          struct sw_err *err)
{
    struct sw_job *job = user;

    return sw_hosts_note(job, sw_hosts_mode_of(job)->sum(job, channel, values, count, err), err);
}

static int agree(void *user, int64_t step, int own)
{
    struct sw_job *job = user;

    return sw_hosts_mode_of(job)->agree(job, step, own);
}

void sw_job_hosts_ask(struct sw_job *job)
{
    const int own = sw_requests_get(&job->requests) & SW_JOB_STOP;

    if (own && job->hosts.fabric && sw_hosts_mode_of(job)->ask)
        sw_hosts_mode_of(job)->ask(job, own);
}

static void wake_others(void *user, int64_t step)
{
    struct sw_job *job = user;

    if (sw_hosts_mode_of(job)->wake)
        sw_hosts_mode_of(job)->wake(job, step);
}

void sw_job_hosts_connect_groups(struct sw_job *job)
{
    const struct sw_group_outer outer = {.sum = sum_over_hosts, .wake = wake_others, .user = job};

    if (is_alone(job))
        return;

    job->groups.all.outer = outer;
    for (int g = 0; g < job->topology->worker_groups && !job->topology->is_async; g++)
        job->groups.each[g].outer = outer;
    job->requests.agree = agree;
    job->requests.agree_user = job;
}

bool sw_job_hosts_are_quiet(struct sw_job *job)
{
    return is_alone(job) || !sw_hosts_mode_of(job)->is_quiet ||
           sw_hosts_mode_of(job)->is_quiet(job);
}

int sw_job_hosts_merge(struct sw_job *job, int64_t step, struct sw_err *err)
{
    return sw_hosts_note(job, sw_hosts_mode_of(job)->merge(job, step, err), err);
}

int sw_job_hosts_resume(struct sw_job *job, struct sw_err *err)
{
    return is_alone(job) ? SW_OK : sw_hosts_note(job, sw_hosts_mode_of(job)->resume(job, err), err);
}

int sw_job_hosts_share_state(struct sw_job *job, struct sw_err *err)
{
    return sw_hosts_note(job, sw_hosts_mode_of(job)->share_state(job, err), err);
}

int sw_job_hosts_prepare(struct sw_job *job, struct sw_err *err)
{
    return is_alone(job) ? SW_OK : check_nets(job, err);
}

/* ---- The fabric ---- */

/* Names, shapes and slices of all parameters. */
static uint64_t hash_parameters(const struct sw_table *t)
{
    struct sw_bytes text = {0};

    for (int i = 0; i < sw_table_count(t); i++) {
        const struct sw_param *p = sw_table_param(t, i);

        sw_bytes_printf(&text, "%s", p->name);
        for (int d = 0; d < p->layout.ndim; d++)
            sw_bytes_printf(&text, " %lld", (long long)p->layout.dim[d]);
        sw_bytes_printf(&text, " factors %d", p->factors);
        for (int k = p->first_slice; k < p->first_slice + p->slice_count; k++)
            sw_bytes_printf(&text, " %lld", (long long)sw_table_slice(t, k)->from);
        sw_bytes_add(&text, "\n");
    }

    uint64_t hash = sw_hash_bytes64(sw_bytes_text(&text), text.length);
    sw_bytes_fini(&text);
    return hash;
}

/* Settings that each host has for itself. */
static bool is_local(const char *line)
{
    static const char *const local[] = {"job.device=", "job.cores=", "job.db="};

    for (size_t i = 0; i < sizeof local / sizeof *local; i++)
        if (sw_str_starts(line, local[i]))
            return true;
    return false;
}

/* Hashes the lines that settings on the command line, or replacements of missing data, add to the
 * recipe. */
static uint64_t hash_lines(const char *lines)
{
    uint64_t hash = 0;

    for (const char *line = lines; line && *line; line += strcspn(line, "\n"), line += *line != 0)
        if (!is_local(line))
            hash = hash * 31 + sw_hash_bytes64(line, strcspn(line, "\n"));
    return hash;
}

void sw_job_hosts_say_settings(const struct sw_job *job, struct sw_bytes *out)
{
    sw_bytes_printf(out, "version=%s\n", SW_VERSION);
    sw_bytes_printf(out, "recipe=%s\n", sw_recipe_hash(job->recipe));
    sw_bytes_printf(out, "settings=%016llx\n",
                    (unsigned long long)hash_lines(sw_recipe_overrides(job->recipe)));
    sw_bytes_printf(out, "fallback=%016llx\n",
                    (unsigned long long)hash_lines(sw_recipe_fallback(job->recipe)));
    sw_bytes_printf(out, "share-machine=%s\n", job->options.hosts->share_machine ? "yes" : "no");
}

/* What all hosts must agree on. */
static int say_hello(const struct sw_job *job, struct sw_bytes *out, struct sw_err *err)
{
    const struct sw_source *const *source =
        (const struct sw_source *const *)(const void *)job->data.source;

    sw_job_hosts_say_settings(job, out);
    sw_bytes_printf(out, "stage=%s\n", job->stage.name ? job->stage.name : "none");
    sw_bytes_printf(out, "first step=%lld\n", (long long)job->span.first_step);
    sw_bytes_printf(out, "last step=%lld\n", (long long)job->span.steps);
    sw_bytes_printf(out, "parameters=%016llx\n",
                    (unsigned long long)hash_parameters(job->params.table));
    if (job->topology->is_async)
        sw_bytes_printf(out, "worker groups=%d\nservers=%d\n", job->topology->worker_groups,
                        job->topology->servers_per_group);
    for (int split = 0; split < SW_SPLITS; split++)
        if (source[split])
            sw_bytes_printf(out, "records of %s data=%lld\n",
                            split == SW_SPLIT_TRAIN ? "training" : "evaluation",
                            (long long)source[split]->records);

    return out->failed ? sw_err_nomem(err, "what hosts must agree on", out->length) : SW_OK;
}

/* Every host puts a number in its own place; the sum holds the numbers of all. */
static int gather(struct sw_job *job, double own, double *out, struct sw_err *err)
{
    for (int i = 0; i < job->topology->hosts; i++)
        out[i] = i == job->topology->host ? own : 0;
    return sw_job_hosts_sum(job, out, job->topology->hosts, err);
}

/* Two processes of a job on one machine would share its cores and GPUs without knowing. */
static int check_machines(struct sw_job *job, struct sw_err *err)
{
    const struct sw_host *host = hosts_of(job)->host;
    double high[SW_MOST_HOSTS], low[SW_MOST_HOSTS]; /* halves of a hash; 0 and 0: not known */
    char id[SW_LAUNCH_MACHINE_ID];

    if (job->options.hosts->share_machine)
        return SW_OK;

    sw_launch_machine_id(id);
    const uint64_t hash = *id ? sw_hash_bytes64(id, strlen(id)) : 0;
    int rc = gather(job, (double)(hash >> 32), high, err);
    if (rc == SW_OK)
        rc = gather(job, (double)(hash & UINT32_MAX), low, err);
    if (rc != SW_OK)
        return rc;

    for (int i = 1; i < job->topology->hosts; i++)
        for (int k = 0; k < i; k++)
            if (high[i] == high[k] && low[i] == low[k] && (high[i] != 0 || low[i] != 0))
                return sw_err_set(err, SW_ERR_INVALID,
                                  "hosts %s and %s are the same machine, and one process uses all "
                                  "its cores and GPUs: name another host, or add --share-machine",
                                  host[k].name, host[i].name);
    return SW_OK;
}

/* A sink of the log. There is no history yet. The user is told at once whom all wait for. */
static void note_remark(void *user, enum sw_log_level level, const char *source, const char *text)
{
    struct sw_job *job = user;
    struct sw_job_fabric *h = &job->hosts;

    if (level >= SW_LOG_WARN) {
        snprintf(h->remark, sizeof h->remark, "%s", text);
    } else {
        snprintf(h->waited, sizeof h->waited, "%s", text);
        sw_log_write(job->events.log, SW_LOG_WARN, source, "%s", text);
    }
}

int sw_job_hosts_meet(struct sw_job *job, int *connect_ms, struct sw_log **log, struct sw_err *err)
{
    *connect_ms = CONNECT_MS;
    *log = sw_log_new();
    return *log ? sw_log_add_sink(*log, SW_LOG_INFO, note_remark, job, err)
                : sw_err_nomem(err, "the log of how hosts meet", 0);
}

void sw_job_hosts_report(struct sw_job *job)
{
    if (job->hosts.waited[0])
        sw_events_report(&job->events, SW_LOG_INFO, "hosts", "%s", job->hosts.waited);
    if (job->hosts.remark[0])
        sw_events_report(&job->events, SW_LOG_WARN, "hosts", "%s", job->hosts.remark);
}

static int connect_fabric(struct sw_job *job, struct sw_fabric_args *args, struct sw_err *err)
{
    int rc = sw_job_hosts_meet(job, &args->connect_ms, &args->log, err);

    if (rc == SW_OK)
        rc = sw_fabric_open(job->options.hosts->engine, args, &job->hosts.fabric, err);
    sw_log_free(args->log);
    return rc;
}

static int open_fabric(struct sw_job *job, struct sw_err *err)
{
    const struct sw_job_hosts *h = job->options.hosts;
    const struct sw_cluster_conf *cluster = sw_recipe_find(job->recipe, "cluster", NULL)->common;
    struct sw_bytes hello = {0};

    /* Losses are noted before the sums make them the fault of the job. */
    job->hosts.router = (struct sw_fabric_router){.count = 0};
    sw_fabric_router_add(&job->hosts.router, SW_HOST_NOTICE, 2,
                         sw_host_notices_sink(&job->hosts.notices));
    sw_hosts_mode_of(job)->receive(job, &job->hosts.router);
    sw_job_collective_init(job, &job->hosts.router);

    int rc = sw_hosts_history_init(job, &job->hosts.router, err);
    if (rc == SW_OK)
        rc = say_hello(job, &hello, err);
    struct sw_fabric_args args = {.hosts = h->list,
                                  .key = h->key,
                                  .hello = sw_bytes_text(&hello),
                                  .hello_bytes = hello.length,
                                  .room = sw_hosts_mode_of(job)->room(job) + SW_HOST_MESSAGES +
                                          SW_HOST_OFFERS + SW_HOSTS_HISTORY_ROOM,
                                  .bytes_per_s = cluster->bandwidth,
                                  .sink = sw_fabric_router_sink(&job->hosts.router),
                                  .conf = h->conf,
                                  .clock = h->clock};
    if (rc == SW_OK)
        rc = connect_fabric(job, &args, err);
    sw_bytes_fini(&hello);
    if (rc != SW_OK)
        return rc;

    rc = sw_hosts_mode_of(job)->start(job, err);
    if (rc == SW_OK)
        rc = check_machines(job, err);
    return rc == SW_OK ? sw_job_collective_agree(job, err) : rc;
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

/* Values of the longest small sum: of a layer, of losses and metrics (two each), or a number of
 * each host. */
static int longest_sum(const struct sw_job *job)
{
    enum { FEW = 16 };

    const struct sw_worker *w = &job->workers[0];
    const struct sw_net *const nets[] = {w->train, w->eval};
    int most = larger(FEW, job->topology->hosts);

    for (int i = 0; i < 2; i++)
        if (nets[i])
            most = larger(most, larger(sw_net_sum_count(nets[i]), 2 * sw_net_pair_count(nets[i])));
    return larger(most, sw_exchange_vote_count(job->params.table));
}

int sw_job_hosts_open(struct sw_job *job, struct sw_err *err)
{
    if (is_alone(job))
        return SW_OK;

    sw_host_notices_init(&job->hosts.notices);
    job->hosts.ready = true;
    int rc = sw_hosts_mode_of(job)->init(job, longest_sum(job), err);
    return rc == SW_OK ? open_fabric(job, err) : rc;
}

void sw_job_hosts_close(struct sw_job *job, int rc, const struct sw_err *err)
{
    struct sw_err why;

    if (!job->hosts.fabric)
        return;

    /* A stop before the first step is not one that all have agreed on. */
    const bool together = rc == SW_OK || (rc == SW_ERR_CANCELLED && job->workers[0].end.stopped);

    sw_hosts_history_stop(job, together);
    if (!together) {
        sw_err_set(&why, rc == SW_ERR_CANCELLED ? SW_ERR_LOST : rc, "%s", err->text);
        sw_fabric_abort(job->hosts.fabric, &why, ABORT_MS);
    } else if (sw_fabric_leave(job->hosts.fabric, LEAVE_MS, &why) == SW_ERR_LOST) {
        sw_events_report(&job->events, SW_LOG_WARN, "hosts", "%s", why.text);
    }

    sw_job_hosts_free(job);
}

void sw_job_hosts_free(struct sw_job *job)
{
    struct sw_job_fabric *h = &job->hosts;

    if (!h->ready)
        return;

    sw_fabric_free(h->fabric);
    sw_hosts_mode_of(job)->fini(job);
    sw_host_notices_fini(&h->notices);
    sw_job_collective_fini(job);
    h->fabric = NULL;
    h->ready = false;
}

/* ---- Equal values ---- */

/* 32 bits of a hash of all values, which a double holds exactly. */
static double hash_values(const struct sw_table *t)
{
    uint64_t hash = 0;

    for (int i = 0; i < sw_table_count(t); i++) {
        const struct sw_param *p = sw_table_param(t, i);
        hash = hash * 31 + sw_hash_bytes64(p->value, sw_desc_bytes(&p->layout));
    }

    return (double)(hash >> 32 ^ (hash & UINT32_MAX));
}

void sw_job_hosts_compare(struct sw_job *job, int64_t step)
{
    double hash[SW_MOST_HOSTS];
    struct sw_err err;

    if (is_alone(job) || gather(job, hash_values(job->params.table), hash, &err) != SW_OK)
        return;

    const uint64_t counted = sw_hosts_mode_of(job)->counted(job);
    for (int i = 1; i < job->topology->hosts; i++) {
        if (hash[i] == hash[0] || !(counted >> i & 1))
            continue;

        sw_err_set(&err, SW_ERR_LIBRARY,
                   "after step %lld the parameters of host %s differ from those of host %s",
                   (long long)step, hosts_of(job)->host[i].name, hosts_of(job)->host[0].name);
        sw_fault_set(&job->fault, "hosts", &err);
        return;
    }
}
