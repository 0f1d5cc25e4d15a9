/* Plans again while a run trains. The times of layers that are stored are corrected, for the
 * numbers of workers under which the run has trained, until the simulation of each plan takes as
 * long as the run did; then the planner searches as at the start. All that it learns from is in the
 * JSON of the plan, so that a resumed run goes on like one that was not interrupted. The contract
 * is in cli/plan/replan.h. */
#include "cli/plan/replan.h"

#include "base/json.h"
#include "base/os.h"
#include "cli/plan/followed.h"
#include "recipe/job.h"
#include "run/planning.h"
#include <math.h>
#include <string.h>

enum { MOST_REPLACED = 16 }; /* of which a plan keeps the newest */

/* Required relative gain of a step: going on under another plan takes time. */
static const double min_gain = 0.05;

/* A part of a step that takes a smaller share of it tells no factor. */
static const double least_share = 0.01;

struct sw_followed {
    struct sw_replanner *of;
    struct sw_followed *older;
    struct sw_json *plan; /* owned: all that is known of it; NULL: it was not followed yet */
    struct sw_plan_times times;
    /* When the run deviated from it: */
    struct sw_plan_gap gap;
    struct sw_followed *better; /* that the run is to follow; NULL: none */
    /* Of a plan that was not followed yet, owned: */
    struct sw_bytes json, what;
    char *overrides;
};

static struct sw_followed *add_plan(struct sw_replanner *r, struct sw_err *err)
{
    struct sw_followed *f = sw_calloc(1, sizeof *f);

    if (!f) {
        sw_err_nomem(err, "a plan", sizeof *f);
        return NULL;
    }

    f->of = r;
    f->older = r->newest;
    r->newest = f;
    return f;
}

void sw_replanner_fini(struct sw_replanner *r)
{
    for (struct sw_followed *f = r->newest; f;) {
        struct sw_followed *older = f->older;

        sw_json_free(f->plan);
        sw_bytes_fini(&f->json);
        sw_bytes_fini(&f->what);
        sw_free(f->overrides);
        sw_free(f);
        f = older;
    }

    *r = (struct sw_replanner){.newest = NULL};
}

/* ---- What the run measured ---- */

static const char *const part_keys[SW_PLAN_PARTS] = {"compute_ms", "params_ms", "wait_ms",
                                                     "rest_ms"};

static void write_measured(struct sw_json_writer *w, const struct sw_plan_times *t)
{
    sw_json_real(w, "measured_ms", t->step_ms);
    sw_json_open_object(w, "measured");
    for (int p = 0; p < SW_PLAN_PARTS; p++)
        sw_json_real(w, part_keys[p], t->ms[p]);
    sw_json_close_object(w);
}

static struct sw_plan_times read_measured(const struct sw_json *item)
{
    const struct sw_json *step = sw_json_get(item, "measured_ms");
    const struct sw_json *parts = sw_json_get(item, "measured");
    struct sw_plan_times t = {.step_ms = step ? step->number : 0};

    for (int p = 0; p < SW_PLAN_PARTS; p++) {
        const struct sw_json *v = sw_json_get(parts, part_keys[p]);
        t.ms[p] = v ? v->number : 0;
    }

    return t;
}

/* ---- Correcting the model ---- */

/* The model with the fewest devices that has enough, with so many threads each (0: any); NULL:
 * none.
 */
static struct sw_machine_model *machine_for(const struct sw_plan_model *m, int workers, int threads)
{
    struct sw_machine_model *best = NULL;

    for (int i = 0; i < m->machines; i++)
        if (m->machine[i]->device_count >= workers &&
            (threads == 0 || m->machine[i]->device[0].threads == threads) &&
            (!best || m->machine[i]->device_count < best->device_count))
            best = m->machine[i];
    return best;
}

/* A plan that the run followed, in the model. */
struct observed {
    struct sw_parallel_plan plan;
    const struct sw_machine_model *machine;
    struct sw_plan_times measured;
};

