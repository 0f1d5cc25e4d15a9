/* Computes vectors by a trained net. The contract is in cli/search/net.h. */
#include "cli/search/net.h"
#include "infer/predict.h"
#include "infer/section.h"

#include "base/os.h"
#include "base/str.h"
#include "net/net.h"
#include "recipe/recipe.h"
#include <string.h>

int sw_search_net_check(const char *verb, const struct sw_search_net_options *o,
                        const struct sw_cli_common *common)
{
    const char *option = o->weights           ? "--weights"
                         : o->split           ? "--split"
                         : common->sets.count ? "--set"
                         : common->device     ? "--device"
                         : common->db         ? "--db"
                                              : NULL;

    if (o->recipe || !option)
        return SW_EXIT_DONE;
    return sw_cli_usage(verb, "%s needs --recipe", option);
}

int sw_search_net_check_source(const char *verb, const struct sw_search_net_options *o,
                               const struct sw_search_net_source *from)
{
    const bool inputs = from->inputs && from->inputs->count;
    const bool texts = from->texts && from->texts->count;
    const char *first = inputs ? "--input" : texts ? "--text" : NULL;

    if (first && !o->recipe)
        return sw_cli_usage(verb, "%s needs --recipe", first);
    if (inputs && texts)
        return sw_cli_usage(verb, "--input and --text are mutually exclusive");
    if (first && from->file_count)
        return sw_cli_usage(verb, "%s and files are mutually exclusive", first);
    if (o->split && !sw_search_net_uses_section(from))
        return sw_cli_usage(verb, "--split and %s are mutually exclusive", first ? first : "files");
    return SW_EXIT_DONE;
}

/* ---- The net ----------------------------------------------------------------------------------
 */

int sw_search_net_open(struct sw_search_net *n, const struct sw_search_net_options *o,
                       const struct sw_cli_common *common, struct sw_err *err)
{
    n->split = o->split;
    n->common = *common;
    n->args[0] = (char *)(uintptr_t)o->recipe;
    n->common.args = n->args;
    n->common.arg_count = 1;
    n->job = sw_trainer_job_of(&n->common);
    n->job.one_worker = true;
    n->job.predict = true;

    int rc = sw_trainer_init(&n->trainer, &n->common, err);
    if (rc == SW_OK)
        rc = sw_trainer_open_with(&n->trainer, &n->job, o->weights, &n->common, &n->weights, err);
    if (rc == SW_OK)
        rc = sw_job_check_split(sw_job_recipe(n->trainer.job), n->split, err);
    return rc;
}

void sw_search_net_close(struct sw_search_net *n)
{
    sw_free(n->pair[0]);
    sw_free(n->pair[1]);
    sw_search_lines_fini(&n->class_names);
    sw_weights_fini(&n->weights);
    sw_trainer_fini(&n->trainer);
    *n = (struct sw_search_net){0};
}

int sw_search_net_refuse(const struct sw_search_net *n, int rc, const struct sw_err *err)
{
    return n->trainer.job ? sw_cli_refuse(sw_job_recipe(n->trainer.job), rc, err)
                          : sw_trainer_refuse(&n->trainer, rc, err);
}

/* A job that can compute something. */
static int renew(struct sw_search_net *n, struct sw_err *err)
{
    int rc = n->used ? sw_trainer_reopen(&n->trainer, &n->job, err) : SW_OK;

    n->used = true;
    return rc;
}

/* ---- The pair of layers -----------------------------------------------------------------------
 */

/* The only field on which a layer depends; NULL: it is an input itself, or there are several. */
static const char *field_of(struct sw_recipe *recipe, const char *layer)
{
    const struct sw_section *s = sw_recipe_find(recipe, "layer", layer);
    const char *names[SW_MAX_FIELDS];
    struct sw_err ignored;
    int count = 0;

    if (!s || sw_str_eq(s->type[0]->name, "input"))
        return NULL;

    int rc = sw_net_fields(recipe, false, layer, names, SW_MAX_FIELDS, &count, &ignored);
    return rc == SW_OK && count == 1 ? names[0] : NULL;
}

int sw_search_net_pair(struct sw_search_net *n, struct sw_err *err)
{
    /* Its owner is the job of this object. */
    struct sw_recipe *recipe = (struct sw_recipe *)(uintptr_t)sw_job_recipe(n->trainer.job);

    const char *layer[2] = {NULL, NULL};

    for (const struct sw_section *s = sw_recipe_first(recipe, "layer"); s; s = sw_section_next(s)) {
        const struct sw_layer_type *type = (const void *)s->type[0];
        const struct sw_layer_conf *conf = s->common;
        if (type->role != SW_ROLE_LOSS || conf->src.count != 2)
            continue;

        const char *const *src = (const char *const *)conf->src.items;
        const char *a = field_of(recipe, src[0]), *b = field_of(recipe, src[1]);
        if (!a || !b || sw_str_eq(a, b))
            continue;

        const bool swap = sw_str_eq(b, "image");
        layer[0] = src[swap];
        layer[1] = src[!swap];
    }

    if (!layer[0])
        return sw_err_set(err, SW_ERR_INVALID,
                          "no loss of the recipe compares layers of two data fields: name layers "
                          "with --images=LAYER and --texts=LAYER");

    /* The names end with the job. */
    for (int i = 0; i < 2; i++) {
        sw_free(n->pair[i]);
        n->pair[i] = sw_strdup(layer[i]);
        if (!n->pair[i])
            return sw_err_nomem(err, "the name of a layer", strlen(layer[i]) + 1);
    }

    return SW_OK;
}

