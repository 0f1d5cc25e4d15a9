/* Simulates a growing number of workers. The contract is in cli/plan/sweep.h. */
#include "cli/plan/sweep.h"

#include "base/os.h"
#include "base/stop.h"
#include "base/text.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Twice as many workers pay while they train so many times as many samples. */
#define PAYS 1.2

enum { SIMULATED = 2 /* plans at each count */ };

/* ---- Range ---- */

/* One of the two numbers, which ends before `end`; `column` counts from 1. */
static int parse_count(const char *text, const char *begin, const char *end, int *out,
                       struct sw_err *err)
{
    char number[16];
    int64_t value;
    const size_t bytes = (size_t)(end - begin);

    if (bytes > 0 && bytes < sizeof number) {
        memcpy(number, begin, bytes);
        number[bytes] = '\0';
        if (sw_parse_int(number, &value) && value >= 1 && value <= SW_SWEEP_MOST) {
            *out = (int)value;
            return SW_OK;
        }
    }

    return sw_err_set(err, SW_ERR_INVALID,
                      "--simulate=%s: column %d: '%.*s' is not a number from 1 to %d, as in 1..64",
                      text, (int)(begin - text) + 1, (int)bytes, begin, SW_SWEEP_MOST);
}

int sw_sweep_range_parse(const char *text, struct sw_sweep_range *out, struct sw_err *err)
{
    const char *dots = strstr(text, "..");

    if (!dots)
        return sw_err_set(err, SW_ERR_INVALID,
                          "--simulate=%s: column 1: expected A..B, as in 1..64", text);

    int rc = parse_count(text, text, dots, &out->first, err);
    if (rc == SW_OK)
        rc = parse_count(text, dots + 2, text + strlen(text), &out->last, err);
    if (rc == SW_OK && out->last < out->first)
        rc = sw_err_set(err, SW_ERR_INVALID, "--simulate=%s: column %d: %d is less than %d", text,
                        (int)(dots - text) + 3, out->last, out->first);
    return rc;
}

/* ---- A point ---- */

/* What is different at each count. */
struct step {
    struct sw_plan_model *m;
    struct sw_sweep *sweep;
    struct sw_given_figures given;
    struct sw_net_model net;      /* with the batch of this count */
    struct sw_layer_model *layer; /* owned */
    struct sw_search_limits limits;
    struct sw_machine_model *machine; /* owned */
};

static bool counts_gpus(const struct sw_given_figures *g)
{
    return g->gpus.value > 0 && g->hosts.value <= 0 && g->gpus_per_host.value <= 0;
}

/* Hosts have as many GPUs at every count. */
static int set_count(struct step *s, int count, struct sw_err *err)
{
    struct sw_figure *counted;
    int hosts, gpus;

    s->given = *s->m->args.given;
    counted = counts_gpus(&s->given) ? &s->given.gpus : &s->given.hosts;

    if (counted == &s->given.hosts && s->given.gpus.value > 0) {
        int rc = sw_given_counts(&s->given, &hosts, &gpus, err);
        if (rc != SW_OK)
            return rc;

        s->given.gpus_per_host = s->given.gpus;
        s->given.gpus_per_host.value = gpus;
        s->given.gpus.value = 0;
    }

    counted->value = count;
    snprintf(counted->source, sizeof counted->source, "given by --simulate");
    return SW_OK;
}

static int build_machine(struct step *s, struct sw_err *err)
{
    struct sw_machine_args args = s->m->args;

    args.given = &s->given;
    args.hosts = 0;
    args.workers = 1;
    sw_machine_model_free(s->machine);
    s->machine = NULL;
    return sw_machine_build(&args, &s->machine, err);
}

static bool is_async(const struct sw_search_limits *l)
{
    return l->framework == SW_FRAMEWORK_DOWNPOUR || l->framework == SW_FRAMEWORK_HOGWILD ||
           l->consistency > SW_CONSISTENCY_BSP;
}

static bool has_one_group(const struct sw_search_limits *l)
{
    return l->framework == SW_FRAMEWORK_ALLREDUCE || l->framework == SW_FRAMEWORK_SANDBLASTER;
}

