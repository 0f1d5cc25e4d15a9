/* singa-ws eval: loss and metrics of weights on a split of a recipe's data. */
#include "base/json.h"
#include "cli/checkpoint/weights.h"
#include "cli/history/runs.h"
#include "cli/training/trainer.h"
#include "infer/evaluate_alone.h"
#include <string.h>

struct options {
    struct sw_cli_common common;
    const char *weights, *split;
};

static const struct sw_cli_option options_of_eval[] = {
    SW_CLI_WEIGHTS_OPTION(struct options),
    SW_CLI_SPLIT_OPTION(struct options),
    {0},
};

/* ---- Output -----------------------------------------------------------------------------------
 */

static void print_json(struct sw_bytes *out, const struct sw_job_event *e,
                       const struct sw_weights *w)
{
    struct sw_json_writer j;

    sw_cli_json_begin(&j, out);
    for (int i = 0; i < e->metric_count; i++)
        sw_json_real(&j, e->metric[i].name, e->metric[i].value);
    sw_json_string(&j, "split", e->split);
    sw_json_int(&j, "step", e->step);
    sw_json_int(&j, "skipped_records", e->skipped_records);
    sw_weights_describe_json(w, &j);
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

static int evaluate(void *options)
{
    const struct options *o = options;
    struct sw_trainer t = {0};
    struct sw_weights w = {0};
    struct sw_job_event result = {0};
    struct sw_bytes out = {0};
    struct sw_err err;
    struct sw_job_options job = sw_trainer_job_of(&o->common);

    job.one_worker = true;

    int code;

    int rc = sw_trainer_init(&t, &o->common, &err);
    if (rc == SW_OK)
        rc = sw_trainer_open_with(&t, &job, o->weights, &o->common, &w, &err);
    if (rc != SW_OK) {
        code = sw_trainer_refuse(&t, rc, &err);
        goto done;
    }

    rc = sw_cli_check_split(sw_job_recipe(t.job), o->split, &err);
    if (rc == SW_OK)
        rc = sw_job_evaluate(t.job, w.path, o->split, &result, &err);
    if (rc != SW_OK) {
        code = sw_cli_fail(rc, &err);
        goto done;
    }

    if (o->common.json)
        print_json(&out, &result, &w);
    else
        print_text(&out, &result, &w, sw_job_plan(t.job), o->common.quiet);

    code = sw_cli_print(&out);

done:
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
        "Writes nothing.",
    .takes = (SW_CLI_ALL | SW_CLI_STAGE) & ~(unsigned)(SW_CLI_FRAMEWORK | SW_CLI_OVERSUBSCRIBE),
    SW_CLI_OPTIONS(struct options, options_of_eval),
    .min_args = 1,
    .max_args = 1,
    .arg_name = "RUN or RECIPE",
    .run = evaluate,
    .stops = true,
};
