/* Checkpoints: OUT/checkpoint-STEP.safetensors with parameters (`layer.param`), updater state
 * (`updater.layer.param.slot`; of server group K, if there are several, with `.K` behind it but for
 * K = 0), state without gradient (`state.layer.name`), and in __metadata__
 * what else a run needs to go on to the same bits: step, seed, recipe text with overrides and
 * fallback decision, and the choices of the plans. The data position and all randomness are
 * functions of seed and step, so nothing more is stored for that. With the data spec
 * (data/spec.h), from the data on which the net is evaluated, the file alone is enough to use the
 * net. */
#include "checkpoint/checkpoint.h"
#include "base/os.h"
#include "base/text.h"
#include "checkpoint/carried_over.h"
#include "checkpoint/retention.h"
#include "checkpoint/scale.h"
#include "checkpoint/standardized.h"
#include "checkpoint/tokens.h"
#include "data/spec.h"
#include "exchange/table/sync.h"
#include "exchange/table/table_file.h"
#include "plan/saved_choices.h"
#include "recipe/job.h"
#include "worker/events.h"
#include "worker/recurrent_state.h"
#include "worker/worker.h"
#include <dirent.h>
#include <stdio.h>

enum { FORMAT_VERSION = 1 };

/* The parameter table of a server group; the first group's values are saved and evaluated. */
static struct sw_table *table_of(const struct sw_checkpoint_job *job, int server_group)
{
    return job->workers[job->topology->server_group[server_group].first_worker].table;
}

static struct sw_stream *host_stream(const struct sw_checkpoint_job *job)
{
    return sw_worker_host_stream(&job->workers[0]);
}

/* "conv1.weight", or for updater state "updater.conv1.weight.momentum", with ".1" behind it for
 * that of server group 1; for sw_free. */
static char *tensor_name(const struct sw_table *t, int param, int slot, int copy)
{
    const char *name = sw_table_param(t, param)->name;
    char behind[16] = "";

    if (copy > 0)
        snprintf(behind, sizeof behind, ".%d", copy);
    return slot < 0
               ? sw_strdup(name)
               : sw_format("updater.%s.%s%s", name, sw_table_updater(t)->slot_names[slot], behind);
}

/* Values are the same in all replicas, but updater state differs. */
static int add_tensors(const struct sw_checkpoint_job *job, int copy, struct sw_st_writer *w,
                       struct sw_table_source *sources, struct sw_err *err)
{
    struct sw_table *t = table_of(job, copy);
    int slots = sw_table_slots(t), rc = SW_OK;

    for (int p = 0; p < sw_table_count(t) && rc == SW_OK; p++)
        for (int s = copy == 0 ? -1 : 0; s < sw_table_param_slots(t, p) && rc == SW_OK; s++) {
            struct sw_table_source *source = &sources[p * (slots + 1) + s + 1];
            char *name = tensor_name(t, p, s, copy);

            *source = (struct sw_table_source){
                .table = t, .stream = host_stream(job), .param = p, .slot = s};
            rc = name ? sw_table_add_tensor(source, name, w, err)
                      : sw_err_nomem(err, "a checkpoint's names", 0);
            sw_free(name);
        }

    return rc;
}

static int add_number(struct sw_st_writer *w, const char *key, int64_t value, struct sw_err *err)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    return sw_st_writer_metadata(w, key, text, err);
}

/* "dropped", or of server group 1 "dropped.1". */
static const char *copy_key(const char *key, int copy, char out[32])
{
    if (copy == 0)
        return key;
    snprintf(out, 32, "%s.%d", key, copy);
    return out;
}

/* Adds the number of updates applied to each replica. */
static int add_counts(const struct sw_checkpoint_job *job, struct sw_st_writer *w,
                      struct sw_err *err)
{
    char key[32];
    int copies = job->topology->server_groups;
    int rc = add_number(w, "server_groups", copies, err);

