/* job.stop_at ends a run, as done, when a metric is good enough. A condition is METRIC OP NUMBER,
 * such as accuracy>=0.99; the first that holds ends the run. A metric is checked wherever it is
 * known: training metrics after each step, evaluation metrics after each evaluation; a prefix
 * SPLIT. restricts it to one of them (train.loss<=0.1). grad_norm is a training metric.
 *
 * All workers must stop at the same step, and the metrics of a step are known when the last worker
 * has finished it: if a condition uses training metrics, the workers that made the step wait for
 * each other after it. */
#include "worker/stop_at.h"
#include "base/str.h"
#include "worker/events.h"
#include "worker/sums.h"
#include "worker/worker.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char grad_norm[] = "grad_norm";

/* ---- reading ---- */

/* Parses "accuracy >= 0.99". */
static bool parse(const char *text, struct sw_stop *s)
{
    size_t name = strcspn(text, "<>"), end = name;
    const char *op = text + name;

    if (!*op)
        return false;

    while (end > 0 && text[end - 1] == ' ')
        end--;
    s->less = *op == '<';
    s->equal = op[1] == '=';
    op += s->equal ? 2 : 1;
    while (*op == ' ')
        op++;
    if (end == 0 || end >= sizeof s->name || !sw_parse_real(op, &s->limit))
        return false;

    memcpy(s->name, text, end);
    s->name[end] = '\0';
    return true;
}

bool sw_stop_needs_norm(const struct sw_job_conf *conf)
{
    struct sw_stop s;

    for (int i = 0; i < conf->stop_at.count; i++)
        if (parse(conf->stop_at.items[i], &s) &&
            (sw_str_eq(s.name, grad_norm) || sw_str_eq(s.name, "train.grad_norm")))
            return true;

    return false;
}

/* The metric's name after "SPLIT.", or NULL. */
static const char *within(const char *name, const char *split)
{
    size_t n = strlen(split);
    return strncmp(name, split, n) == 0 && name[n] == '.' ? name + n + 1 : NULL;
}

static const char *split_name(const struct sw_worker *w, int split)
{
    return split == SW_SPLIT_TRAIN ? "train" : w->shared.data->section[split]->name;
}

/* Finds the metric in each split; false: it exists in none. */
static bool resolve(const struct sw_worker *leader, struct sw_stop *s)
{
    bool found = false;

    for (int split = 0; split < SW_SPLITS; split++) {
        const struct sw_series *series = &leader->record.series[split];

        s->metric[split] = -1;
        if (!leader->shared.data->section[split])
            continue;

        const char *rest = within(s->name, split_name(leader, split));
        s->metric[split] = sw_series_find(series, s->name);
        if (s->metric[split] < 0 && rest)
            s->metric[split] = sw_series_find(series, rest);
        if (split == SW_SPLIT_TRAIN)
            s->norm = sw_str_eq(s->name, grad_norm) || (rest && sw_str_eq(rest, grad_norm));
        found = found || s->metric[split] >= 0;
    }

    return found || s->norm;
}

static void report_unknown(struct sw_recipe *recipe, const struct sw_worker *leader, int item,
                           const char *name)
{
    const struct sw_section *section = sw_recipe_find(recipe, "job", NULL);
    const struct sw_series *train = &leader->record.series[SW_SPLIT_TRAIN];
    const char *names[SW_SPLITS * SW_JOB_METRICS + 1] = {grad_norm};
    int count = 1;

    for (int split = 0; split < SW_SPLITS; split++) {
        const struct sw_series *s = &leader->record.series[split];
        for (int i = 0; leader->shared.data->section[split] && i < s->count; i++)
            if (split == SW_SPLIT_TRAIN || sw_series_find(train, s->name[i]) < 0)
                names[count++] = s->name[i];
    }

    sw_recipe_error_item(recipe, section, "stop_at", item,
                         "neither training nor evaluation has this metric");
    sw_recipe_hint_near(recipe, name, names, count, "they have");
}