static int simulate(const struct sw_plan_model *m, struct observed *o, struct sw_err *err)
{
    const struct sw_planned_args args = {.net = m->net,
                                         .no_overlap = m->constraints.no_overlap,
                                         .bandwidth = m->constraints.bandwidth};
    const struct sw_simulation_args sim = sw_planned_simulation(&args, o->machine, &o->plan);
    struct sw_simulation s = {0};

    int rc = sw_simulate(&sim, &s, err);
    o->plan.time = s.time;
    sw_simulation_fini(&s);
    return rc;
}

/* How much longer parts of a step take than in the simulation, unless that has too little of them
 * to tell. */
static double factor(const struct observed *o, double measured_ms, double predicted_s)
{
    const double measured_s = measured_ms / 1000, step_s = o->measured.step_ms / 1000;

    if (measured_s < least_share * step_s || predicted_s < least_share * o->plan.time.step_s)
        return 1;
    return fmin(fmax(measured_s / predicted_s, 1e-6), 1e6);
}

/* What the model says of each layer, as samples. Freed by the caller. */
static struct sw_layer_sample *predict_layers(const struct sw_plan_model *m,
                                              const struct observed *o, struct sw_err *err)
{
    struct sw_layer_sample *samples = sw_calloc((size_t)m->net->count + 1, sizeof *samples);
    struct sw_cost_model cost;

    if (!samples) {
        sw_err_nomem(err, "times of layers", 0);
        return NULL;
    }

    sw_cost_model_init(&cost, m->net, o->machine, &o->plan.shape);
    const int workers = sw_cost_together(&cost, 0);
    const double rows = (double)sw_cost_rows(&cost);

    for (int i = 0; i < m->net->count; i++) {
        samples[i] = (struct sw_layer_sample){
            .rows = (int64_t)rows,
            .workers = workers,
            .threads = o->machine->device[0].threads,
            .forward_s = sw_cost_pass(&cost, i, 0, rows, 1, workers, false),
            .backward_s = sw_cost_pass(&cost, i, 0, rows, 1, workers, true),
            .update_s =
                m->net->layer[i].params > 0 ? sw_cost_update(&cost, i, &o->plan.choice[i]) : 0};
    }

    return samples;
}

/* Links between devices are as much slower as what goes over them takes longer. */
static void slow_links(struct sw_plan_model *m, double by)
{
    for (int k = 0; k < m->machines; k++) {
        struct sw_machine_model *machine = m->machine[k];

        for (int i = 0; i < machine->hub_count && !machine->device[0].host_memory; i++) {
            machine->hub[i].bytes_per_s.value /= by;
            machine->hub[i].latency_s *= by;
        }
        for (int i = 0; i < machine->pair_count; i++) {
            machine->pair[i].bytes_per_s.value /= by;
            machine->pair[i].latency_s *= by;
        }
    }
}

/* Makes the simulation of a plan take as long as the run did under it. */
static int correct(struct sw_plan_model *m, struct observed *o, struct sw_err *err)
{
    const struct sw_plan_times *t = &o->measured;
    const double step_s = t->step_ms / 1000;

    int rc = simulate(m, o, err);
    if (rc != SW_OK)
        return rc;
    struct sw_layer_sample *samples = predict_layers(m, o, err);
    if (!samples)
        return err->code;

    const struct sw_plan_time *p = &o->plan.time;
    const double params = factor(o, t->ms[SW_PLAN_PARAMS], p->params_s);
    const double moves =
        p->activations_s > 0 ? factor(o, t->ms[SW_PLAN_WAITS], p->activations_s + p->wait_s) : 1;
    struct sw_planning_correction c = {.workers = samples[0].workers,
                                       .threads = samples[0].threads,
                                       .compute = factor(o, t->ms[SW_PLAN_COMPUTE], p->compute_s),
                                       .params = params,
                                       .rest_s = t->ms[SW_PLAN_REST] / 1000 - p->rest_s,
                                       .predicted_rest_s = p->rest_s,
                                       .predicted = samples};

    rc = sw_planning_correct(m->net, &c, err);
    slow_links(m, fmax(params, moves) > 1 ? fmax(params, moves) : fmin(params, moves));
    if (rc == SW_OK)
        rc = simulate(m, o, err);

    /* What is still missing is charged like the rest of a step, as when a plan is measured. */
    if (rc == SW_OK && o->plan.time.step_s < step_s) {
        c.compute = c.params = 1;
        c.rest_s = step_s - o->plan.time.step_s;
        rc = sw_planning_correct(m->net, &c, err);
        if (rc == SW_OK)
            rc = simulate(m, o, err);
    }

    sw_free(samples);
    return rc;
}

