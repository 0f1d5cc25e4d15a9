/* Warns about steps whose learning rate is too low to train: a warm-up that is not over at the end
 * of the schedule, a schedule that is low throughout, and steps after the end of a schedule that
 * ends at 0. The contract is in run/low_rate.h. */
#include "run/low_rate.h"
#include "optim/updater.h"
#include "run/job_private.h"
#include <string.h>

static const struct sw_section *updater_of(const struct sw_job *job)
{
    return sw_recipe_find(job->recipe, "updater", NULL);
}

/* Whether the rate is below a thousandth of lr in all steps after `from` up to `to`; of a long
 * range every n-th step is examined. */
static bool is_low(const struct sw_job *job, int64_t from, int64_t to)
{
    enum { EXAMINED = 100000 };
    const struct sw_updater_conf *c = updater_of(job)->common;
    const int64_t stride = 1 + (to - from) / EXAMINED;

    for (int64_t t = from; t < to; t += stride)
        if (sw_table_rate(job->params.table, (uint64_t)t) >= c->lr / 1000)
            return false;
    return from < to;
}

/* Whether the schedule is as long as the recipe or its stage, so that more steps change it. */
static bool ends_with_recipe(const struct sw_job *job)
{
    const struct sw_section *u = updater_of(job);
    const char *over = sw_section_text(u, "over");
    const struct sw_opt *o = u->type[1]->opts;

    while (o && o->key && strcmp(o->key, "over") != 0)
        o++;
    return o && o->key && (!over || strcmp(over, "0") == 0);
}

/* The key that gives the length of the schedule, and its value. */
static void add_length(const struct sw_job *job, struct sw_bytes *out)
{
    if (job->conf->steps > 0)
        sw_bytes_printf(out, "job.steps = %lld", (long long)job->conf->steps);
    else
        sw_bytes_printf(out, "job.epochs = %g (%lld steps)", job->conf->epochs,
                        (long long)job->span.horizon);
}

static void warn_low_schedule(const struct sw_job *job, int64_t from, int64_t end,
                              struct sw_bytes *out)
{
    const struct sw_updater_conf *c = updater_of(job)->common;

    if (c->warmup >= job->span.horizon) {
        sw_bytes_printf(out, "updater.warmup = %lld is not less than ", (long long)c->warmup);
        add_length(job, out);
        sw_bytes_add(out, ": the learning rate never reaches lr; reduce warmup\n");
    } else if (is_low(job, from, end)) {
        sw_bytes_printf(out, "the learning rate is below lr / 1000 in steps %lld to %lld: ",
                        (long long)(from + 1), (long long)end);
        if (c->warmup > 0)
            sw_bytes_printf(out, "updater.warmup = %lld is too close to ", (long long)c->warmup);
        else
            sw_bytes_printf(out, "updater.policy = %s does not suit ",
                            updater_of(job)->type[1]->name);
        if (end - from < job->span.horizon)
            sw_bytes_printf(out, "--steps %lld", (long long)end);
        else
            add_length(job, out);
        sw_bytes_add(out, "\n");
    }
}

/* --set lengthens the schedule, --steps does not. */
static void warn_extension(const struct sw_job *job, int64_t schedule_end, struct sw_bytes *out)
{
    const struct sw_job_span *span = &job->span;
    const int64_t from = span->first_step > schedule_end ? span->first_step : schedule_end;
    const char *stage = job->stage.name ? job->stage.name : "";

    if (!ends_with_recipe(job) || !is_low(job, from, span->steps))
        return;

    add_length(job, out);
    sw_bytes_printf(out,
                    " ends the schedule: the learning rate of later steps is below lr / 1000; use "
                    "--set %s%s%ssteps=%lld, not --steps\n",
                    *stage ? "stage." : "job.", stage, *stage ? "." : "",
                    (long long)(span->steps - span->stage_from));
}

void sw_low_rate_describe(struct sw_job *job)
{
    const struct sw_job_span *span = &job->span;
    const int64_t schedule_end = span->stage_from + span->horizon;
    const int64_t end = span->steps < schedule_end ? span->steps : schedule_end;
    const bool falls = ends_with_recipe(job) && is_low(job, schedule_end, schedule_end + 1);
    struct sw_job_plan *p = &job->plan;

    warn_low_schedule(job, span->stage_from, end, &job->report.warnings);
    warn_extension(job, schedule_end, &job->report.warnings);
    p->warnings = sw_bytes_text(&job->report.warnings);

    p->extension = falls && !job->stage.name ? "--set job.steps=N" : "--steps N";
}
