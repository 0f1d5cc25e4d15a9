/* Initial values from files: `init_from` of [job], a list of files, each followed by its rules:
 *     init_from = rbm1.safetensors, rbm1.weight -> enc1.weight, rbm1.weight^T -> dec1.weight
 * A file without rules sets every parameter (and buffer) of the same name; one with
 * rules sets only what they name. `*` matches the same text on both sides. A rule
 * must match a tensor and a parameter, one with a `*` at least one. ^T transposes a matrix. Later
 * values replace earlier ones. `--init-from FILE` replaces the whole list. Parameters that `reset`
 * names are left out: they start from their initial values.
 *
 * A later stage starts with all tensors of the same name from the previous stages; its own
 * init_from comes after that, and `previous` there means the result of the previous stage.
 *
 * Files and rules are checked when the job is opened, and values are read when the run begins. */
#include "checkpoint/init_from.h"
#include "base/os.h"
#include "base/str.h"
#include "checkpoint/init_match.h"
#include "net/net.h"
#include "recipe/job.h"
#include "worker/worker.h"
#include <string.h>

/* ---- tensors of earlier stages ---- */

void sw_stage_names_fini(struct sw_stage_names *n)
{
    for (int i = 0; i < n->count; i++)
        sw_free((void *)(uintptr_t)n->items[i].name);
    sw_free(n->items);
    *n = (struct sw_stage_names){0};
}

const struct sw_st_entry *sw_stage_names_find(const struct sw_stage_names *n, const char *name)
{
    for (int i = 0; i < n->count; i++)
        if (sw_str_eq(n->items[i].name, name))
            return &n->items[i];
    return NULL;
}

/* ---- checking ---- */

/* What checking the tensors of a file found. */
struct checking {
    int found;
    struct sw_bytes misfits; /* layers with another shape than in the file */
    struct sw_err first;     /* the first of them */
};

static int check_one(const struct sw_checkpoint_job *job, const struct sw_init_take *t, void *user,
                     struct sw_err *err)
{
    const struct sw_section *s = sw_recipe_find(job->recipe, "job", NULL);
    struct checking *checking = user;
    int rc;

    checking->found++;

    if (sw_init_target_is_buffer(job, t->target)) {
        rc = sw_buffer_check(
            &job->state->buffers.items[t->target - sw_table_count(sw_init_table(job))], t->tensor,
            t->entry, t->from->path, err);
    } else {
        struct sw_table_source to = sw_init_source(job, t, NULL);
        rc = sw_table_check_entry(&to, t->tensor, t->entry, t->from->path, err);
    }

    if (rc == SW_OK)
        return rc;

    if (!t->rule) {
        if (rc != SW_ERR_INVALID)
            return rc;
        if (!checking->misfits.length)
            checking->first = *err;
        sw_init_add_layer(job, t->target, &checking->misfits);
        return SW_OK;
    }

    sw_recipe_error_item(job->recipe, s, "init_from", t->rule->item, "%s", err->text);
    return sw_recipe_status(job->recipe, err);
}

static int target_of(const struct sw_checkpoint_job *job, const char *name)
{
    for (int i = 0; i < sw_init_target_count(job); i++)
        if (sw_str_eq(sw_init_target_name(job, i), name))
            return i;
    return -1;
}

/* Adds a "did you mean" hint from the names of tensors, or of the net's targets if from is NULL. */
static void hint(const struct sw_checkpoint_job *job, const struct sw_init_tensors *from,
                 const char *word)
{
    size_t count = !from     ? (size_t)sw_init_target_count(job)
                   : from->f ? sw_st_count(from->f)
                             : (size_t)from->names->count;
    const char **names = sw_calloc(count + 1, sizeof *names);

    for (size_t i = 0; names && i < count; i++)
        names[i] = !from     ? sw_init_target_name(job, (int)i)
                   : from->f ? sw_st_entry_at(from->f, i)->name
                             : from->names->items[i].name;

    if (names)
        sw_recipe_hint_near(job->recipe, word, names, (int)count, NULL);
    sw_free(names);
}

/* Adds a "did you mean" hint from the layers with parameters. */
static void hint_layers(const struct sw_checkpoint_job *job, const char *word)
{
    const int count = sw_init_target_count(job);
    char(*layers)[SW_INIT_NAME] = sw_calloc((size_t)count + 1, sizeof *layers);
    const char **names = sw_calloc((size_t)count + 1, sizeof *names), *param;
    int n = 0;

    for (int i = 0; layers && names && i < count; i++) {
        sw_init_target_layer(job, i, layers[n], &param);
        if (n == 0 || !sw_str_eq(layers[n], layers[n - 1])) {
            names[n] = layers[n];
            n++;
        }
    }

    if (layers && names)
        sw_recipe_hint_near(job->recipe, word, names, n, "the net has");
    sw_free(names);
    sw_free(layers);
}