/* Learns from one plan that the run followed; *o is then that plan, as the model has it. */
static int learn(struct sw_plan_model *m, const struct sw_json *plan,
                 const struct sw_plan_times *measured, struct observed *o, struct sw_err *err)
{
    sw_parallel_plan_fini(&o->plan);
    *o = (struct observed){.measured = *measured};

    int rc = sw_plan_followed_parse(plan, m->net, &o->plan, err);
    if (rc != SW_OK)
        return rc;

    o->machine = machine_for(m, o->plan.workers, o->plan.shape.threads);
    if (!o->machine)
        return sw_err_set(err, SW_ERR_INVALID, "this machine has no place for %d workers",
                          o->plan.workers);
    o->plan.shape.threads = o->machine->threads_per_worker;
    return correct(m, o, err);
}

/* From all plans of the run, the oldest first. */
static int learn_all(struct sw_plan_model *m, const struct sw_followed *f, struct observed *o,
                     struct sw_err *err)
{
    const struct sw_json *replaced = sw_json_get(f->plan, "replaced");
    int rc = SW_OK;

    for (const struct sw_json *i = replaced ? replaced->first : NULL; rc == SW_OK && i;
         i = i->next) {
        const struct sw_plan_times measured = read_measured(i);
        rc = learn(m, i, &measured, o, err);
    }

    return rc == SW_OK ? learn(m, f->plan, &f->gap.measured, o, err) : rc;
}

/* ---- The new plan ---- */

/* "1 group of 2 workers, fc6 1, fc7 0 sfb (9.4 ms)" */
static void describe(struct sw_bytes *out, const struct sw_planned *p)
{
    enum { SHOWN = 3 };
    char shape[96], choice[64], step[32];
    int others = 0;

    sw_bytes_add(out, sw_planned_shape_text(&p->best.shape, shape));

    for (int i = 0; i < p->net->count; i++) {
        const struct sw_layer_choice *c = &p->best.choice[i];

        if (c->partition == SW_PARTITION_ROWS && (c->comm == SW_EXCHANGE_PS || p->best.workers < 2))
            continue;
        if (++others <= SHOWN)
            sw_bytes_printf(out, ", %.64s %s", p->net->layer[i].name,
                            sw_planned_choice_text(p->net, i, c, choice));
    }

    if (others > SHOWN)
        sw_bytes_printf(out, " and %d more", others - SHOWN);
    sw_bytes_printf(out, " (%s)", sw_human_seconds(step, p->best.time.step_s));
}

static char *join_overrides(const char *told, const struct sw_planning_texts *texts)
{
    struct sw_bytes out = {0};

    sw_bytes_add(&out, told);
    for (int i = 0; i < texts->count; i++)
        sw_bytes_printf(&out, "%s%s", out.length ? "\n" : "", texts->sets[i]);

    char *text = out.failed ? NULL : sw_strdup(sw_bytes_text(&out));
    sw_bytes_fini(&out);
    return text;
}

/* Keeps what the run needs to follow the plan. */
static int prepare(struct sw_followed *f, const struct sw_plan_model *m,
                   const struct sw_planned *planned, const char *told, struct sw_err *err)
{
    struct sw_planning_texts texts = {0};
    struct sw_json_writer w;
    struct sw_followed *better = add_plan(f->of, err);
    if (!better)
        return err->code;

    int rc = sw_plan_model_texts(m, planned, &texts, err);
    if (rc == SW_OK) {
        const struct sw_planned_about about = sw_plan_model_about(m, &texts, false);

        better->overrides = join_overrides(told, &texts);
        describe(&better->what, planned);
        sw_json_begin(&w, &better->json);
        sw_json_open_object(&w, NULL);
        sw_planned_json(&w, planned, &about);
        sw_json_close_object(&w);
        if (!better->overrides || better->json.failed || better->what.failed)
            rc = sw_err_nomem(err, "the text of a plan", 0);
    }

    sw_planning_texts_fini(&texts);
    if (rc == SW_OK)
        f->better = better;
    return rc;
}

