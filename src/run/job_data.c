/* The data sections for training and evaluation, and checks of a job's batches against them; and
 * public getters of a job. */
#include "run/job_data.h"
#include "base/os.h"
#include "checkpoint/checkpoint.h"
#include "data/source.h"
#include "data/spec.h"
#include "run/job_private.h"
#include "run/standardize.h"
#include <string.h>

int sw_job_check_split(const struct sw_recipe *recipe, const char *split, struct sw_err *err)
{
    struct sw_bytes known = {0};

    if (!split || sw_recipe_find(recipe, "data", split))
        return SW_OK;

    for (const struct sw_section *s = sw_recipe_first(recipe, "data"); s; s = sw_section_next(s))
        sw_bytes_printf(&known, "%s%s", known.length ? ", " : "", s->name);
    sw_err_set(err, SW_ERR_INVALID, "--split %s: the recipe has no [data %s]; it has %s", split,
               split, sw_bytes_text(&known));
    sw_bytes_fini(&known);

    return SW_ERR_INVALID;
}

/* A checkpoint says all that the evaluation of its net must know of the training data, unless it is
 * one of an earlier version. */
static bool needs_no_training_data(const struct sw_job *job)
{
    return job->options.evaluates && job->data.spec && job->data.spec->section;
}

const struct sw_section *sw_job_find_split(const struct sw_job *job, int split)
{
    if (split == SW_SPLIT_TRAIN)
        return needs_no_training_data(job) ? NULL : sw_recipe_find(job->recipe, "data", "train");
    if (job->options.eval_split)
        return sw_recipe_find(job->recipe, "data", job->options.eval_split);

    const struct sw_section *val = sw_recipe_find(job->recipe, "data", "val");
    return val ? val : sw_recipe_find(job->recipe, "data", "test");
}

/* Each row of a batch reads one stream, so their numbers must be equal. */
static int check_streams(const struct sw_job *job, int split, const struct sw_data_conf *conf,
                         struct sw_err *err)
{
    const bool training = split == SW_SPLIT_TRAIN;
    const int64_t rows = training ? job->conf->batch : job->conf->eval_batch;
    const bool known = !sw_recipe_find(job->recipe, "job", NULL)->errors;
    if (!conf->streams || conf->streams == rows || !known)
        return SW_OK;

    return sw_err_set(
        err, SW_ERR_INVALID,
        "streams = %lld, but job.%s = %lld: they must be equal, because each row of a batch "
        "reads one stream",
        (long long)conf->streams, training ? "batch" : "eval_batch", (long long)rows);
}

/* Checks that a class number means the same in training and in evaluation. */
static int check_naming(const struct sw_job *job, struct sw_err *err)
{
    const struct sw_source *a = job->data.source[SW_SPLIT_TRAIN],
                           *b = job->data.source[SW_SPLIT_EVAL];
    if (!a || !b || !a->naming || !b->naming || a->naming == b->naming)
        return SW_OK;

    return sw_err_set(
        err, SW_ERR_INVALID,
        "its %lld classes or tokens differ from the %lld of data %s in number or order; name them "
        "in both sections (keys classes, class_names, vocabulary, vocabulary_from)",
        (long long)b->classes, (long long)a->classes, a->name);
}

/* Classes of evaluation data that have only numbers are those of the training data. */
static void borrow_names(struct sw_job *job)
{
    const struct sw_source *train = job->data.source[SW_SPLIT_TRAIN];
    struct sw_source *eval = job->data.source[SW_SPLIT_EVAL];

    if (train && eval && !eval->naming && train->naming && !train->vocabulary &&
        eval->classes <= train->classes)
        eval->class_names = train->class_names;
}

/* Removes the section's title from a source's error, because the recipe's error adds it again. */
static const char *without_title(const struct sw_section *section, const char *text)
{
    size_t n = strlen(section->title);
    bool titled = strncmp(text, section->title, n) == 0 && strncmp(text + n, ": ", 2) == 0;
    return titled ? text + n + 2 : text;
}

int sw_job_read_spec(struct sw_job *job, const char *weights, struct sw_err *err)
{
    struct sw_st_file *f = NULL;
    if (job->data.spec)
        return SW_OK;

    job->data.spec = sw_calloc(1, sizeof *job->data.spec);
    if (!job->data.spec)
        return sw_err_nomem(err, "the data spec of a checkpoint", sizeof *job->data.spec);

    int rc = sw_checkpoint_open(weights, &f, err);
    if (rc == SW_OK)
        rc = sw_data_spec_read(job->data.spec, f, err);
    sw_st_close(f);

    return rc;
}

