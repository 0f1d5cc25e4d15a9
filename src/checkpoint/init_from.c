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
#include "checkpoint/carried_over.h"
#include "checkpoint/checkpoint.h"
#include "exchange/table/table_file.h"
#include "net/net.h"
#include "recipe/job.h"
#include "worker/events.h"
#include "worker/worker.h"
#include <stdio.h>
#include <string.h>

enum { NAME = 256, SHOWN = 400 };

static const char state_prefix[] = "state.", previous[] = "previous";

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

/* ---- the list ---- */

/* Parses "a.weight^T -> b.weight". Returns false if the text is a file name. */
static bool read_rule(const char *text, struct sw_init_from_rule *r)
{
    const char *arrow = strstr(text, "->");
    if (!arrow)
        return false;

    const char *end = arrow, *to = arrow + 2;
    while (end > text && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    to += strspn(to, " \t");
    r->transposed = end - text > 2 && end[-2] == '^' && end[-1] == 'T';
    if (r->transposed)
        end -= 2;
    snprintf(r->from, sizeof r->from, "%.*s", (int)(end - text), text);
    snprintf(r->to, sizeof r->to, "%s", to);

    return true;
}

bool sw_init_from_is_file(const char *item)
{
    struct sw_init_from_rule ignored;
    return !read_rule(item, &ignored) && !sw_str_eq(item, previous);
}

static int stars(const char *pattern)
{
    int n = 0;
    for (; *pattern; pattern++)
        n += *pattern == '*';
    return n;
}

static int check_rule(const struct sw_checkpoint_job *job, const struct sw_init_from_rule *r,
                      struct sw_err *err)
{
    const struct sw_section *s = sw_recipe_find(job->recipe, "job", NULL);

    if (!*r->from || !*r->to)
        sw_recipe_error_item(job->recipe, s, "init_from", r->item,
                             "a rule is TENSOR -> PARAMETER, as in rbm1.weight -> enc1.weight");
    else if (stars(r->from) != stars(r->to) || stars(r->from) > 1)
        sw_recipe_error_item(job->recipe, s, "init_from", r->item,
                             "a * must appear once on each side");

    return sw_recipe_status(job->recipe, err);
}

static const char *local_path(const struct sw_checkpoint_job *job, const char *path)
{
    return job->find_file ? job->find_file(job->user, path) : path;
}

static int add_file(const struct sw_checkpoint_job *job, const char *path, int item,
                    struct sw_err *err)
{
    struct sw_init_from *init = job->takes;
    struct sw_init_from_file *file = &init->files[init->file_count];

    *file = (struct sw_init_from_file){.previous = sw_str_eq(path, previous),
                                       .path = sw_strdup(local_path(job, path)),
                                       .item = item,
                                       .first_rule = init->rule_count};
    if (!file->path)
        return sw_err_nomem(err, "init_from", strlen(path));

    init->file_count++;
    if (!file->previous || job->stage.index > 0)
        return SW_OK;

    sw_recipe_error_item(job->recipe, sw_recipe_find(job->recipe, "job", NULL), "init_from", item,
                         "there is no previous stage; a file of that name is ./previous");
    return sw_recipe_status(job->recipe, err);
}

static int add_item(const struct sw_checkpoint_job *job, const char *text, int item,
                    struct sw_err *err)
{
    struct sw_init_from *init = job->takes;
    struct sw_init_from_rule rule = {.item = item};
    if (!read_rule(text, &rule))
        return add_file(job, text, item, err);

    if (init->file_count == 0) {
        sw_recipe_error_item(job->recipe, sw_recipe_find(job->recipe, "job", NULL), "init_from",
                             item, "a rule must follow the file it applies to");
        return sw_recipe_status(job->recipe, err);
    }

    init->rules[init->rule_count++] = rule;
    init->files[init->file_count - 1].rule_count++;
    return check_rule(job, &rule, err);
}

/* The list of [job], and --init-from, apply to the first stage. */
static int read_list(const struct sw_checkpoint_job *job, const char *option, struct sw_err *err)
{
    const struct sw_section *s = sw_recipe_find(job->recipe, "job", NULL);
    const bool later = job->stage.index > 0;
    const bool own = later ? sw_section_by_stage(s, "init_from") : !option;
    const struct sw_strings list = job->conf->init_from;
    const bool resets = !later || sw_section_by_stage(s, "reset");
    const size_t count = (size_t)list.count + 2;

    job->takes->reset = resets ? &job->conf->reset : NULL;
    job->takes->files = sw_calloc(count, sizeof *job->takes->files);
    job->takes->rules = sw_calloc(count, sizeof *job->takes->rules);
    if (!job->takes->files || !job->takes->rules)
        return sw_err_nomem(err, "init_from", count);

    int rc = later ? add_file(job, previous, 0, err) : SW_OK;
    if (!later && option)
        rc = add_file(job, option, 0, err);
    for (int i = 0; own && i < list.count && rc == SW_OK; i++)
        rc = add_item(job, list.items[i], i, err);

    return rc;
}

void sw_init_from_fini(struct sw_init_from *init)
{
    for (int i = 0; i < init->file_count; i++)
        sw_free(init->files[i].path);
    sw_free(init->files);
    sw_free(init->rules);
    *init = (struct sw_init_from){0};
}

/* ---- targets ---- */

/* The table of the first server group. */
static struct sw_table *table_of(const struct sw_checkpoint_job *job)
{
    return job->workers[0].table;
}

/* Targets are parameters (one per shard), then buffers. */
static int target_count(const struct sw_checkpoint_job *job)
{
    return sw_table_count(table_of(job)) + job->state->buffers.count;
}

static const char *target_name(const struct sw_checkpoint_job *job, int i)
{
    int params = sw_table_count(table_of(job));
    return i < params ? sw_table_param(table_of(job), i)->name
                      : job->state->buffers.items[i - params].name;
}

static bool is_state(const struct sw_checkpoint_job *job, int i)
{
    return i >= sw_table_count(table_of(job));
}

/* The layer of a target: "bn1" of bn1.scale and of state.bn1.mean. *param: what follows. */
static void layer_of(const struct sw_checkpoint_job *job, int target, char layer[NAME],
                     const char **param)
{
    const char *name = target_name(job, target);
    if (is_state(job, target) && sw_str_starts(name, state_prefix))
        name += strlen(state_prefix);

    const char *dot = strrchr(name, '.');
    snprintf(layer, NAME, "%.*s", dot ? (int)(dot - name) : (int)strlen(name), name);
    *param = dot ? dot + 1 : "";
}

static bool is_reset_by(const struct sw_checkpoint_job *job, int target, const char *pattern)
{
    char layer[NAME];
    const char *param;

    layer_of(job, target, layer, &param);
    return sw_net_pattern_fits(pattern, layer, param);
}

static bool is_reset(const struct sw_checkpoint_job *job, int target)
{
    const struct sw_strings *reset = job->takes->reset;

    for (int i = 0; reset && i < reset->count; i++)
        if (is_reset_by(job, target, reset->items[i]))
            return true;

    return false;
}

/* Adds the layer of a target to a list of layers, once. */
static void add_layer(const struct sw_checkpoint_job *job, int target, struct sw_bytes *out)
{
    char layer[NAME], last[NAME + 2];
    const char *param;

    layer_of(job, target, layer, &param);
    snprintf(last, sizeof last, ", %.*s", NAME - 1, layer);
    if (!sw_str_eq(sw_bytes_text(out), layer) && !sw_str_ends(sw_bytes_text(out), last))
        sw_bytes_printf(out, "%s%s", out->length ? ", " : "", layer);
}

/* Finds the tensor that a rule assigns to a target; returns false if none. A pattern that renames
 * layers also renames their buffers. */
static bool apply(const struct sw_checkpoint_job *job, const struct sw_init_from_rule *r,
                  int target, char tensor[NAME])
{
    const char *name = target_name(job, target), *star = strchr(r->to, '*'), *prefix = "";
    if (!star) {
        snprintf(tensor, NAME, "%s", r->from);
        return sw_str_eq(r->to, name);
    }

    if (is_state(job, target) && !sw_str_starts(r->to, state_prefix)) {
        prefix = state_prefix;
        name += strlen(state_prefix);
    }

    size_t head = (size_t)(star - r->to), tail = strlen(star + 1), n = strlen(name);
    if (n < head + tail || strncmp(name, r->to, head) != 0 || !sw_str_ends(name, star + 1))
        return false;

    const char *from = strchr(r->from, '*');
    snprintf(tensor, NAME, "%s%.*s%.*s%s", prefix, (int)(from - r->from), r->from,
             (int)(n - head - tail), name + head, from + 1);

    return true;
}

/* Available tensors: those of a file, or of a stage that has not run yet. */
struct tensors {
    const struct sw_st_file *f;
    const struct sw_stage_names *names;
    const char *path; /* for messages */
};

static const struct sw_st_entry *find_tensor(const struct tensors *from, const char *name)
{
    return from->f ? sw_st_find(from->f, name) : sw_stage_names_find(from->names, name);
}

static const char *path_of(const struct sw_init_from_file *file)
{
    return file->previous ? "the previous stage" : file->path;
}

/* One tensor to load. */
struct take {
    const struct tensors *from;
    const struct sw_init_from_rule *rule; /* NULL: by its own name */
    const struct sw_st_entry *entry;
    int target;
    const char *tensor;
};
typedef int visit(const struct sw_checkpoint_job *job, const struct take *t, void *user,
                  struct sw_err *err);

static int for_each_match(const struct sw_checkpoint_job *job, const struct sw_init_from_file *file,
                          const struct tensors *from, visit *call, void *user, struct sw_err *err)
{
    const struct sw_init_from_rule *rules = job->takes->rules + file->first_rule;
    int rc = SW_OK, rounds = file->rule_count ? file->rule_count : 1;

    for (int r = 0; r < rounds && rc == SW_OK; r++)
        for (int i = 0; i < target_count(job) && rc == SW_OK; i++) {
            char tensor[NAME];
            struct take t = {.from = from, .target = i, .tensor = tensor};

            if (is_reset(job, i))
                continue;
            if (file->rule_count) {
                t.rule = &rules[r];
                if (!apply(job, t.rule, i, tensor))
                    continue;
            } else {
                snprintf(tensor, sizeof tensor, "%s", target_name(job, i));
            }

            /* check_found has checked rules without a pattern. */
            t.entry = find_tensor(from, tensor);
            if (t.entry)
                rc = call(job, &t, user, err);
        }

    return rc;
}

/* ---- checking ---- */

static struct sw_table_source source_of(const struct sw_checkpoint_job *job, const struct take *t,
                                        struct sw_stream *stream)
{
    return (struct sw_table_source){.table = table_of(job),
                                    .stream = stream,
                                    .param = t->target,
                                    .slot = -1,
                                    .transposed = t->rule && t->rule->transposed};
}

/* What checking the tensors of a file found. */
struct checking {
    int found;
    struct sw_bytes misfits; /* layers with another shape than in the file */
    struct sw_err first;     /* the first of them */
};

static int check_one(const struct sw_checkpoint_job *job, const struct take *t, void *user,
                     struct sw_err *err)
{
    const struct sw_section *s = sw_recipe_find(job->recipe, "job", NULL);
    struct checking *checking = user;
    int rc;

    checking->found++;

    if (is_state(job, t->target)) {
        rc = sw_buffer_check(&job->state->buffers.items[t->target - sw_table_count(table_of(job))],
                             t->tensor, t->entry, t->from->path, err);
    } else {
        struct sw_table_source to = source_of(job, t, NULL);
        rc = sw_table_check_entry(&to, t->tensor, t->entry, t->from->path, err);
    }

    if (rc == SW_OK)
        return rc;

    if (!t->rule) {
        if (rc != SW_ERR_INVALID)
            return rc;
        if (!checking->misfits.length)
            checking->first = *err;
        add_layer(job, t->target, &checking->misfits);
        return SW_OK;
    }

    sw_recipe_error_item(job->recipe, s, "init_from", t->rule->item, "%s", err->text);
    return sw_recipe_status(job->recipe, err);
}

static int target_of(const struct sw_checkpoint_job *job, const char *name)
{
    for (int i = 0; i < target_count(job); i++)
        if (sw_str_eq(target_name(job, i), name))
            return i;
    return -1;
}

/* Adds a "did you mean" hint from the names of tensors, or of the net's targets if from is NULL. */
static void hint(const struct sw_checkpoint_job *job, const struct tensors *from, const char *word)
{
    size_t count = !from     ? (size_t)target_count(job)
                   : from->f ? sw_st_count(from->f)
                             : (size_t)from->names->count;
    const char **names = sw_calloc(count + 1, sizeof *names);

    for (size_t i = 0; names && i < count; i++)
        names[i] = !from     ? target_name(job, (int)i)
                   : from->f ? sw_st_entry_at(from->f, i)->name
                             : from->names->items[i].name;

    if (names)
        sw_recipe_hint_near(job->recipe, word, names, (int)count, NULL);
    sw_free(names);
}

/* Adds a "did you mean" hint from the layers with parameters. */
static void hint_layers(const struct sw_checkpoint_job *job, const char *word)
{
    const int count = target_count(job);
    char(*layers)[NAME] = sw_calloc((size_t)count + 1, sizeof *layers);
    const char **names = sw_calloc((size_t)count + 1, sizeof *names), *param;
    int n = 0;

    for (int i = 0; layers && names && i < count; i++) {
        layer_of(job, i, layers[n], &param);
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
                          const struct tensors *from)
{
    const struct sw_section *s = sw_recipe_find(job->recipe, "job", NULL);
    char tensor[NAME], first[NAME] = "";

    for (int i = 0; i < target_count(job); i++) {
        if (!apply(job, r, i, tensor))
            continue;
        if (find_tensor(from, tensor))
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
                       const struct tensors *from, struct sw_err *err)
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
        } else if (!find_tensor(from, r->from)) {
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
                         const struct tensors *from, struct sw_err *err)
{
    struct checking c = {0};
    int rc = check_found(job, file, from, err);

    if (rc == SW_OK)
        rc = for_each_match(job, file, from, check_one, &c, err);
    if (rc == SW_OK && c.misfits.length)
        rc = refuse_misfits(&c, err);
    sw_bytes_fini(&c.misfits);

    /* A stage may have a different net. */
    if (rc == SW_OK && c.found == 0 && !file->previous && sw_table_count(table_of(job)) > 0)
        rc = sw_err_set(err, SW_ERR_INVALID, "%s: none of its tensors is a parameter of this net",
                        file->path);

    return rc;
}

static int open_file(const struct sw_checkpoint_job *job, const struct sw_init_from_file *file,
                     struct tensors *from, struct sw_st_file **f, struct sw_err *err)
{
    int rc = sw_checkpoint_open(file->previous ? job->resumed : file->path, f, err);
    *from = (struct tensors){.f = *f, .path = path_of(file)};
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

static int check_file(const struct sw_checkpoint_job *job, const struct sw_init_from_file *file,
                      const struct sw_stage_names *earlier, struct sw_err *err)
{
    struct tensors from = {.names = earlier, .path = path_of(file)};
    struct sw_st_file *f = NULL;

    if (file->previous && !job->stage.begins)
        return earlier ? check_tensors(job, file, &from, err) : SW_OK;

    int rc = open_file(job, file, &from, &f, err);
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
        while (target < target_count(job) && !is_reset_by(job, target, reset->items[i]))
            target++;
        if (target < target_count(job))
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
    int rc = read_list(job, option, err);
    if (rc == SW_OK)
        rc = check_reset(job, err);
    for (int i = 0; i < job->takes->file_count && rc == SW_OK; i++)
        rc = check_file(job, &job->takes->files[i], earlier, err);
    return rc;
}

/* ---- loading ---- */

struct taking {
    struct sw_stream *stream;
    bool *has;             /* owned [targets]: set from some file */
    bool *used;            /* owned [tensors of the current file] */
    int count;             /* parameters set from the current file */
    struct sw_bytes line;  /* of the report, about the current file */
    struct sw_bytes names; /* "enc1.weight from rbm1.weight" */
};

/* Adds "A BETWEEN B TAIL" to a list of limited length. */
static void list(struct sw_bytes *out, const char *a, const char *between, const char *b,
                 const char *tail)
{
    if (out->length > SHOWN) {
        if (!sw_str_ends(out->text, "..."))
            sw_bytes_add(out, ", ...");
        return;
    }

    sw_bytes_add(out, out->length ? ", " : "");
    sw_bytes_add(out, a);
    sw_bytes_add(out, between);
    sw_bytes_add(out, b);
    sw_bytes_add(out, tail);
}

static int take_one(const struct sw_checkpoint_job *job, const struct take *t, void *user,
                    struct sw_err *err)
{
    struct taking *taking = user;
    const struct sw_st_file *f = t->from->f;
    int params = sw_table_count(table_of(job)), rc;

    for (size_t i = 0; i < sw_st_count(f); i++)
        taking->used[i] |= sw_st_entry_at(f, i) == t->entry;

    if (is_state(job, t->target)) {
        rc = sw_buffer_read(&job->state->buffers.items[t->target - params], t->tensor, f,
                            t->from->path, err);
    } else {
        struct sw_table_source to = source_of(job, t, taking->stream);
        const struct sw_param *p = sw_table_param(table_of(job), t->target);

        rc = sw_table_read_tensor(&to, t->tensor, f, err);
        if (rc == SW_OK)
            rc = sw_checkpoint_check_finite(taking->stream, p->value, &p->layout, p->name,
                                            t->from->path, err);

        /* Shards of one parameter count once. */
        bool first = p->part_first == 0;
        taking->count += first;

        if (t->rule && first)
            list(&taking->names, target_name(job, t->target), " from ", t->tensor,
                 t->rule->transposed ? "^T" : "");
    }

    taking->has[t->target] = true;
    return rc;
}

static int param_count(const struct sw_checkpoint_job *job)
{
    int n = 0;
    for (int i = 0; i < sw_table_count(table_of(job)); i++)
        n += sw_table_param(table_of(job), i)->part_first == 0;
    return n;
}

/* Lists unused tensors, except updater state. */
static void list_unused(const struct sw_st_file *f, const bool *used, struct sw_bytes *out)
{
    for (size_t i = 0; i < sw_st_count(f); i++) {
        const char *name = sw_st_entry_at(f, i)->name;
        if (!used[i] && !sw_str_starts(name, "updater."))
            list(out, name, "", "", "");
    }
}

static void report_line(const struct sw_checkpoint_job *job, struct taking *t)
{
    if (t->line.length)
        sw_events_report(job->events, SW_LOG_INFO, job->workers[0].role, "%s",
                         sw_bytes_text(&t->line));
    sw_bytes_clear(&t->line);
}

static int take_file(const struct sw_checkpoint_job *job, const struct sw_init_from_file *file,
                     struct taking *t, struct sw_err *err)
{
    struct sw_st_file *f = NULL;
    struct sw_bytes unused = {0};
    struct tensors from;

    t->count = 0;
    sw_bytes_clear(&t->names);

    int rc = open_file(job, file, &from, &f, err);
    if (rc == SW_OK) {
        t->used = sw_calloc(sw_st_count(f) + 1, sizeof *t->used);
        rc = t->used ? for_each_match(job, file, &from, take_one, t, err)
                     : sw_err_nomem(err, "init_from", sw_st_count(f));
    }

    if (rc == SW_OK && file->previous)
        rc = sw_carried_over_read(job->carried_over, f, table_of(job), job->state, err);

    /* Do not report a stage with an entirely different net. */
    if (rc == SW_OK && (t->count > 0 || !file->previous || file->rule_count)) {
        if (!file->previous) /* tensors of a previous stage are carried over */
            list_unused(f, t->used, &unused);
        report_line(job, t);
        sw_bytes_printf(&t->line, "%d of %d parameters start from %s%s%s%s%s", t->count,
                        param_count(job), from.path, t->names.length ? ": " : "",
                        sw_bytes_text(&t->names), unused.length ? "; unused tensors: " : "",
                        sw_bytes_text(&unused));
    }

    sw_free(t->used);
    t->used = NULL;
    sw_bytes_fini(&unused);
    sw_st_close(f);

    return rc;
}

int sw_init_from_load(const struct sw_checkpoint_job *job, struct sw_err *err)
{
    struct taking t = {.stream = sw_worker_host_stream(&job->workers[0])};
    struct sw_bytes own = {0}, frozen_names = {0}, reset = {0};
    int rc = SW_OK, params = sw_table_count(table_of(job));

    if (job->takes->file_count == 0) {
        if (job->takes->reset && job->takes->reset->count)
            sw_events_report(job->events, SW_LOG_WARN, job->workers[0].role,
                             "reset has no effect: all parameters start from initial values; use "
                             "--init-from RUN or init_from to start from trained ones");
        return SW_OK;
    }

    t.has = sw_calloc((size_t)target_count(job) + 1, sizeof *t.has);
    if (!t.has)
        return sw_err_nomem(err, "init_from", (size_t)target_count(job));

    for (int i = 0; i < job->takes->file_count && rc == SW_OK; i++)
        rc = take_file(job, &job->takes->files[i], &t, err);

    for (int i = 0; i < params && rc == SW_OK; i++) {
        const struct sw_param *p = sw_table_param(table_of(job), i);
        if (is_reset(job, i))
            add_layer(job, i, &reset);
        else if (!t.has[i] && p->part_first == 0)
            list(p->frozen ? &frozen_names : &own, p->name, "", "", "");
    }

    if (rc == SW_OK && reset.length)
        sw_bytes_printf(&t.line, "%sreset: %s", t.line.length ? "; " : "", sw_bytes_text(&reset));
    if (rc == SW_OK && own.length)
        sw_bytes_printf(&t.line, "%swith the initial values of the recipe: %s",
                        t.line.length ? "; " : "", sw_bytes_text(&own));
    if (rc == SW_OK)
        report_line(job, &t);

    if (rc == SW_OK && frozen_names.length)
        sw_events_report(job->events, SW_LOG_WARN, job->workers[0].role,
                         "frozen with the initial values of the recipe, although no file provides "
                         "trained values: %s; is init_from the right file?",
                         sw_bytes_text(&frozen_names));

    sw_bytes_fini(&frozen_names);
    sw_bytes_fini(&own);
    sw_bytes_fini(&reset);
    sw_bytes_fini(&t.line);
    sw_bytes_fini(&t.names);
    sw_free(t.has);

    return rc;
}