int sw_stop_init(struct sw_stop_rules *rules, struct sw_recipe *recipe,
                 const struct sw_worker *leader, struct sw_err *err)
{
    const struct sw_section *section = sw_recipe_find(recipe, "job", NULL);
    const struct sw_strings *texts = &leader->shared.conf->stop_at;

    if (texts->count > SW_STOPS) {
        sw_recipe_error(recipe, section, "stop_at", "at most %d conditions", SW_STOPS);
        return sw_recipe_status(recipe, err);
    }

    for (int i = 0; i < texts->count; i++) {
        struct sw_stop *s = &rules->rule[i];

        if (!parse(texts->items[i], s)) {
            sw_recipe_error_item(recipe, section, "stop_at", i,
                                 "must be a metric, one of < <= > >=, and a number");
            sw_recipe_hint(recipe, "stop_at = accuracy>=0.99");
        } else if (!resolve(leader, s)) {
            report_unknown(recipe, leader, i, s->name);
        } else {
            rules->uses_training =
                rules->uses_training || s->norm || s->metric[SW_SPLIT_TRAIN] >= 0;
            rules->uses_evaluation = rules->uses_evaluation || s->metric[SW_SPLIT_EVAL] >= 0;
        }
    }

    return sw_recipe_status(recipe, err);
}

/* ---- checking ---- */

static bool holds(const struct sw_stop *s, double value)
{
    if (value == s->limit)
        return s->equal;
    return s->less ? value < s->limit : value > s->limit; /* false for NaN */
}

/* The value of the condition's metric in the split after step t, NaN where it is not known. */
static double value_of(const struct sw_job_metrics *m, const struct sw_stop *s, int split,
                       int64_t t)
{
    if (s->metric[split] >= 0)
        return m->last[split][s->metric[split]].value;
    if (split == SW_SPLIT_TRAIN && s->norm && m->norm.step == t)
        return m->norm.of_made;

    return (double)NAN;
}

bool sw_stop_reached(const struct sw_stop_rules *rules, const struct sw_worker *w, int split,
                     int64_t t, bool log)
{
    const struct sw_strings *texts = &w->shared.conf->stop_at;

    for (int i = 0; i < texts->count; i++) {
        double value = value_of(w->shared.metrics, &rules->rule[i], split, t);
        if (!holds(&rules->rule[i], value))
            continue;

        if (log)
            sw_events_report(w->shared.events, SW_LOG_INFO, "job",
                             "step %lld: stop_at %s reached with %.6g (%s)", (long long)t,
                             texts->items[i], value, split_name(w, split));

        return true;
    }

    return false;
}

int sw_stop_gather(const struct sw_stop_rules *rules, struct sw_worker *w, struct sw_err *err)
{
    int rc = SW_OK;

    if (!rules->uses_training)
        return SW_OK;

    if (sw_table_has_phases(w->table))
        rc = sw_exchange_wait_own(w->exchange, (uint64_t)w->step, err);
    sw_record_norms(w);
    if (rc != SW_OK)
        return rc;

    return sw_worker_barrier_active(w, "the metrics of the step", err);
}

int sw_stop_after_evaluation(struct sw_worker *w, bool *reached, struct sw_err *err)
{
    const struct sw_stop_rules *rules = w->shared.stops;
    const bool leads = w->rank->global_rank == 0;

    *reached = false;
    if (!rules->uses_evaluation && w->shared.conf->patience == 0)
        return SW_OK;

    /* The leader has stored the metrics before it reaches this barrier. */
    int rc = sw_worker_barrier(w, "the metrics of the evaluation", err);
    if (rc != SW_OK)
        return rc;

    *reached = sw_stop_reached(rules, w, SW_SPLIT_EVAL, w->step, leads) ||
               w->shared.hooks->is_out_of_patience(w->shared.run, w->step, leads);
    return SW_OK;
}