    for (int i = 0; i < copies && rc == SW_OK; i++) {
        const struct sw_table *t = table_of(job, i);

        rc = add_number(w, copy_key("updates", i, key), (int64_t)sw_table_updates(t), err);
        if (rc == SW_OK)
            rc = add_number(w, copy_key("dropped", i, key), (int64_t)sw_table_dropped(t), err);
        if (rc == SW_OK && job->conf->loss_scale > 0)
            rc = sw_scale_write(t, i, w, err);
    }

    return rc;
}

static int add_stage(const struct sw_checkpoint_stage *stage, struct sw_st_writer *w,
                     struct sw_err *err)
{
    if (stage->index < 0)
        return SW_OK;

    int rc = sw_st_writer_metadata(w, "stage", stage->name, err);
    if (rc == SW_OK)
        rc = add_number(w, "stage_from", stage->from, err);
    if (rc == SW_OK && stage->over)
        rc = sw_st_writer_metadata(w, "stage_over", "yes", err);

    return rc;
}

static int add_texts(const struct sw_checkpoint_job *job, struct sw_st_writer *w,
                     struct sw_err *err)
{
    /* A path is any bytes; metadata is UTF-8. */
    struct sw_bytes name = {0}, path = {0};

    sw_text_add(&name, job->name);
    sw_text_add(&path, sw_recipe_file(job->recipe));
    const struct {
        const char *key, *value;
    } texts[] = {
        {"singa_ws.version", SW_VERSION},
        {"name", sw_bytes_text(&name)},
        {"recipe_path", sw_bytes_text(&path)},
        {"recipe", sw_recipe_text(job->recipe)},
        {"recipe_hash", sw_recipe_hash(job->recipe)},
        {"overrides", sw_recipe_overrides(job->recipe)},
        {"fallback", sw_recipe_fallback(job->recipe)},
        {"choices", job->choices},
    };

    int rc = name.failed || path.failed ? sw_err_nomem(err, "metadata", 0) : SW_OK;

    for (size_t i = 0; i < sizeof texts / sizeof *texts && rc == SW_OK; i++)
        rc = sw_st_writer_metadata(w, texts[i].key, texts[i].value, err);
    sw_bytes_fini(&name);
    sw_bytes_fini(&path);

    return rc;
}

static int add_metadata(const struct sw_checkpoint_job *job, int64_t step, struct sw_st_writer *w,
                        struct sw_err *err)
{
    const struct {
        const char *key;
        int64_t value;
    } numbers[] = {
        {"singa_ws.format", FORMAT_VERSION},
        {"step", step},
        {"seed", job->conf->seed},
        {"samples", sw_topology_samples(job->topology, step)},
    };

