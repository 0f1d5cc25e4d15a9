/* Reads the list of init_from: files, `previous`, and rules behind them. The contract is in
 * checkpoint/init_from.h, whose other files check and load what it names. */
#include "base/os.h"
#include "base/str.h"
#include "checkpoint/init_match.h"
#include "recipe/job.h"
#include <stdio.h>
#include <string.h>

static const char previous[] = "previous";

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

/* The list of [job], and --init-from, sw_init_apply to the first stage. */
int sw_init_from_read_list(const struct sw_checkpoint_job *job, const char *option,
                           struct sw_err *err)
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
