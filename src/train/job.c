/* Opening a job: recipe, machine, data, nets, parameter table, plan; nothing large is allocated and
 * nothing is written. */
#include "base/os.h"
#include "base/str.h"
#include "train/job_private.h"
#include "train/schema.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STALL_S = 60 };

static int copy_text(char **to, const char *from, struct sw_err *err)
{
    if (!from)
        return SW_OK;
    *to = sw_strdup(from);
    return *to ? SW_OK : sw_err_nomem(err, "a job's options", strlen(from) + 1);
}

static int copy_options(struct sw_job *job, const struct sw_job_options *o, struct sw_err *err)
{
    int rc = copy_text(&job->out_option, o->out_dir, err);
    if (rc == SW_OK)
        rc = copy_text(&job->db_option, o->db, err);
    if (rc == SW_OK)
        rc = copy_text(&job->command, o->command, err);
    if (rc == SW_OK)
        rc = copy_text(&job->init_from, o->resume ? NULL : o->init_from, err);
    if (rc == SW_OK)
        rc = copy_text(&job->resume_checkpoint, o->resume ? o->resume_checkpoint : NULL, err);
    job->resume_run_id = o->resume ? o->resume->id : 0;
    job->trace_capacity = o->trace_capacity;
    job->display = o->display;
    job->stall_ns = (int64_t)((o->stall_s > 0 ? o->stall_s : STALL_S) * 1e9);
    return rc;
}

/* ---- recipe ---- */

/* Options of their own come after all --set: they have the last word. */
static int add_options(const struct sw_job_options *o, const char **sets, char **framework,
                       int *count, struct sw_err *err)
{
    *count = o->set_count;
    if (o->set_count)
        memcpy(sets, o->sets, (size_t)o->set_count * sizeof *sets);
    if (!o->framework)
        return SW_OK;
    *framework = sw_format("cluster.framework=%s", o->framework);
    sets[(*count)++] = *framework;
    return *framework ? SW_OK : sw_err_nomem(err, "a job's options", 0);
}

static int load_with(struct sw_job *job, const struct sw_job_options *o, const char *const *sets,
                     int set_count, struct sw_err *err);

static int load_recipe(struct sw_job *job, const struct sw_job_options *o, struct sw_err *err)
{
    char *framework = NULL;
    int count = 0;
    const char **sets = sw_calloc((size_t)o->set_count + 1, sizeof *sets);
    if (!sets)
        return sw_err_nomem(err, "a job's options", (size_t)o->set_count * sizeof *sets);
    int rc = add_options(o, sets, &framework, &count, err);
    if (rc == SW_OK)
        rc = load_with(job, o, sets, count, err);
    sw_free(sets);
    sw_free(framework);
    return rc;
}

static int load_with(struct sw_job *job, const struct sw_job_options *o, const char *const *sets,
                     int set_count, struct sw_err *err)
{
    struct sw_recipe_source source = {.path = o->recipe_path, .sets = sets, .set_count = set_count};
    if (o->resume) {
        source.path = o->resume->recipe;
        source.text = o->resume->recipe_text;
        source.text_bytes = o->resume->recipe_text ? strlen(o->resume->recipe_text) : 0;
        source.overrides = o->resume->overrides;
        source.fallback = o->resume->fallback ? o->resume->fallback : "";
        if (!source.text)
            return sw_err_set(err, SW_ERR_NOTFOUND, "run %lld: its recipe is not in the history",
                              (long long)o->resume->id);
    }
    int rc = sw_recipe_load(&source, sw_train_schema(), &job->recipe, err);
    if (!job->recipe)
        return rc;
    /* Rules between keys and between layers are checked even when a value is wrong, so that all
     * faults are shown at once. */
    struct sw_err more = {0};
    int settled = sw_job_settle(job->recipe, &job->conf, &more);
    if (settled == SW_OK || settled == SW_ERR_INVALID)
        settled = sw_net_check(job->recipe, &more);
    if (rc == SW_OK && settled != SW_OK)
        *err = more;
    if (rc == SW_OK && settled == SW_OK && job->conf->display_every > 0)
        job->display.every_steps = job->conf->display_every;
    return rc != SW_OK ? rc : settled;
}

