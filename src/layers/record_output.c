/* record_output: writes the rows of an evaluation as a shard (data/shard.h), which another net can
 * read with `format = shard`: a record per sample in the order of the data, a field per source. A
 * field named label with one integer per row is the class. */
#include "base/os.h"
#include "base/str.h"
#include "data/shard.h"
#include "layers/share/output.h"
#include <stdio.h>

struct conf {
    const char *path;
    struct sw_strings fields;
};

struct state {
    struct sw_shard_writer writer;
    struct sw_shard_field field[SW_LAYER_SRCS];
    int64_t classes; /* largest label + 1 */
};

static const struct sw_opt opts[] = {
    SW_OUTPUT_PATH_OPT(struct conf, path),
    SW_OPT(STRINGS, struct conf, fields, "names of the sources in the file, such as image, label",
           .required = true),
    {0},
};

static int describe(const struct sw_layer *l, int k, struct sw_shard_field *f, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct sw_desc *d = &l->src[k]->desc;
    const char *name = c->fields.items[k];
    char text[128];

    if (d->ndim - 1 > SW_SHARD_MAX_DIMS)
        return sw_err_set(err, SW_ERR_INVALID,
                          "source %d is %s: a record has at most %d dimensions", k + 1,
                          sw_desc_text(d, text), SW_SHARD_MAX_DIMS);

    *f = (struct sw_shard_field){.kind = SW_SHARD_ARRAY, .dtype = d->dtype, .ndim = d->ndim - 1};
    for (int i = 0; i < f->ndim; i++)
        f->dim[i] = d->dim[i + 1];
    if (snprintf(f->name, sizeof f->name, "%s", name) >= (int)sizeof f->name)
        return sw_err_set(err, SW_ERR_INVALID, "fields: '%s' has more than %d characters", name,
                          SW_SHARD_NAME_BYTES - 1);

    return SW_OK;
}

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct conf *c = l->conf;
    struct state *st = l->state;

    st->writer.file.fd = -1;
    if (c->fields.count != l->src_count)
        return sw_err_set(err, SW_ERR_INVALID, "fields: %d names for %d sources", c->fields.count,
                          l->src_count);

    for (int k = 0; k < l->src_count; k++) {
        int rc = describe(l, k, &st->field[k], err);
        if (rc != SW_OK)
            return rc;
    }

    sw_output_finish_setup(l);
    return SW_OK;
}

static void abandon(struct sw_layer *l)
{
    struct state *st = l->state;
    sw_shard_abandon(&st->writer);
}

static int begin(struct sw_layer *l, const char *folder, struct sw_err *err)
{
    const struct conf *c = l->conf;
    struct state *st = l->state;
    char *path = sw_output_path(folder, c->path);
    char *origin = sw_format("layer %s", l->name);
    int rc = path && origin ? SW_OK : sw_err_nomem(err, "a path", 0);

    st->classes = 0;
    if (rc != SW_OK)
        goto out;

    rc = sw_shard_begin(&st->writer, path, st->field, l->src_count, origin, err);

out:
    sw_free(path);
    sw_free(origin);

    return rc;
}

static int append(struct sw_layer *l, const void *const *src, int64_t row, struct sw_err *err)
{
    struct state *st = l->state;
    struct sw_shard_value value[SW_LAYER_SRCS] = {{0}};

    for (int k = 0; k < l->src_count; k++) {
        size_t bytes = sw_shard_field_bytes(&st->field[k]);

        value[k].data = (const char *)src[k] + (size_t)row * bytes;
        value[k].bytes = bytes;

        int64_t label = sw_shard_is_label(&st->field[k]) ? *(const int32_t *)value[k].data : -1;
        st->classes = label >= st->classes ? label + 1 : st->classes;
    }

    return sw_shard_append(&st->writer, value, err);
}

static int rows(struct sw_layer *l, const void *const *src, int64_t count, struct sw_err *err)
{
    for (int64_t r = 0; r < count; r++) {
        int rc = append(l, src, r, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

static int commit(struct sw_layer *l, struct sw_err *err)
{
    struct state *st = l->state;
    return sw_shard_commit(&st->writer, st->classes, err);
}

static const struct sw_layer_output output = {
    .begin = begin, .rows = rows, .commit = commit, .abandon = abandon};

static const struct sw_layer_example examples[] = {
    {.recipe = "path = rows.shard\nfields = image, label\n",
     .src = {{4, {3, 2, 4, 5}, 0}, {1, {3}, 5}}},
    {0},
};

const struct sw_layer_type sw_layer_record_output = {
    .base =
        SW_TYPE("record_output", "writes the rows of an evaluation as a shard", struct conf, opts),
    .role = SW_ROLE_OUTPUT,
    .split_reason = "a row is written whole",
    SW_LAYER_SOURCES(1, SW_SHARD_MAX_FIELDS),
    .state_bytes = sizeof(struct state),
    SW_LAYER_CALLS(setup, sw_output_forward, NULL),
    .output = &output,
    .teardown = abandon,
    .examples = examples,
};
