/* singa-ws eval: loss and metrics of weights on a split of a recipe's data, and a report by class.
 */
#include "base/json.h"
#include "cli/checkpoint/weights.h"
#include "cli/history/runs.h"
#include "cli/plot/class_plot.h"
#include "cli/plot/picture.h"
#include "cli/report/classes.h"
#include "cli/training/trainer.h"
#include "infer/evaluate_alone.h"
#include <string.h>

struct options {
    struct sw_cli_common common;
    const char *weights, *split, *data, *plot;
    bool report;
    int64_t worst;
};

/* The result of an evaluation. */
struct result {
    struct sw_job_event event;
    struct sw_class_report classes;
    struct sw_value_report values; /* in place of classes, for a net that predicts values */
    bool has_values;
};

enum { MOST_WORST = 1000 };

static const struct sw_cli_option options_of_eval[] = {
    SW_CLI_WEIGHTS_OPTION(struct options),
    SW_CLI_SPLIT_OPTION(struct options),
    SW_CLI_TEXT_OPTION(struct options, data, "data", "PATH",
                       "evaluate on all records of this file or folder, of the format of the "
                       "evaluation data, instead of on those"),
    SW_CLI_FLAG_OPTION(struct options, report, "report",
                       "also precision, recall and F1 of each class, and the confusion matrix"),
    SW_CLI_INT_OPTION(struct options, worst, "worst", "N", 1,
                      "also the N records with the highest loss, or of predicted values with the "
                      "largest error"),
    SW_CLI_TEXT_OPTION(struct options, plot, "plot", "FILE",
                       "draw to FILE.png or FILE.svg: the confusion matrix, with --worst the "
                       "images of these records, or predicted values over their targets"),
    {0},
};

/* ---- Output -----------------------------------------------------------------------------------
 */

static void print_json(struct sw_bytes *out, const struct options *o, const struct result *r,
                       const struct sw_weights *w)
{
    const struct sw_job_event *e = &r->event;
    struct sw_json_writer j;

    sw_cli_json_begin(&j, out);
    for (int i = 0; i < e->metric_count; i++)
        sw_json_real(&j, e->metric[i].name, e->metric[i].value);
    sw_json_string(&j, "split", e->split);
    sw_json_int(&j, "step", e->step);
    sw_json_int(&j, "skipped_records", e->skipped_records);
    sw_weights_describe_json(w, &j);
    if (o->report)
        sw_json_classes(&j, &r->classes);
    if (o->worst && r->has_values)
        sw_json_worst_values(&j, &r->values);
    else if (o->worst)
        sw_json_worst(&j, &r->classes);
    sw_json_string(&j, "plot", o->plot);
    sw_cli_json_end(&j);
}

static void print_text(struct sw_bytes *out, const struct sw_job_event *e,
                       const struct sw_weights *w, const struct sw_job_plan *plan, bool quiet)
{
    if (!quiet) {
        sw_bytes_add(out, "weights    ");
        sw_weights_describe(w, out);
        sw_bytes_add(out, "\n");
    }

    if (!quiet)
        sw_bytes_printf(out, "step       %lld\nsplit      %s\n", (long long)e->step, e->split);

    if (!quiet && *plan->fallback) {
        sw_bytes_add(out, "fallback   ");
        sw_print_lines(out, plan->fallback, "           ");
    }

    if (!quiet && e->skipped_records)
        sw_bytes_printf(out, "skipped    %lld records that could not be read\n",
                        (long long)e->skipped_records);

    int width = 10; /* width of the titles above */
    for (int i = 0; i < e->metric_count; i++)
        width = (int)strlen(e->metric[i].name) > width ? (int)strlen(e->metric[i].name) : width;
    for (int i = 0; i < e->metric_count; i++)
        sw_bytes_printf(out, "%-*s %.6g\n", width, e->metric[i].name, e->metric[i].value);
}

static int check_options(const struct options *o)
{
    if (o->plot && !sw_picture_is_named("eval", o->plot))
        return SW_EXIT_USAGE;
    if (o->data && o->split)
        return sw_cli_usage("eval", "--data and --split are mutually exclusive");
    if (o->worst > MOST_WORST)
        return sw_cli_usage("eval", "--worst=%lld: at most %d", (long long)o->worst, MOST_WORST);

    return SW_EXIT_DONE;
}