/* "cpu", "auto", or "sim" with what follows a colon. */
static int read_device(struct sw_job *job, const char *text, struct sw_err *err)
{
    snprintf(job->device_text, sizeof job->device_text, "%s", text);
    if (sw_str_eq(text, "auto") || sw_str_eq(text, "cpu")) {
        strcpy(job->device_text, "cpu");
        return SW_OK;
    }
    job->on_sim = sw_str_eq(text, "sim") || sw_str_starts(text, "sim:");
    if (job->on_sim)
        return sw_sim_parse(text[3] ? text + 4 : "", &job->sim, err);
    return sw_err_set(err, SW_ERR_INVALID, "unknown device; there are auto, cpu, sim:gpus=N");
}

static int choose_device(struct sw_job *job, const char *option, struct sw_err *err)
{
    const char *text = option ? option : job->conf->device;
    job->sim = sw_sim_defaults();
    int rc = read_device(job, text, err);
    if (rc == SW_ERR_INVALID && option)
        return sw_err_prefix(err, rc, "--device %s", option);
    if (rc == SW_ERR_INVALID) {
        sw_recipe_error(job->recipe, sw_recipe_find(job->recipe, "job", NULL), "device", "%s",
                        err->text);
        return sw_recipe_verdict(job->recipe, err);
    }
    return rc == SW_OK ? sw_cpu_open(false, &job->device, err) : rc;
}

/* Every worker on a simulated GPU of its own, as its placement says. */
static int open_devices(struct sw_job *job, struct sw_err *err)
{
    int workers = job->placement->worker_count, rc = SW_OK;
    for (int i = 0; i < workers && rc == SW_OK; i++) {
        struct sw_worker *w = &job->workers[i];
        w->device = job->device;
        if (!job->on_sim)
            continue;
        rc = sw_sim_open(&job->sim, i, &w->device, err);
        if (rc != SW_OK)
            w->device = NULL;
        else
            snprintf(job->placement->rows[i].device, sizeof job->placement->rows[i].device, "%s",
                     w->device->name);
    }
    return rc;
}

/* ---- data ---- */

static const struct sw_section *find_split(const struct sw_job *job, int split)
{
    if (split == SW_SPLIT_TRAIN)
        return sw_recipe_find(job->recipe, "data", "train");
    const struct sw_section *val = sw_recipe_find(job->recipe, "data", "val");
    return val ? val : sw_recipe_find(job->recipe, "data", "test");
}

int sw_job_open_split(struct sw_job *job, int split, const struct sw_section *section,
                      struct sw_err *err)
{
    job->data[split] = section;
    if (!section)
        return SW_OK;
    const char *fell_from = sw_section_fell_from(section);
    struct sw_source_args args = {
        .name = section->name,
        .conf = section->common,
        .format = (const struct sw_format *)(const void *)section->type[0],
        .format_conf = section->conf[0],
        .replaced = fell_from ? sw_format_find(fell_from) : NULL,
        .seed = (uint64_t)job->conf->seed,
        .training = split == SW_SPLIT_TRAIN,
    };
    int rc = sw_source_open(&args, &job->source[split], err);
    if (rc != SW_ERR_INVALID)
        return rc;
    sw_recipe_error(job->recipe, section, NULL, "%s", err->text);
    return sw_recipe_verdict(job->recipe, err);
}