/* All devices work: in one synchronous group, or in groups of the size that the recipe sets. */
static void set_shape(struct step *s)
{
    struct sw_search_limits *l = &s->limits;
    const int workers = s->machine->device_count;

    *l = s->m->constraints.limits;
    if (!has_one_group(l) && (is_async(l) || l->group_size > 0)) {
        l->group_size = l->group_size > 0 && l->group_size <= workers ? l->group_size : 1;
        l->groups = workers / l->group_size;
    } else {
        l->groups = l->groups > 0 && l->groups <= workers ? l->groups : 1;
        l->group_size = workers / l->groups;
    }
}

/* The model of the net with a batch that is `factor` times as large. */
static void scale_net(struct step *s, double factor)
{
    const struct sw_net_model *net = s->m->net;

    s->net = *net;
    s->net.layer = s->layer;
    s->net.batch = net->batch * (int64_t)factor;

    for (int i = 0; i < net->count; i++) {
        struct sw_layer_model *l = &s->layer[i];

        *l = net->layer[i];
        l->forward_flops *= factor;
        l->backward_flops *= factor;
        l->forward_bytes *= factor;
        l->backward_bytes *= factor;
        l->output_bytes *= (int64_t)factor;
        l->gradient_bytes *= (int64_t)factor;
        l->saved_bytes *= (int64_t)factor;
        l->scratch_bytes *= (int64_t)factor;
    }
}

static struct sw_planned_args args_of(const struct step *s)
{
    return (struct sw_planned_args){.net = &s->net,
                                    .machine = &s->machine,
                                    .machines = 1,
                                    .limits = &s->limits,
                                    .simulated = SIMULATED,
                                    .no_overlap = s->m->constraints.no_overlap,
                                    .bandwidth = s->m->constraints.bandwidth};
}

static int simulate_best(const struct step *s, struct sw_sweep_point *p, struct sw_err *err)
{
    const struct sw_planned_args args = args_of(s);
    struct sw_planned planned = {0};
    struct sw_simulation sim = {0};

    int rc = sw_planned_find(&args, &planned, err);
    if (rc == SW_OK) {
        const struct sw_simulation_args a =
            sw_planned_simulation(&args, planned.machine, &planned.best);
        rc = sw_simulate(&a, &sim, err);
    }

    if (rc == SW_OK) {
        p->workers = planned.best.workers;
        p->batch = s->net.batch;
        p->step_s = sim.time.step_s;
        p->samples_per_s = sim.samples_per_s;
        p->wait_share = sim.wait_share;
        p->mean_staleness = sim.mean_staleness;
    }

    sw_simulation_fini(&sim);
    sw_planned_fini(&planned);
    return rc;
}

static int add_point(struct step *s, int count, struct sw_err *err)
{
    struct sw_sweep *sweep = s->sweep;
    struct sw_sweep_point p = {.count = count}, *kept;

    int rc = sw_stop_check(err);
    if (rc == SW_OK)
        rc = set_count(s, count, err);
    if (rc == SW_OK)
        rc = build_machine(s, err);
    if (rc != SW_OK)
        return rc;

    set_shape(s);
    scale_net(s, !sweep->scale_batch    ? 1
                 : is_async(&s->limits) ? s->limits.group_size
                                        : s->machine->device_count);
    rc = simulate_best(s, &p, err);
    if (rc != SW_OK)
        return rc;

    kept = sw_array_add(&sweep->point, &sweep->count, sizeof *kept);
    if (!kept)
        return sw_err_nomem(err, "points of a simulation", sizeof *kept);
    *kept = p;
    return SW_OK;
}

/* ---- The whole ---- */

/* Samples per second of one worker, to which the others are compared. */
static int one_worker_rate(struct step *s, double *rate, struct sw_err *err)
{
    double seconds = 0;

    int rc = set_count(s, 1, err);
    if (rc == SW_OK)
        rc = build_machine(s, err);
    if (rc != SW_OK)
        return rc;

    scale_net(s, 1);
    const struct sw_planned_args args = args_of(s);
    rc = sw_planned_one_worker(&args, &seconds, err);
    *rate = (double)s->net.batch / seconds;
    return rc;
}