void sw_job_free_spec(struct sw_job *job)
{
    if (job->data.spec)
        sw_data_spec_fini(job->data.spec);
    sw_free(job->data.spec);
}

/* Whether the section or its files are wrong, and not the machine. */
static bool is_about_data(int rc)
{
    return rc == SW_ERR_INVALID || rc == SW_ERR_NOTFOUND || rc == SW_ERR_FORMAT ||
           rc == SW_ERR_UNSUPPORTED;
}

int sw_job_open_split(struct sw_job *job, int split, const struct sw_section *section,
                      struct sw_err *err)
{
    job->data.section[split] = section;
    if (!section)
        return SW_OK;

    const char *fell_from = sw_section_fell_from(section);
    struct sw_source_args args = {
        .name = section->name,
        .conf = section->common,
        .format = (const struct sw_format *)(const void *)section->type[0],
        .format_conf = section->conf[0],
        .replaced = fell_from ? sw_format_find(fell_from) : NULL,
        .spec = job->data.spec,
        .seed = (uint64_t)job->conf->seed,
        /* Without a topology the recipe has errors, and only more of them are looked for. */
        .groups = job->topology ? sw_topology_turns(job->topology, split) : 1,
        .training = split == SW_SPLIT_TRAIN,
        .skip_bad = job->conf->on_bad_record == SW_BAD_RECORD_SKIP,
        .report_bad = sw_events_report_bad_record,
        .report_user = &job->events,
    };
    int rc = sw_source_open(&args, &job->data.source[split], err);
    if (rc != SW_OK)
        goto out;
    rc = check_streams(job, split, section->common, err);
    if (rc != SW_OK)
        goto out;

    borrow_names(job);
    rc = check_naming(job, err);
    if (rc == SW_OK)
        return sw_job_standardize(job, split, err);

out:
    if (!is_about_data(rc))
        return rc;

    sw_recipe_error(job->recipe, section, sw_section_has_no_fallback(section) ? "paths" : NULL,
                    "%s", without_title(section, err->text));
    sw_recipe_hint_fallback(job->recipe, section);
    return rc;
}

int sw_job_need_eval(const struct sw_job *job, struct sw_err *err)
{
    return sw_job_find_split(job, SW_SPLIT_EVAL)
               ? SW_OK
               : sw_err_set(err, SW_ERR_NOTFOUND,
                            "the recipe has no [data val] or [data test] section to evaluate on");
}

int sw_job_open_data(struct sw_job *job, struct sw_err *err)
{
    const struct sw_section *train = sw_job_find_split(job, SW_SPLIT_TRAIN);
    int rc = sw_job_check_split(job->recipe, job->options.eval_split, err);
    if (rc == SW_OK && job->options.evaluates)
        rc = sw_job_need_eval(job, err);
    if (rc != SW_OK)
        return rc;
    if (!train && !needs_no_training_data(job)) {
        sw_recipe_error(job->recipe, NULL, NULL, "the [data train] section is missing");
        return sw_recipe_status(job->recipe, err);
    }

    struct sw_err second;
    rc = sw_job_open_split(job, SW_SPLIT_TRAIN, train, err);
    if (rc != SW_OK && !is_about_data(rc))
        return rc;

    int rc_eval = sw_job_open_split(job, SW_SPLIT_EVAL, sw_job_find_split(job, SW_SPLIT_EVAL),
                                    rc == SW_OK ? err : &second);
    if (rc != SW_OK || rc_eval != SW_OK)
        return rc != SW_OK ? rc : rc_eval;

    job->span.horizon = job->conf->steps;
    if (job->span.horizon == 0 && train)
        job->span.horizon =
            sw_topology_steps(job->topology, sw_source_steps(job->data.source[SW_SPLIT_TRAIN],
                                                             job->conf->epochs, job->conf->batch));

    return SW_OK;
}

int64_t sw_job_skipped(const struct sw_job *job)
{
    int64_t n = 0;
    for (int split = 0; split < SW_SPLITS; split++)
        n += job->data.source[split] ? sw_source_skipped(job->data.source[split]) : 0;
    return n;
}

/* ---- getters ---- */

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
    return job->monitor.trace;
}

void sw_job_request(struct sw_job *job, enum sw_job_request_kind what)
{
    sw_requests_set(&job->requests, what);
}