static int open_data(struct sw_job *job, struct sw_err *err)
{
    const struct sw_section *train = find_split(job, SW_SPLIT_TRAIN);
    if (!train) {
        sw_recipe_error(job->recipe, NULL, NULL, "there is no [data train] section");
        return sw_recipe_verdict(job->recipe, err);
    }
    int rc = sw_job_open_split(job, SW_SPLIT_TRAIN, train, err);
    if (rc == SW_OK)
        rc = sw_job_open_split(job, SW_SPLIT_EVAL, find_split(job, SW_SPLIT_EVAL), err);
    if (rc != SW_OK)
        return rc;
    job->horizon = job->conf->steps;
    if (job->horizon == 0)
        job->horizon =
            sw_source_steps(job->source[SW_SPLIT_TRAIN], job->conf->epochs, job->conf->batch);
    return SW_OK;
}

/* ---- machine ---- */

/* OMP_NUM_THREADS caps the math threads, as everywhere. */
static void cap_threads(struct sw_placement *p)
{
    const char *text = getenv("OMP_NUM_THREADS");
    int64_t cap;
    if (!text || !sw_parse_int(text, &cap) || cap < 1)
        return;
    for (int i = 0; i < p->worker_count + p->server_count; i++)
        if (p->rows[i].threads > cap)
            p->rows[i].threads = (int)cap;
}

static int choose_shape(struct sw_job *job, bool one_worker, struct sw_err *err)
{
    struct sw_cluster_conf c = {.workers_per_group = 1};
    const struct sw_section *section = sw_recipe_find(job->recipe, "cluster", NULL);
    const char *key = NULL;
    if (!one_worker)
        c = *(const struct sw_cluster_conf *)section->common;
    /* One worker per GPU, unless the recipe says how many. */
    if (job->on_sim && c.workers_per_group == 0)
        c.workers_per_group = job->sim.gpus;
    int rc = sw_cluster_shape(&c, job->machine, &job->shape, &job->framework, job->framework_reason,
                              sizeof job->framework_reason, &key, err);
    if (rc == SW_ERR_INVALID)
        sw_recipe_error(job->recipe, section, key, "%s", err->text);
    int64_t rows =
        job->conf->batch < job->conf->eval_batch ? job->conf->batch : job->conf->eval_batch;
    if (rc == SW_OK && job->shape.workers_per_group > rows)
        rc = sw_recipe_error(job->recipe, section, "workers_per_group",
                             "%d workers cannot share a batch of %lld rows: at most %lld",
                             job->shape.workers_per_group, (long long)rows, (long long)rows);
    if (rc == SW_OK && job->on_sim && job->shape.workers_per_group > job->sim.gpus)
        rc = sw_recipe_error(job->recipe, section, "workers_per_group",
                             "%d workers need a device each, but there are %d: at most %d, or say "
                             "device sim:gpus=%d",
                             job->shape.workers_per_group, job->sim.gpus, job->sim.gpus,
                             job->shape.workers_per_group);
    return rc == SW_ERR_INVALID ? sw_recipe_verdict(job->recipe, err) : rc;
}

/* A worker that waits for the others runs the servers it hosts: the others may depend on them. */
static int serve_while_waiting(void *user, int worker)
{
    struct sw_job *job = user;
    struct sw_err ignored; /* it is the fault of the job already */
    return sw_server_poll(&job->workers[worker], &ignored);
}

static int make_units(struct sw_job *job, struct sw_err *err)
{
    int workers = job->placement->worker_count, servers = job->placement->server_count;
    job->workers = sw_calloc((size_t)workers, sizeof *job->workers);
    job->servers = sw_calloc((size_t)servers, sizeof *job->servers);
    if (!job->workers || !job->servers)
        return sw_err_nomem(err, "workers and servers", (size_t)workers * sizeof *job->workers);
    for (int i = 0; i < workers; i++)
        job->workers[i] = (struct sw_worker){.job = job, .index = i};
    int rc = sw_group_init(&job->group, workers, err);
    job->group.serve = serve_while_waiting;
    job->group.serve_user = job;
    return rc;
}