/* Where the most samples are trained, and up to where more workers pay. */
static void judge(struct sw_sweep *s, double one_worker)
{
    bool pays = true;

    for (int i = 0; i < s->count; i++) {
        struct sw_sweep_point *p = &s->point[i];

        p->speed_up = p->samples_per_s / one_worker;
        p->efficiency = p->speed_up / p->workers;
        if (p->samples_per_s > s->point[s->best].samples_per_s)
            s->best = i;
        if (i == 0)
            continue;

        const struct sw_sweep_point *before = &s->point[i - 1];
        const double doublings = log2((double)p->count / before->count);

        pays = pays && p->samples_per_s >= before->samples_per_s * pow(PAYS, doublings);
        s->pays = pays ? i : s->pays;
    }
}

/* The count after `count`: the next power of two, at most the last one; 0: there is none. */
static int next_count(const struct sw_sweep_range *r, int count)
{
    int next = 1;

    while (next <= count)
        next *= 2;
    return count == r->last ? 0 : next < r->last ? next : r->last;
}

static bool is_impossible(int rc)
{
    return rc == SW_ERR_INVALID || rc == SW_ERR_NOTFOUND;
}

/* The first counts may not fit the memory, and a batch can be shared by as many workers as it has
 * rows: only the counts between are simulated. */
static int add_points(struct step *s, struct sw_err *err)
{
    struct sw_sweep *sweep = s->sweep;
    int rc = SW_OK;

    for (int n = sweep->range.first; n; n = next_count(&sweep->range, n)) {
        rc = add_point(s, n, err);
        if (rc != SW_OK && (!is_impossible(rc) || sweep->count > 0))
            break;
        if (rc != SW_OK && !sweep->skipped[0])
            sw_utf8_copy(sweep->skipped, sizeof sweep->skipped, err->text);
    }

    if (is_impossible(rc) && sweep->count == 0)
        return sw_err_set(err, rc, "%s", sweep->skipped);
    if (!is_impossible(rc))
        return rc;

    sw_utf8_copy(sweep->stopped, sizeof sweep->stopped, err->text);
    return SW_OK;
}

int sw_sweep_make(struct sw_plan_model *m, struct sw_sweep *sweep, struct sw_err *err)
{
    struct step s = {.m = m, .sweep = sweep};
    double rate = 0;

    sweep->server_hosts = (int)m->args.given->server_hosts.value;
    sweep->name = sw_job_plan(m->trainer.job)->name;
    snprintf(sweep->unit, sizeof sweep->unit, "%s", counts_gpus(m->args.given) ? "GPUs" : "hosts");
    s.layer = sw_calloc((size_t)m->net->count, sizeof *s.layer);
    if (!s.layer)
        return sw_err_nomem(err, "the model of a net", (size_t)m->net->count * sizeof *s.layer);

    int rc = one_worker_rate(&s, &rate, err);
    if (rc == SW_OK)
        rc = add_points(&s, err);

    if (rc == SW_OK)
        judge(sweep, rate);

    sw_machine_model_free(s.machine);
    sw_free(s.layer);
    return rc;
}

void sw_sweep_fini(struct sw_sweep *s)
{
    sw_free(s->point);
    *s = (struct sw_sweep){0};
}

void sw_sweep_json(struct sw_json_writer *w, const struct sw_sweep *s)
{
    sw_json_string(w, "name", s->name);
    sw_json_string(w, "unit", s->unit);
    sw_json_int(w, "server_hosts", s->server_hosts);
    sw_json_open_array(w, "points");

    for (int i = 0; i < s->count; i++) {
        const struct sw_sweep_point *p = &s->point[i];

        sw_json_open_object(w, NULL);
        sw_json_int(w, s->unit, p->count);
        sw_json_int(w, "workers", p->workers);
        sw_json_int(w, "batch", p->batch);
        sw_json_real(w, "predicted_ms", p->step_s * 1000);
        sw_json_real(w, "samples_per_s", p->samples_per_s);
        sw_json_real(w, "speed_up", p->speed_up);
        sw_json_real(w, "efficiency", p->efficiency);
        sw_json_real(w, "wait_share", p->wait_share);
        sw_json_real(w, "staleness", p->mean_staleness);
        sw_json_close_object(w);
    }

    sw_json_close_array(w);
    sw_json_int(w, "fastest", s->point[s->best].count);
    sw_json_int(w, "pays_up_to", s->point[s->pays].count);
    sw_json_string(w, "skipped", s->skipped[0] ? s->skipped : NULL);
    sw_json_string(w, "stopped", s->stopped[0] ? s->stopped : NULL);
}