static double sample_s(const struct sw_plan_model *m, const struct sw_parallel_plan *p)
{
    return p->time.step_s / (double)sw_planned_samples(m->net, &p->shape);
}

/* Is another plan faster than the one that the run follows? Prepares it. */
static int search(struct sw_followed *f, struct sw_plan_model *m, const char *told,
                  struct sw_err *err)
{
    struct sw_planned planned = {0};
    struct observed now = {0};

    int rc = learn_all(m, f, &now, err);
    if (rc == SW_OK)
        rc = sw_plan_model_plan(m, &planned, err);
    if (rc == SW_OK && sample_s(m, &planned.best) < (1 - min_gain) * sample_s(m, &now.plan) &&
        !sw_parallel_plan_equal(&planned.best, &now.plan))
        rc = prepare(f, m, &planned, told, err);

    sw_parallel_plan_fini(&now.plan);
    sw_planned_fini(&planned);
    return rc;
}

/* Opens the recipe of the job without the settings of the plan, from what is stored. */
static int plan_again(struct sw_followed *f, const struct sw_job *job, struct sw_err *err)
{
    const struct sw_recipe *recipe = sw_job_recipe(job);
    char *overrides = sw_plan_followed_without(f->plan, sw_recipe_overrides(recipe));
    struct sw_cli_common common = *f->of->common;
    const struct sw_plan_target target = {.stored_only = true};
    struct sw_plan_model m = {0};
    if (!overrides)
        return sw_err_nomem(err, "the settings of the run", 0);

    const struct sw_job_told told = {sw_recipe_path(recipe), sw_recipe_text(recipe), overrides,
                                     sw_recipe_fallback(recipe)};
    const struct sw_job_options options = {.told = &told, .oversubscribe = f->of->oversubscribe};

    common.quiet = true;
    common.verbose = 0;
    int rc = sw_plan_model_open(&m, &common, &options, &target, err);
    if (rc == SW_OK) {
        sw_plan_keep_exact(&m);
        rc = search(f, &m, overrides, err);
    }

    sw_plan_model_fini(&m);
    sw_free(overrides);
    return rc;
}

/* ---- The run ---- */

static bool on_deviation(void *user, const struct sw_job *job, const struct sw_plan_gap *gap,
                         struct sw_bytes *text)
{
    const struct sw_job_conf *conf = sw_recipe_find(sw_job_recipe(job), "job", NULL)->common;
    struct sw_followed *f = user;
    struct sw_err err;

    f->of->outdated = f;
    f->gap = *gap;
    f->better = NULL;

    int rc = plan_again(f, job, &err);
    if (rc != SW_OK)
        sw_bytes_printf(text, "; the planner has no advice: %s", err.text);
    else if (f->better)
        sw_bytes_printf(text, "; with the times measured in this run the planner would use %s%s",
                        sw_bytes_text(&f->better->what),
                        conf->replan ? ", as the run does after its next evaluation" : "");
    else
        sw_bytes_add(text, "; with the times measured in this run the planner would keep the plan");

    return rc == SW_OK && f->better && conf->replan;
}

/* Are the settings of the job those of the plan? */
static bool is_followed(const struct sw_json *plan, const struct sw_job *job)
{
    const struct sw_json *groups = sw_json_get(plan, "worker_groups");
    const struct sw_json *size = sw_json_get(plan, "workers_per_group");
    const struct sw_json *sets = sw_json_get(plan, "sets");
    const struct sw_job_plan *p = sw_job_plan(job);
    char *rest = sw_plan_followed_without(plan, sw_recipe_overrides(sw_job_recipe(job)));
    int found = 0, wanted = 0;

    for (const char *c = sw_recipe_overrides(sw_job_recipe(job)); c && *c; c++)
        found += *c == '\n' || !c[1];
    for (const char *c = rest; c && *c; c++)
        found -= *c == '\n' || !c[1];
    for (const struct sw_json *s = sets ? sets->first : NULL; s; s = s->next)
        wanted++;

    sw_free(rest);
    return found >= wanted && groups && size && p->group_size == (int)size->number &&
           p->placement->worker_count == (int)(groups->number * size->number);
}