static int place(struct sw_job *job, const struct sw_job_options *o, struct sw_err *err)
{
    int rc = sw_bind_check_environment(err);
    if (rc == SW_OK)
        rc = sw_machine_here(&job->machine, err);
    if (rc == SW_OK)
        rc = choose_shape(job, o->one_worker, err);
    if (rc == SW_OK)
        rc = sw_placement_new(job->machine, &job->shape, o->oversubscribe, &job->placement, err);
    if (rc != SW_OK)
        return rc;
    cap_threads(job->placement);
    return make_units(job, err);
}

/* ---- parameters ---- */

/* The product of the factors of all [updater PATTERN] sections that match. */
static void override_factors(const struct sw_job *job, const char *name, double *lr, double *decay)
{
    for (const struct sw_section *s = sw_recipe_first(job->recipe, "updater"); s;
         s = sw_section_next(s)) {
        if (!s->name || !sw_str_match(s->name, name))
            continue;
        const struct sw_updater_override *o = s->common;
        *lr *= o->lr_mult;
        *decay *= o->decay_mult;
    }
}

static const struct sw_init_conf *init_conf(const struct sw_section *section, const char *param)
{
    for (int i = 0; i < section->param_count; i++)
        if (sw_str_eq(section->type[0]->params[i], param))
            return section->param_conf[i];
    return NULL;
}

static int add_param(struct sw_job *job, const struct sw_net *net, int p, int *index,
                     struct sw_err *err)
{
    const struct sw_net_param *np = sw_net_param(net, p);
    const struct sw_layer_param *lp = &sw_net_layer(net, np->layer)->param[np->index];
    const struct sw_init_conf *conf = init_conf(sw_net_section(net, np->layer), lp->name);
    struct sw_param_spec spec = {.name = np->name,
                                 .layout = lp->layout,
                                 .fan_in = lp->fan_in,
                                 .owner = np->owner,
                                 .part_first = lp->part_first,
                                 .part_whole = lp->part_whole};
    spec.lr_mult = spec.decay_mult = 1;
    if (conf) {
        spec.init = *conf;
        spec.lr_mult = conf->lr_mult;
        spec.decay_mult = conf->decay_mult;
    }
    spec.init.natural = lp->natural;
    override_factors(job, np->name, &spec.lr_mult, &spec.decay_mult);
    return sw_table_add(job->table, &spec, index, err);
}

int sw_job_map_params(struct sw_worker *w, int split, struct sw_err *err)
{
    struct sw_job *job = w->job;
    const struct sw_net *net = split == SW_SPLIT_TRAIN ? w->train : w->eval;
    w->param_of[split] = sw_calloc((size_t)sw_net_param_count(net) + 1, sizeof(int));
    if (!w->param_of[split])
        return sw_err_nomem(err, "the parameter table", 0);
    int rc = SW_OK;
    for (int p = 0; p < sw_net_param_count(net) && rc == SW_OK; p++) {
        const struct sw_net_param *np = sw_net_param(net, p);
        int64_t first = sw_net_layer(net, np->layer)->param[np->index].part_first;
        int index = sw_table_find(job->table, np->name, first);
        if (index < 0 && split == SW_SPLIT_EVAL)
            return sw_err_set(err, SW_ERR_INVALID,
                              "parameter %s is only in the evaluation net: nothing would train it",
                              np->name);
        if (index < 0)
            rc = add_param(job, net, p, &index, err);
        w->param_of[split][p] = index;
    }
    return rc;
}

static int meet(void *user, int worker)
{
    struct sw_job *job = user;
    return sw_worker_meet(&job->workers[worker], "the features of the other workers");
}

int sw_job_connect(struct sw_job *job, int split, struct sw_err *err)
{
    int workers = job->placement->worker_count;
    struct sw_net **nets = sw_calloc((size_t)workers, sizeof(void *));
    if (!nets)
        return sw_err_nomem(err, "the exchange of features", (size_t)workers * sizeof(void *));
    for (int i = 0; i < workers; i++)
        nets[i] = split == SW_SPLIT_TRAIN ? job->workers[i].train : job->workers[i].eval;
    int rc = sw_exchange_new(nets, workers, job->device, meet, job, &job->exchange[split], err);
    sw_free(nets);
    return rc;
}

