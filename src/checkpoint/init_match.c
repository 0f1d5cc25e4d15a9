/* Matches tensors of files with parameters and buffers, by name or by the rules of init_from. The
 * contract is in checkpoint/init_match.h. */
#include "checkpoint/init_match.h"
#include "net/net.h"
#include "worker/worker.h"
#include <stdio.h>
#include <string.h>

static const char state_prefix[] = "state.";

struct sw_table *sw_init_table(const struct sw_checkpoint_job *job)
{
    return job->workers[0].table;
}

int sw_init_target_count(const struct sw_checkpoint_job *job)
{
    return sw_table_count(sw_init_table(job)) + job->state->buffers.count;
}

const char *sw_init_target_name(const struct sw_checkpoint_job *job, int i)
{
    int params = sw_table_count(sw_init_table(job));
    return i < params ? sw_table_param(sw_init_table(job), i)->name
                      : job->state->buffers.items[i - params].name;
}

bool sw_init_target_is_buffer(const struct sw_checkpoint_job *job, int i)
{
    return i >= sw_table_count(sw_init_table(job));
}

void sw_init_target_layer(const struct sw_checkpoint_job *job, int target, char layer[SW_INIT_NAME],
                          const char **param)
{
    const char *name = sw_init_target_name(job, target);
    if (sw_init_target_is_buffer(job, target) && sw_str_starts(name, state_prefix))
        name += strlen(state_prefix);

    const char *dot = strrchr(name, '.');
    snprintf(layer, SW_INIT_NAME, "%.*s", dot ? (int)(dot - name) : (int)strlen(name), name);
    *param = dot ? dot + 1 : "";
}

bool sw_init_is_reset_by(const struct sw_checkpoint_job *job, int target, const char *pattern)
{
    char layer[SW_INIT_NAME];
    const char *param;

    sw_init_target_layer(job, target, layer, &param);
    return sw_net_pattern_fits(pattern, layer, param);
}

bool sw_init_is_reset(const struct sw_checkpoint_job *job, int target)
{
    const struct sw_strings *reset = job->takes->reset;

    for (int i = 0; reset && i < reset->count; i++)
        if (sw_init_is_reset_by(job, target, reset->items[i]))
            return true;

    return false;
}

void sw_init_add_layer(const struct sw_checkpoint_job *job, int target, struct sw_bytes *out)
{
    char layer[SW_INIT_NAME], last[SW_INIT_NAME + 2];
    const char *param;

    sw_init_target_layer(job, target, layer, &param);
    snprintf(last, sizeof last, ", %.*s", SW_INIT_NAME - 1, layer);
    if (!sw_str_eq(sw_bytes_text(out), layer) && !sw_str_ends(sw_bytes_text(out), last))
        sw_bytes_printf(out, "%s%s", out->length ? ", " : "", layer);
}

bool sw_init_apply(const struct sw_checkpoint_job *job, const struct sw_init_from_rule *r,
                   int target, char tensor[SW_INIT_NAME])
{
    const char *name = sw_init_target_name(job, target), *star = strchr(r->to, '*'), *prefix = "";
    if (!star) {
        snprintf(tensor, SW_INIT_NAME, "%s", r->from);
        return sw_str_eq(r->to, name);
    }

    if (sw_init_target_is_buffer(job, target) && !sw_str_starts(r->to, state_prefix)) {
        prefix = state_prefix;
        name += strlen(state_prefix);
    }

    size_t head = (size_t)(star - r->to), tail = strlen(star + 1), n = strlen(name);
    if (n < head + tail || strncmp(name, r->to, head) != 0 || !sw_str_ends(name, star + 1))
        return false;

    const char *from = strchr(r->from, '*');
    snprintf(tensor, SW_INIT_NAME, "%s%.*s%.*s%s", prefix, (int)(from - r->from), r->from,
             (int)(n - head - tail), name + head, from + 1);

    return true;
}

const struct sw_st_entry *sw_init_find_tensor(const struct sw_init_tensors *from, const char *name)
{
    return from->f ? sw_st_find(from->f, name) : sw_stage_names_find(from->names, name);
}

const char *sw_init_path(const struct sw_init_from_file *file)
{
    return file->previous ? "the previous stage" : file->path;
}

int sw_init_for_each(const struct sw_checkpoint_job *job, const struct sw_init_from_file *file,
                     const struct sw_init_tensors *from, sw_init_visit *call, void *user,
                     struct sw_err *err)
{
    const struct sw_init_from_rule *rules = job->takes->rules + file->first_rule;
    int rc = SW_OK, rounds = file->rule_count ? file->rule_count : 1;

    for (int r = 0; r < rounds && rc == SW_OK; r++)
        for (int i = 0; i < sw_init_target_count(job) && rc == SW_OK; i++) {
            char tensor[SW_INIT_NAME];
            struct sw_init_take t = {.from = from, .target = i, .tensor = tensor};

            if (sw_init_is_reset(job, i))
                continue;
            if (file->rule_count) {
                t.rule = &rules[r];
                if (!sw_init_apply(job, t.rule, i, tensor))
                    continue;
            } else {
                snprintf(tensor, sizeof tensor, "%s", sw_init_target_name(job, i));
            }

            /* check_found has checked rules without a pattern. */
            t.entry = sw_init_find_tensor(from, tensor);
            if (t.entry)
                rc = call(job, &t, user, err);
        }

    return rc;
}

struct sw_table_source sw_init_source(const struct sw_checkpoint_job *job,
                                      const struct sw_init_take *t, struct sw_stream *stream)
{
    return (struct sw_table_source){.table = sw_init_table(job),
                                    .stream = stream,
                                    .param = t->target,
                                    .slot = -1,
                                    .transposed = t->rule && t->rule->transposed};
}

int sw_init_open(const struct sw_checkpoint_job *job, const struct sw_init_from_file *file,
                 struct sw_init_tensors *from, struct sw_st_file **f, struct sw_err *err)
{
    int rc = sw_checkpoint_open(file->previous ? job->resumed : file->path, f, err);
    *from = (struct sw_init_tensors){.f = *f, .path = sw_init_path(file)};
    if (rc == SW_OK || file->previous)
        return rc;
    if (rc != SW_ERR_NOTFOUND || sw_str_ends(file->path, ".safetensors"))
        return sw_err_prefix(err, rc, "init_from");

    const char *name = strrchr(file->path, '/'); /* the path was made relative to the recipe */
    name = name ? name + 1 : file->path;
    return sw_err_set(
        err, rc,
        "init_from: no file %s; if %s is a run, leave init_from out of the recipe and "
        "use --init-from %s",
        file->path, name, name);
}