/* ---- Vectors ----------------------------------------------------------------------------------
 */

struct rows {
    struct sw_search_array *out;
    struct sw_search_lines *names; /* of records; NULL: not wanted */
    struct sw_search_lines *class_names;
    int64_t width, capacity, count;
};

static int take_class_names(struct rows *r, const struct sw_lexicon *from, struct sw_err *err)
{
    int rc = SW_OK;

    for (int32_t c = r->class_names->count; rc == SW_OK && c < from->count; c++) {
        size_t n = 0;
        const char *name = sw_lexicon_word(from, c, &n);
        rc = sw_search_lines_add(r->class_names, name, n, err);
    }

    return rc;
}

static int take_names(struct rows *r, const struct sw_predict_info *info, struct sw_err *err)
{
    struct sw_bytes name = {0};
    int rc = SW_OK;

    for (int64_t i = 0; rc == SW_OK && r->names && info->files && i < info->rows; i++) {
        sw_bytes_clear(&name);
        sw_inputs_name(info->files, i, &name);
        rc = sw_search_lines_add(r->names, sw_bytes_text(&name), name.length, err);
    }

    sw_bytes_fini(&name);
    return rc;
}

static int begin(void *user, const struct sw_predict_info *info, struct sw_err *err)
{
    struct rows *r = user;

    r->width = 1;
    for (int i = 0; i < info->ndim; i++)
        r->width *= info->dim[i];
    if (r->width > SW_SEARCH_MOST_DIMS)
        return sw_err_set(err, SW_ERR_INVALID, "rows of %lld numbers, expected at most %d",
                          (long long)r->width, SW_SEARCH_MOST_DIMS);

    r->capacity = info->rows;
    r->out->owned = sw_realloc_array(NULL, (size_t)(info->rows * r->width), sizeof(float));
    if (!r->out->owned)
        return sw_err_nomem(err, "vectors", (size_t)(info->rows * r->width) * sizeof(float));

    int rc = take_class_names(r, info->class_names, err);
    return rc == SW_OK ? take_names(r, info, err) : rc;
}

static int append(void *user, int64_t count, const float *values, struct sw_err *err)
{
    struct rows *r = user;

    if (count > r->capacity - r->count)
        return sw_err_set(err, SW_ERR_INVALID, "more rows than announced");

    memcpy((float *)r->out->owned + r->count * r->width, values,
           (size_t)(count * r->width) * sizeof *values);
    r->count += count;
    return SW_OK;
}

static void report(void *user, const char *text)
{
    sw_cli_message("%s", text);
}

int sw_search_net_vectors(struct sw_search_net *n, const char *layer,
                          const struct sw_search_net_source *from, enum sw_metric m,
                          struct sw_search_array *out, struct sw_search_lines *names,
                          struct sw_err *err)
{
    static const struct sw_search_net_source section = {0};
    static const struct sw_cli_list none = {0};

    from = from ? from : &section;

    const struct sw_cli_list *texts = from->texts ? from->texts : &none;
    struct sw_cli_field_inputs inputs = {0};
    struct rows rows = {.out = out, .names = names, .class_names = &n->class_names};
    const struct sw_predict_sink sink = {begin, append, &rows};
    struct sw_predict_args args = {.weights = n->weights.path,
                                   .layer = layer,
                                   .split = sw_search_net_uses_section(from) ? n->split : NULL,
                                   .files = from->files,
                                   .file_count = from->file_count,
                                   .texts = texts->items,
                                   .text_count = texts->count,
                                   .report = report};
    struct sw_predict_info info;
    char what[128];

    *out = (struct sw_search_array){0};

    int rc = sw_cli_field_inputs_split(&inputs, from->inputs ? from->inputs : &none, err);
    args.inputs = inputs.input;
    args.input_count = inputs.count;
    if (rc == SW_OK)
        rc = renew(n, err);
    if (rc == SW_OK)
        rc = sw_job_predict(n->trainer.job, &args, &sink, &info, err);
    if (rc == SW_OK) {
        snprintf(what, sizeof what, "layer %s", info.layer);
        out->set.vectors = (struct sw_vectors){out->owned, rows.count, (int)rows.width};
        rc = sw_vectors_check(&out->set.vectors, m, what, err);
    }

    sw_cli_field_inputs_fini(&inputs);
    if (rc != SW_OK)
        sw_search_array_fini(out);
    return rc;
}

int sw_search_net_labels(struct sw_search_net *n, struct sw_search_labels *out, struct sw_err *err)
{
    struct sw_section_labels read = {0};

    *out = (struct sw_search_labels){0};

    int rc = renew(n, err);
    if (rc == SW_OK)
        rc = sw_job_read_labels(n->trainer.job, n->weights.path, n->split, &read, err);
    if (rc == SW_OK) {
        rc = sw_search_labels_of(out, "field label", read.values, read.rows, read.columns, err);
        read.values = NULL;
    }

    sw_section_labels_fini(&read);
    return rc;
}