/* An [updater PATTERN] that matches no parameter is a slip of the pen. */
static int check_patterns(struct sw_job *job, struct sw_err *err)
{
    for (const struct sw_section *s = sw_recipe_first(job->recipe, "updater"); s;
         s = sw_section_next(s)) {
        bool matches = !s->name;
        for (int p = 0; p < sw_table_count(job->table) && !matches; p++)
            matches = sw_str_match(s->name, sw_table_param(job->table, p)->name);
        if (matches)
            continue;
        sw_recipe_error(job->recipe, s, NULL, "no parameter matches '%s'", s->name);
        if (sw_table_count(job->table) > 0)
            sw_recipe_hint(job->recipe, "parameters are named LAYER.PARAM, such as %s",
                           sw_table_param(job->table, 0)->name);
    }
    return sw_recipe_verdict(job->recipe, err);
}

static int make_table(struct sw_job *job, struct sw_err *err)
{
    const struct sw_section *u = sw_recipe_find(job->recipe, "updater", NULL);
    const struct sw_cluster_conf *cluster = sw_recipe_find(job->recipe, "cluster", NULL)->common;
    struct sw_table_args args = {
        .device = job->device,
        .seed = (uint64_t)job->conf->seed,
        .updater = (const struct sw_updater *)(const void *)u->type[0],
        .updater_conf = u->conf[0],
        .common = u->common,
        .schedule = u->type[1],
        .schedule_conf = u->conf[1],
        .horizon_steps = (uint64_t)job->horizon,
        .slice_elements = cluster->slice_size,
        .workers = job->placement->worker_count,
        .servers = job->placement->server_count,
        .rule = &sw_table_bsp,
    };
    int rc = sw_table_new(&args, &job->table, err);
    for (int i = 0; i < job->placement->worker_count && rc == SW_OK; i++)
        rc = sw_job_map_params(&job->workers[i], SW_SPLIT_TRAIN, err);
    if (rc == SW_OK)
        rc = check_patterns(job, err);
    return rc == SW_OK ? sw_table_freeze(job->table, err) : rc;
}

/* ---- the whole ---- */

/* The largest that a layer of any worker adds over the group. */
static int reserve_sums(struct sw_job *job, struct sw_err *err)
{
    int most = 0, workers = job->placement->worker_count;
    for (int i = 0; i < workers && workers > 1; i++) {
        int count = sw_net_sum_count(job->workers[i].train);
        most = count > most ? count : most;
    }
    return sw_group_reserve_sums(&job->group, most, err);
}

/* The training nets make the table, and the table's parameters are what the evaluation nets use. */
static int build_workers(struct sw_job *job, struct sw_err *err)
{
    int rc = SW_OK, workers = job->placement->worker_count;
    for (int i = 0; i < workers && rc == SW_OK; i++)
        rc = sw_worker_build(&job->workers[i], err);
    if (rc == SW_OK)
        rc = make_table(job, err);
    if (rc == SW_OK)
        rc = sw_states_build(job, err);
    if (rc == SW_OK)
        rc = reserve_sums(job, err);
    return rc == SW_OK && job->source[SW_SPLIT_EVAL] ? sw_job_build_eval(job, err) : rc;
}

int sw_job_build_eval(struct sw_job *job, struct sw_err *err)
{
    int rc = SW_OK;
    for (int i = 0; i < job->placement->worker_count && rc == SW_OK; i++)
        rc = sw_worker_build_eval(&job->workers[i], err);
    if (rc == SW_OK)
        rc = sw_states_match(job, job->workers[0].eval, err);
    for (int i = 0; i < job->placement->worker_count && rc == SW_OK; i++)
        rc = sw_job_map_params(&job->workers[i], SW_SPLIT_EVAL, err);
    return rc;
}

