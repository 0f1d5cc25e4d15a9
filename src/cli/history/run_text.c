/* Formats facts of a run for tables and JSON: times, durations, real numbers. A value that is not
 * known is "--" in text and null in JSON. The contract is in cli/history/run_text.h. */
#include "cli/history/run_text.h"

#include "base/os.h"
#include <math.h>
#include <string.h>
#include <time.h>

const char *sw_run_time_text(double unix_s, char *out)
{
    time_t t = unix_s > 0 ? (time_t)unix_s : 0;
    struct tm tm;

    if (!(unix_s > 0) || !localtime_r(&t, &tm) ||
        !strftime(out, SW_RUN_TEXT, "%Y-%m-%d %H:%M:%S", &tm))
        snprintf(out, SW_RUN_TEXT, "--");

    return out;
}

double sw_run_seconds(const struct sw_run *run)
{
    if (run->ended_at > 0)
        return run->ended_at - run->started_at;
    return run->status == SW_RUN_RUNNING ? sw_os()->unix_time() - run->started_at : (double)NAN;
}

const char *sw_run_duration(const struct sw_run *run, char *out)
{
    double s = sw_run_seconds(run);
    return isnan(s) ? "--" : sw_human_seconds(out, s);
}

void sw_columns_plain(struct sw_columns *t, const char *text)
{
    sw_columns_cell(t, "%s", text && *text ? text : "--");
}

void sw_columns_real(struct sw_columns *t, double value)
{
    char text[SW_RUN_TEXT];
    sw_columns_cell(t, "%s", sw_human_real(text, value));
}

void sw_columns_share(struct sw_columns *t, double value)
{
    sw_columns_cell(t, isnan(value) ? "--" : "%.4f", value);
}

void sw_json_time(struct sw_json_writer *w, const char *key, double unix_s)
{
    sw_json_real(w, key, unix_s > 0 ? unix_s : (double)NAN);
}

static void json_step(struct sw_json_writer *w, const char *key, int64_t step)
{
    if (step >= 0)
        sw_json_int(w, key, step);
    else
        sw_json_string(w, key, NULL);
}

/* A best value and its step; null if there is none. */
static void json_best(struct sw_json_writer *w, const char *key, double value, const char *step_key,
                      int64_t step)
{
    sw_json_real(w, key, value);
    json_step(w, step_key, step);
}

void sw_json_run(struct sw_json_writer *w, const struct sw_run *run)
{
    sw_json_int(w, "id", run->id);
    sw_json_string(w, "uid", run->uid);
    sw_json_string(w, "name", run->name);
    sw_json_string(w, "status", sw_run_status_name(run->status));
    sw_json_string(w, "recipe", run->recipe);
    sw_json_string(w, "recipe_hash", run->recipe_hash);
    sw_json_string(w, "framework", run->framework);
    sw_json_int(w, "workers", run->workers);
    sw_json_string(w, "device", run->device);
    sw_json_int(w, "seed", run->seed);
    sw_json_int(w, "batch", run->batch);
    sw_json_int(w, "steps", run->steps);
    sw_json_int(w, "params", run->params);
    sw_json_time(w, "started_at", run->started_at);
    sw_json_time(w, "ended_at", run->ended_at);

    json_step(w, "last_step", run->last_step);
    sw_json_real(w, "loss", run->loss);
    sw_json_real(w, "accuracy", run->accuracy);
    json_best(w, "best_loss", run->best_loss, "best_loss_step", run->best_loss_step);
    json_best(w, "best_accuracy", run->best_accuracy, "best_accuracy_step",
              run->best_accuracy_step);
    sw_json_real(w, "samples_per_s", run->samples_per_s);
    json_step(w, "checkpoint_step", run->checkpoint_step);
    sw_json_string(w, "out_dir", run->out_dir);
}