    int rc = add_texts(job, w, err);

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && rc == SW_OK; i++)
        rc = add_number(w, numbers[i].key, numbers[i].value, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_tokens_write(job->source[SW_SPLIT_TRAIN], w, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_standardized_write(job->source[SW_SPLIT_TRAIN], w, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_data_spec_write(job->source[SW_SPLIT_EVAL] ? job->source[SW_SPLIT_EVAL]
                                                       : job->source[SW_SPLIT_TRAIN],
                            w, err);
    if (rc != SW_OK)
        return rc;
    rc = add_counts(job, w, err);
    if (rc != SW_OK)
        return rc;
    rc = add_stage(&job->stage, w, err);
    if (rc != SW_OK)
        return rc;

    return sw_retention_write(job->retention, sw_retention_best_with(job->retention, step), w, err);
}

/* sources: memory for [server groups][each] tensors, valid until the file is written. */
static int add_all(const struct sw_checkpoint_job *job, int64_t step,
                   struct sw_table_source *sources, size_t each, struct sw_st_writer *w,
                   struct sw_err *err)
{
    int rc = add_metadata(job, step, w, err);

    for (int i = 0; i < job->topology->server_groups && rc == SW_OK; i++)
        rc = add_tensors(job, i, w, sources + each * (size_t)i, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_buffers_write(&job->state->buffers, w, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_recurrent_state_write(&job->state->recurrent, w, err);
    if (rc != SW_OK)
        return rc;

    return sw_carried_over_write(job->carried_over, w, err);
}

static void announce(const struct sw_checkpoint_job *job, const char *path, uint64_t bytes,
                     const char *checksum)
{
    const int64_t step = job->workers[0].step;
    struct sw_job_event e = {.type = SW_JOB_CHECKPOINT,
                             .step = step,
                             .steps = job->run_steps,
                             .bytes = (int64_t)bytes,
                             .best = sw_retention_beats(job->retention, step)};

    if (job->unrecorded) {
        sw_retention_keep(job->retention, step, path, checksum);
        return;
    }

    sw_retention_record(job->retention, step, step >= job->steps, path, bytes, checksum);
    sw_events_post(job->events, &e, path);
}

int sw_checkpoint_write(const struct sw_checkpoint_job *job, struct sw_err *err)
{
    const int64_t step = job->workers[0].step;
    const struct sw_table *t = table_of(job, 0);
    size_t each = (size_t)(sw_table_count(t) * (sw_table_slots(t) + 1));
    size_t count = each * (size_t)job->topology->server_groups;
    struct sw_table_source *sources = sw_calloc(count + 1, sizeof *sources);
    struct sw_st_writer *writer = sw_st_writer_new();
    char *path = sw_format("%s/checkpoint-%lld.safetensors",
                           sw_history_out_dir(job->events->history), (long long)step);
    char checksum[33] = "";
    uint64_t bytes = 0;

    int rc = sources && writer && path ? add_all(job, step, sources, each, writer, err)
                                       : sw_err_nomem(err, "a checkpoint", count * sizeof *sources);

    if (rc == SW_OK)
        rc = sw_st_writer_write(writer, path, 0666, &bytes, checksum, err);

    if (rc == SW_OK)
        announce(job, path, bytes, checksum);
    else
        sw_err_prefix(err, rc, "checkpoint at step %lld", (long long)step);

    sw_st_writer_free(writer);
    sw_free(sources);
    sw_free(path);

    return rc;
}

/* A process that is killed during a write leaves its temporary file. */
void sw_checkpoint_sweep(const char *dir)
{
    DIR *d = opendir(dir);
    if (!d)
        return;

    for (const struct dirent *e; (e = readdir(d));) {
        if (!sw_str_match("checkpoint-*.safetensors.tmp-*", e->d_name))
            continue;

        char *path = sw_format("%s/%s", dir, e->d_name);
        if (path)
            sw_os()->unlink(path);
        sw_free(path);
    }

    closedir(d);
}

static int read_number(const struct sw_st_file *f, const char *key, int64_t *value,
                       struct sw_err *err)
{
    const char *text = sw_st_metadata(f, key);
    if (!text || !sw_parse_int(text, value) || *value < 0)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: not a checkpoint of a run: its metadata has no %s", sw_st_path(f),
                          key);

    return SW_OK;
}

static int check_version(const struct sw_st_file *f, struct sw_err *err)
{
    int64_t version = 0;
    int rc = read_number(f, "singa_ws.format", &version, err);

    if (rc != SW_OK || version <= FORMAT_VERSION)
        return rc;
    return sw_err_set(err, SW_ERR_UNSUPPORTED,
                      "%s: written by a newer version (format %lld, this program knows %d)",
                      sw_st_path(f), (long long)version, FORMAT_VERSION);
}

/* Checks that the file has every tensor that the job needs, with the right shape. */
static int check_tensors(struct sw_table *t, const struct sw_st_file *f, struct sw_err *err)
{
    int rc = SW_OK;

    for (int p = 0; p < sw_table_count(t) && rc == SW_OK; p++)
        for (int s = -1; s < sw_table_param_slots(t, p) && rc == SW_OK; s++) {
            char *name = tensor_name(t, p, s, 0);
            struct sw_table_source to = {.table = t, .param = p, .slot = s};
            rc = name ? sw_table_check_tensor(&to, name, f, sw_st_path(f), err)
                      : sw_err_nomem(err, "a tensor's name", 0);
            sw_free(name);
        }

    return rc;
}

int sw_checkpoint_check(const struct sw_checkpoint_job *job, const char *path, int64_t *step,
                        struct sw_err *err)
{
    struct sw_st_file *f = NULL;
    int rc = sw_st_open(path, true, &f, err);

    if (rc == SW_OK)
        rc = check_version(f, err);
    if (rc == SW_OK)
        rc = read_number(f, "step", step, err);
    if (rc == SW_OK)
        rc = check_tensors(table_of(job, 0), f, err);
    if (rc == SW_OK)
        rc = sw_buffers_check(&job->state->buffers, f, err);
    sw_st_close(f);

    return rc;
}

/* Values read from a file must be finite, as training guarantees for its own. */
int sw_checkpoint_check_finite(struct sw_stream *stream, const float *value,
                               const struct sw_desc *layout, const char *name, const char *path,
                               struct sw_err *err)
{
    bool finite = true;
    int rc = sw_op_all_finite(stream, value, sw_desc_storage(layout), &finite, err);

    if (rc == SW_OK && !finite)
        rc = sw_err_set(err, SW_ERR_FORMAT, "%s: %s holds values that are not finite (NaN or Inf)",
                        path, name);

    return rc;
}

/* Reads the value or an updater slot of a parameter, in which all elements must be finite. */
static int read_array(const struct sw_checkpoint_job *job, const struct sw_table_source *to,
                      const char *name, const struct sw_st_file *f, struct sw_err *err)
{
    const struct sw_tensor array = sw_table_tensor(to->table, to->param, to->slot);

    int rc = sw_table_read_tensor(to, name, f, err);
    if (rc != SW_OK)
        return rc;

    return sw_checkpoint_check_finite(host_stream(job), array.data, &array.desc, name,
                                      sw_st_path(f), err);
}

/* Loads the updater state of replica `from` into this one. */
static int load_state(const struct sw_checkpoint_job *job, const struct sw_st_file *f, int copy,
                      int from, struct sw_err *err)
{
    struct sw_table *t = table_of(job, copy);
    int rc = SW_OK;

    for (int p = 0; p < sw_table_count(t) && rc == SW_OK; p++)
        for (int s = 0; s < sw_table_param_slots(t, p) && rc == SW_OK; s++) {
            struct sw_table_source to = {
                .table = t, .stream = host_stream(job), .param = p, .slot = s};
            char *name = tensor_name(t, p, s, from);

            rc =
                name ? read_array(job, &to, name, f, err) : sw_err_nomem(err, "a tensor's name", 0);
            sw_free(name);
        }

    return rc;
}

static int take_values(const struct sw_checkpoint_job *job, const struct sw_st_file *f,
                       struct sw_err *err)
{
    struct sw_table *t = table_of(job, 0);
    int rc = SW_OK;

    for (int p = 0; p < sw_table_count(t) && rc == SW_OK; p++) {
        const char *name = sw_table_param(t, p)->name;
        struct sw_table_source to = {
            .table = t, .stream = host_stream(job), .param = p, .slot = -1};

        if (!sw_st_find(f, name))
            return sw_err_set(err, SW_ERR_FORMAT, "%s: has no tensor %s", sw_st_path(f), name);

        rc = read_array(job, &to, name, f, err);
    }

    return rc;
}

/* A checkpoint of this program without a checksum is damaged; files of other programs need none. */
static int check_origin(const struct sw_st_file *f, struct sw_err *err)
{
    if (!sw_st_metadata(f, "singa_ws.format"))
        return SW_OK;
    if (sw_st_verified(f))
        return check_version(f, err);
    return sw_err_set(err, SW_ERR_FORMAT, "%s: damaged: a checkpoint without its checksum",
                      sw_st_path(f));
}

int sw_checkpoint_open(const char *path, struct sw_st_file **f, struct sw_err *err)
{
    int rc = sw_st_open(path, false, f, err);
    if (rc == SW_OK)
        rc = check_origin(*f, err);
    return rc;
}

int sw_checkpoint_load_weights(const struct sw_checkpoint_job *job, const char *path, int64_t *step,
                               struct sw_err *err)
{
    struct sw_st_file *f = NULL;
    int rc = sw_checkpoint_open(path, &f, err);
    if (rc != SW_OK)
        goto out;
    rc = sw_tokens_check(job->source, f, err);
    if (rc != SW_OK)
        goto out;
    rc = sw_standardized_read(job->source, f, err);
    if (rc != SW_OK)
        goto out;
    rc = take_values(job, f, err);
    if (rc != SW_OK)
        goto out;
    rc = sw_buffers_read(&job->state->buffers, f, err);
    if (rc != SW_OK)
        goto out;

    const char *text = sw_st_metadata(f, "step");
    if (!text || !sw_parse_int(text, step))
        *step = 0;

out:
    sw_st_close(f);
    return rc;
}

/* Metadata of a file; everything except the step may be missing in older files. */
struct file_meta {
    int64_t step, copies;
};

static int read_meta(const struct sw_st_file *f, struct file_meta *file_meta, struct sw_err *err)
{
    file_meta->copies = 1;

    int rc = read_number(f, "step", &file_meta->step, err);
    if (rc == SW_OK && sw_st_metadata(f, "server_groups"))
        rc = read_number(f, "server_groups", &file_meta->copies, err);
    if (rc == SW_OK && file_meta->copies < 1)
        rc = sw_err_set(err, SW_ERR_FORMAT, "%s: server_groups = 0 in its metadata", sw_st_path(f));

    return rc;
}

/* The replica of the file whose state a replica resumes: its own, another one's if the file has
 * fewer replicas, or the first one's during warmup. */
static int source_replica(const struct sw_checkpoint_job *job, const struct file_meta *file_meta,
                          int copy)
{
    return file_meta->step < job->topology->warmup_steps ? 0 : (int)(copy % file_meta->copies);
}

static int read_count(const struct sw_st_file *f, const char *key, int copy, int64_t otherwise,
                      int64_t *value, struct sw_err *err)
{
    char text[32];
    key = copy_key(key, copy, text);
    *value = otherwise;
    return sw_st_metadata(f, key) ? read_number(f, key, value, err) : SW_OK;
}

/* Updates of a replica. */
struct counts {
    int64_t updates, dropped;
};

static int read_counts(const struct sw_checkpoint_job *job, const struct sw_st_file *f,
                       const struct file_meta *file_meta, int copy, struct counts *out,
                       struct sw_err *err)
{
    int from = source_replica(job, file_meta, copy);
    int64_t usual = file_meta->step * sw_table_update_groups(table_of(job, copy));
    int rc = read_count(f, "updates", from, usual, &out->updates, err);
    return rc == SW_OK ? read_count(f, "dropped", from, 0, &out->dropped, err) : rc;
}

/* Loads values into all replicas, and all updater state and buffers. */
static int read_all(const struct sw_checkpoint_job *job, const struct sw_st_file *f,
                    const struct file_meta *file_meta, struct sw_err *err)
{
    int rc = take_values(job, f, err);

    for (int i = 0; i < job->topology->server_groups && rc == SW_OK; i++)
        rc = load_state(job, f, i, source_replica(job, file_meta, i), err);
    if (rc == SW_OK && job->sync)
        sw_sync_broadcast(job->sync, (uint64_t)job->workers[0].step, false);

    return rc == SW_OK ? sw_buffers_read(&job->state->buffers, f, err) : rc;
}

/* Restores the state; step and update counters go on, and the lost updates are counted as dropped.
 */
static int restore(const struct sw_checkpoint_job *job, const struct sw_st_file *f,
                   const struct file_meta *file_meta, struct sw_err *err)
{
    struct counts n;
    int rc = SW_OK;

    for (int i = 0; i < job->topology->server_groups && rc == SW_OK; i++) {
        uint64_t now = sw_table_updates(table_of(job, i));

        rc = read_counts(job, f, file_meta, i, &n, err);
        if (rc == SW_OK)
            job->put_step(job->user, i, job->workers[0].step, now,
                          now - (uint64_t)(n.updates - n.dropped));
    }

    return rc;
}

int sw_checkpoint_roll_back(const struct sw_checkpoint_job *job, const char *path,
                            struct sw_err *err)
{
    struct sw_st_file *f = NULL;
    struct file_meta file_meta = {0};
    int rc = sw_st_open(path, true, &f, err);

    if (rc == SW_OK)
        rc = read_meta(f, &file_meta, err);
    if (rc == SW_OK)
        rc = read_all(job, f, &file_meta, err);
    if (rc == SW_OK)
        rc = restore(job, f, &file_meta, err);
    sw_st_close(f);

    return rc;
}

/* Does the file have saved choices that differ from the job's? */
static bool differs(const char *kept, const char *own)
{
    struct sw_json *a = NULL, *b = NULL;
    struct sw_err ignored;
    bool same =
        !kept || (sw_saved_choices_parse(kept, &a, &ignored) == SW_OK &&
                  sw_saved_choices_parse(own, &b, &ignored) == SW_OK && sw_json_equal(a, b));

    sw_json_free(a);
    sw_json_free(b);
    return !same;
}

/* Warns about differences from the job that wrote the file. */
static void warn_differences(const struct sw_checkpoint_job *job, const struct sw_st_file *f,
                             const struct file_meta *file_meta)
{
    const char *role = job->workers[0].role;
    int copies = job->topology->server_groups;

    if (differs(sw_st_metadata(f, "choices"), job->choices))
        sw_events_report(
            job->events, SW_LOG_WARN, role,
            "the algorithms differ from those that wrote the checkpoint (another machine, library "
            "or number of threads): the run continues, but its results will not be bit-identical");

    if (file_meta->copies != copies)
        sw_events_report(
            job->events, SW_LOG_WARN, role,
            "the checkpoint has the updater state of %d server group%s, but there %s %d: "
            "group K takes that of group K modulo %d",
            (int)file_meta->copies, file_meta->copies == 1 ? "" : "s", copies == 1 ? "is" : "are",
            copies, (int)file_meta->copies);
}

/* Sets the position of each server group. */
static int put_steps(const struct sw_checkpoint_job *job, const struct sw_st_file *f,
                     const struct file_meta *file_meta, struct sw_err *err)
{
    struct counts n;
    int rc = SW_OK;

    for (int i = 0; i < job->topology->server_groups && rc == SW_OK; i++) {
        rc = read_counts(job, f, file_meta, i, &n, err);
        if (rc == SW_OK)
            job->put_step(job->user, i, job->first_step, (uint64_t)n.updates, (uint64_t)n.dropped);
        if (rc == SW_OK && job->conf->loss_scale > 0)
            rc = sw_scale_read(table_of(job, i), f, source_replica(job, file_meta, i), err);
    }

    return rc;
}

int sw_checkpoint_load(const struct sw_checkpoint_job *job, const char *path, struct sw_err *err)
{
    struct sw_st_file *f = NULL;
    struct file_meta file_meta = {0};
    int rc = sw_st_open(path, true, &f, err);

    if (rc == SW_OK)
        rc = read_meta(f, &file_meta, err);
    if (rc == SW_OK)
        rc = sw_tokens_check(job->source, f, err);
    if (rc == SW_OK)
        rc = sw_standardized_read(job->source, f, err);
    if (rc == SW_OK)
        rc = sw_recurrent_state_read(&job->workers[0], f, err);
    if (rc == SW_OK && job->stage.index > 0)
        rc = sw_carried_over_read(job->carried_over, f, table_of(job, 0), job->state, err);
    if (rc == SW_OK)
        rc = read_all(job, f, &file_meta, err);
    if (rc == SW_OK)
        rc = put_steps(job, f, &file_meta, err);

    if (rc == SW_OK) {
        sw_retention_read(job->retention, f);
        warn_differences(job, f, &file_meta);
    }

    sw_st_close(f);
    return rc;
}