static int draw(const struct options *o, const struct result *r, struct sw_err *err)
{
    if (r->has_values)
        return sw_draw_values(o->plot, &r->values, r->event.split, err);
    return o->worst ? sw_draw_worst(o->plot, &r->classes, r->event.split, err)
                    : sw_draw_confusion(o->plot, &r->classes, r->event.split, err);
}

/* Evaluates, and draws the plot. */
static int run_pass(const struct options *o, struct sw_job *job, const char *weights,
                    struct result *r, struct sw_err *err)
{
    struct sw_eval_reports reports = {NULL};

    r->has_values = !o->report && sw_job_predicts_values(job);
    r->classes.worst_most = r->values.worst_most = (int)o->worst;
    r->classes.with_pictures = o->plot && o->worst;
    r->values.with_points = o->plot;
    if (o->report || ((o->worst || o->plot) && !r->has_values))
        reports.classes = &r->classes;
    else if (o->worst || o->plot)
        reports.values = &r->values;

    int rc = sw_job_evaluate_with(job, weights, &reports, &r->event, err);
    return rc == SW_OK && o->plot ? draw(o, r, err) : rc;
}

static void print(struct sw_bytes *out, const struct options *o, const struct sw_trainer *t,
                  const struct sw_weights *w, const struct result *r)
{
    if (o->common.json) {
        print_json(out, o, r, w);
        return;
    }

    sw_trainer_warn(t);
    print_text(out, &r->event, w, sw_job_plan(t->job), o->common.quiet);
    if (o->report)
        sw_print_classes(out, &r->classes);
    if (o->worst && r->has_values)
        sw_print_worst_values(out, &r->values);
    else if (o->worst)
        sw_print_worst(out, &r->classes);
    if (o->plot && !o->common.quiet)
        sw_bytes_printf(out, "%splot       %s\n", o->report || o->worst ? "\n" : "", o->plot);
}

static int evaluate(void *options)
{
    const struct options *o = options;
    struct sw_trainer t = {0};
    struct sw_weights w = {0};
    struct result result = {0};
    struct sw_bytes out = {0};
    struct sw_err err;
    struct sw_job_options job = sw_trainer_job_of(&o->common);

    job.one_worker = true;
    job.eval_data = o->data;
    job.eval_split = o->split;

    int code = check_options(o);
    if (code != SW_EXIT_DONE)
        return code;

    int rc = sw_trainer_init(&t, &o->common, &err);
    if (rc == SW_OK)
        rc = sw_trainer_open_with(&t, &job, o->weights, &o->common, &w, &err);
    if (rc != SW_OK) {
        code = sw_trainer_refuse(&t, rc, &err);
        goto done;
    }

    rc = run_pass(o, t.job, w.path, &result, &err);
    if (rc != SW_OK) {
        code = sw_cli_fail(rc, &err);
        goto done;
    }

    print(&out, o, &t, &w, &result);
    code = sw_cli_print(&out);

done:
    sw_class_report_fini(&result.classes);
    sw_value_report_fini(&result.values);
    sw_bytes_fini(&out);
    sw_weights_fini(&w);
    sw_trainer_fini(&t);

    return code;
}

const struct sw_verb sw_verb_eval = {
    .name = "eval",
    .help = "print loss and metrics of trained weights",
    .usage = "[OPTION]... RUN|RECIPE",
    .about =
        "Prints loss and metrics of trained weights: one pass over a split, every sample once.\n"
        "Writes nothing but the file of --plot.",
    .takes = (SW_CLI_ALL | SW_CLI_STAGE) & ~(unsigned)(SW_CLI_FRAMEWORK | SW_CLI_OVERSUBSCRIBE),
    SW_CLI_OPTIONS(struct options, options_of_eval),
    .min_args = 1,
    .max_args = 1,
    .arg_name = "RUN or RECIPE",
    .run = evaluate,
    .stops = true,
};