/* A rule with a `*` must match something. */
static void check_pattern(const struct sw_checkpoint_job *job, const struct sw_init_from_rule *r,
                          const struct sw_init_tensors *from)
{
    const struct sw_section *s = sw_recipe_find(job->recipe, "job", NULL);
    char tensor[SW_INIT_NAME], first[SW_INIT_NAME] = "";

    for (int i = 0; i < sw_init_target_count(job); i++) {
        if (!sw_init_apply(job, r, i, tensor))
            continue;
        if (sw_init_find_tensor(from, tensor))
            return;

        if (!*first)
            snprintf(first, sizeof first, "%s", tensor);
    }

    if (*first)
        sw_recipe_error_item(job->recipe, s, "init_from", r->item,
                             "%s has no tensor '%s', nor any other that the parameters of '%s' "
                             "would be taken from",
                             from->path, first, r->to);
    else
        sw_recipe_error_item(job->recipe, s, "init_from", r->item,
                             "the net has no parameter that matches '%s'", r->to);
}

/* A rule that names one parameter or one tensor must match it. */
static int check_found(const struct sw_checkpoint_job *job, const struct sw_init_from_file *file,
                       const struct sw_init_tensors *from, struct sw_err *err)
{
    const struct sw_section *s = sw_recipe_find(job->recipe, "job", NULL);

    for (int i = 0; i < file->rule_count; i++) {
        const struct sw_init_from_rule *r = &job->takes->rules[file->first_rule + i];

        if (strchr(r->to, '*'))
            check_pattern(job, r, from);
        else if (target_of(job, r->to) < 0) {
            sw_recipe_error_item(job->recipe, s, "init_from", r->item,
                                 "the net has no parameter '%s'", r->to);
            hint(job, NULL, r->to);
        } else if (!sw_init_find_tensor(from, r->from)) {
            sw_recipe_error_item(job->recipe, s, "init_from", r->item, "%s has no tensor '%s'",
                                 from->path, r->from);
            hint(job, from, r->from);
        }
    }

    return sw_recipe_status(job->recipe, err);
}

/* Layers of another shape, as for other classes, can start from initial values. */
static int refuse_misfits(const struct checking *c, struct sw_err *err)
{
    const char *layers = sw_bytes_text(&c->misfits);
    struct sw_bytes options = {0};

    for (const char *at = layers; *at; at += strspn(at, ", ")) {
        int n = (int)strcspn(at, ",");
        sw_bytes_printf(&options, " --reset %.*s", n, at);
        at += n;
    }

    int rc = sw_err_set(err, SW_ERR_INVALID,
                        "%s; use%s (or reset = %s in [job]) to start from initial values there",
                        c->first.text, sw_bytes_text(&options), layers);
    sw_bytes_fini(&options);
    return rc;
}

static int check_tensors(const struct sw_checkpoint_job *job, const struct sw_init_from_file *file,
                         const struct sw_init_tensors *from, struct sw_err *err)
{
    struct checking c = {0};
    int rc = check_found(job, file, from, err);

    if (rc == SW_OK)
        rc = sw_init_for_each(job, file, from, check_one, &c, err);
    if (rc == SW_OK && c.misfits.length)
        rc = refuse_misfits(&c, err);
    sw_bytes_fini(&c.misfits);

    /* A stage may have a different net. */
    if (rc == SW_OK && c.found == 0 && !file->previous && sw_table_count(sw_init_table(job)) > 0)
        rc = sw_err_set(err, SW_ERR_INVALID, "%s: none of its tensors is a parameter of this net",
                        file->path);

    return rc;
}

static int check_file(const struct sw_checkpoint_job *job, const struct sw_init_from_file *file,
                      const struct sw_stage_names *earlier, struct sw_err *err)
{
    struct sw_init_tensors from = {.names = earlier, .path = sw_init_path(file)};
    struct sw_st_file *f = NULL;

    if (file->previous && !job->stage.begins)
        return earlier ? check_tensors(job, file, &from, err) : SW_OK;

    int rc = sw_init_open(job, file, &from, &f, err);
    if (rc == SW_OK)
        rc = check_tensors(job, file, &from, err);
    sw_st_close(f);

    return rc;
}

/* Every pattern of `reset` must match a parameter. */
static int check_reset(const struct sw_checkpoint_job *job, struct sw_err *err)
{
    const struct sw_strings *reset = job->takes->reset;

    for (int i = 0; reset && i < reset->count; i++) {
        int target = 0;
        while (target < sw_init_target_count(job) &&
               !sw_init_is_reset_by(job, target, reset->items[i]))
            target++;
        if (target < sw_init_target_count(job))
            continue;

        sw_recipe_error_item(job->recipe, sw_recipe_find(job->recipe, "job", NULL), "reset", i,
                             "no layer with parameters matches '%s'", reset->items[i]);
        hint_layers(job, reset->items[i]);
    }

    return sw_recipe_status(job->recipe, err);
}

int sw_init_from_check(const struct sw_checkpoint_job *job, const char *option,
                       const struct sw_stage_names *earlier, struct sw_err *err)
{
    int rc = sw_init_from_read_list(job, option, err);
    if (rc == SW_OK)
        rc = check_reset(job, err);
    for (int i = 0; i < job->takes->file_count && rc == SW_OK; i++)
        rc = check_file(job, &job->takes->files[i], earlier, err);
    return rc;
}