int sw_replanner_begin(struct sw_replanner *r, const struct sw_plan_follow *plan,
                       struct sw_job *job, struct sw_err *err)
{
    struct sw_followed *f = add_plan(r, err);
    if (!f)
        return err->code;

    int rc = sw_json_parse(sw_bytes_text(&plan->json), plan->json.length, &f->plan, err);
    if (rc != SW_OK || (plan->is_recorded && !is_followed(f->plan, job)))
        return rc;

    f->times = sw_plan_followed_times(f->plan);
    return sw_job_follow_plan(job,
                              &(struct sw_job_followed_plan){
                                  .json = plan->is_recorded ? NULL : sw_bytes_text(&plan->json),
                                  .predicted = f->times,
                                  .deviates = on_deviation,
                                  .user = f},
                              err);
}

/* ---- The switch ---- */

/* What stays of a plan that was replaced. */
static void write_replaced(struct sw_json_writer *w, const struct sw_followed *f, int64_t step)
{
    static const char *const keys[] = {
        "framework", "consistency",       "staleness",        "worker_groups", "workers_per_group",
        "servers",   "predicted_ms",      "compute_ms",       "params_ms",     "activations_ms",
        "wait_ms",   "rest_ms",           "sum_of_layers_ms", "layers",        "times",
        "sets",      "threads_per_worker"};
    const struct sw_json *replaced = sw_json_get(f->plan, "replaced");
    int more = 1 - MOST_REPLACED;

    for (const struct sw_json *i = replaced ? replaced->first : NULL; i; i = i->next)
        more++;

    sw_json_open_array(w, "replaced");
    for (const struct sw_json *i = replaced ? replaced->first : NULL; i; i = i->next)
        if (more-- <= 0)
            sw_plan_followed_copy(w, NULL, i);

    sw_json_open_object(w, NULL);
    sw_json_int(w, "until_step", step);
    write_measured(w, &f->gap.measured);
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        const struct sw_json *v = sw_json_get(f->plan, keys[k]);
        if (v)
            sw_plan_followed_copy(w, keys[k], v);
    }
    sw_json_close_object(w);
    sw_json_close_array(w);
}

/* The JSON of the new plan, with the plans that it replaces. */
static int write_plan(const struct sw_followed *old, struct sw_followed *f, int64_t step,
                      struct sw_err *err)
{
    struct sw_json *own = NULL;
    struct sw_bytes out = {0};
    struct sw_json_writer w;

    int rc = sw_json_parse(sw_bytes_text(&f->json), f->json.length, &own, err);
    if (rc != SW_OK)
        return rc;

    sw_json_begin(&w, &out);
    sw_json_open_object(&w, NULL);
    for (const struct sw_json *v = own->first; v; v = v->next)
        sw_plan_followed_copy(&w, v->key, v);
    write_replaced(&w, old, step);
    sw_json_close_object(&w);
    sw_json_free(own);

    sw_bytes_fini(&f->json);
    f->json = out;
    if (out.failed)
        return sw_err_nomem(err, "the text of a plan", out.length);
    return sw_json_parse(sw_bytes_text(&f->json), f->json.length, &f->plan, err);
}

void sw_replanner_switch(struct sw_replanner *r, struct sw_job *job)
{
    struct sw_followed *f = r->outdated ? r->outdated->better : NULL;
    struct sw_err err;
    if (!f)
        return;

    int rc = write_plan(r->outdated, f, sw_job_step(job), &err);
    if (rc == SW_OK) {
        f->times = sw_plan_followed_times(f->plan);
        rc = sw_job_replan(job, f->overrides, sw_bytes_text(&f->what),
                           &(struct sw_job_followed_plan){.json = sw_bytes_text(&f->json),
                                                          .predicted = f->times,
                                                          .deviates = on_deviation,
                                                          .user = f},
                           &err);
    }
    if (rc != SW_OK)
        sw_cli_message("warning: the run keeps its plan: %s", err.text);
}