static int find_end(struct sw_job *job, const struct sw_job_options *o, struct sw_err *err)
{
    job->steps = o->steps > 0 ? o->steps : job->horizon;
    if (job->resume_checkpoint) {
        int rc = sw_checkpoint_check(job, job->resume_checkpoint, &job->first_step, err);
        if (rc != SW_OK)
            return rc;
    }
    return job->init_from ? sw_checkpoint_look(job, job->init_from, err) : SW_OK;
}

static int open_job(struct sw_job *job, const struct sw_job_options *o, struct sw_err *err)
{
    int rc = copy_options(job, o, err);
    if (rc == SW_OK)
        rc = load_recipe(job, o, err);
    if (rc != SW_OK)
        return rc;
    sw_recipe_announce_fallback(job->recipe, &job->fallback_text);
    const char *name = o->name                        ? o->name
                       : o->resume && o->resume->name ? o->resume->name
                                                      : job->conf->name;
    rc = copy_text(&job->name, name, err);
    if (rc == SW_OK)
        rc = choose_device(job, o->device, err);
    if (rc == SW_OK)
        rc = place(job, o, err);
    if (rc == SW_OK)
        rc = open_devices(job, err);
    if (rc == SW_OK)
        rc = open_data(job, err);
    if (rc == SW_OK)
        rc = build_workers(job, err);
    if (rc == SW_OK)
        rc = find_end(job, o, err);
    return rc == SW_OK ? sw_job_describe(job, err) : rc;
}

int sw_job_open(const struct sw_job_options *options, struct sw_log *log, struct sw_job **out,
                struct sw_buf *messages, struct sw_err *err)
{
    struct sw_job *job = sw_calloc(1, sizeof *job);
    if (!job)
        return sw_err_nomem(err, "a job", sizeof *job);
    job->log = log;
    sw_fault_init(&job->fault);
    int rc = open_job(job, options, err);
    if (rc != SW_OK) {
        if (job->recipe && sw_recipe_diags(job->recipe)->count > 0)
            sw_diags_print(sw_recipe_diags(job->recipe), messages);
        sw_job_close(job);
        return rc;
    }
    *out = job;
    return SW_OK;
}

void sw_job_close(struct sw_job *job)
{
    if (!job)
        return;
    for (int i = 0; job->workers && i < job->placement->worker_count; i++)
        sw_worker_fini(&job->workers[i]);
    sw_free(job->workers);
    sw_free(job->servers);
    sw_group_fini(&job->group);
    sw_states_fini(&job->states);
    sw_table_free(job->table);
    for (int s = 0; s < SW_SPLITS; s++) {
        sw_source_close(job->source[s]);
        sw_exchange_free(job->exchange[s]);
    }
    sw_device_close(job->device);
    sw_placement_free(job->placement);
    sw_machine_free(job->machine);
    sw_recipe_free(job->recipe);
    sw_trace_free(job->trace);
    sw_fault_fini(&job->fault);
    sw_buf_fini(&job->fallback_text);
    char *const owned[] = {job->name,      job->out_option,        job->db_option, job->command,
                           job->init_from, job->resume_checkpoint, job->choices};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        sw_free(owned[i]);
    sw_free(job->layer_rows);
    sw_free(job);
}

const struct sw_job_plan *sw_job_plan(const struct sw_job *job)
{
    return &job->plan;
}

const struct sw_recipe *sw_job_recipe(const struct sw_job *job)
{
    return job->recipe;
}

const struct sw_trace *sw_job_trace(const struct sw_job *job)
{
    return job->trace;
}

void sw_job_request(struct sw_job *job, enum sw_job_request_kind what)
{
    __atomic_fetch_or(&job->requests, (int)what, __ATOMIC_RELAXED);
}
