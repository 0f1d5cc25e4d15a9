/* csv_output: writes the rows of an evaluation as text (RFC 4180 without quotes, since all values
 * are numbers): one line per sample, in the order of the data, with the values of all sources.
 * Numbers have nine digits, so that reading them gives the same floats. */
#include "base/os.h"
#include "base/str.h"
#include "layers/share/output.h"
#include <inttypes.h>

struct conf {
    const char *path;
    struct sw_strings names;
};

struct state {
    struct sw_new_file file;
    struct sw_bytes text; /* of the rows being written */
};

static const struct sw_opt opts[] = {
    SW_OUTPUT_PATH_OPT(struct conf, path),
    SW_OPT(STRINGS, struct conf, names,
           "source names for a header line: name, or name_0, name_1, ...; default: no header"),
    {0},
};

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    const struct conf *c = l->conf;
    struct state *st = l->state;

    st->file.fd = -1;
    if (c->names.count > 0 && c->names.count != l->src_count)
        return sw_err_set(err, SW_ERR_INVALID, "names: %d names for %d sources", c->names.count,
                          l->src_count);

    sw_output_finish_setup(l);
    return SW_OK;
}

static void abandon(struct sw_layer *l)
{
    struct state *st = l->state;

    sw_os_new_file_abandon(&st->file);
    sw_bytes_fini(&st->text);
}

static int flush(struct state *st, struct sw_err *err)
{
    if (st->text.failed)
        return sw_err_nomem(err, "rows of text", st->text.length);

    int rc =
        sw_os_write_all(st->file.fd, sw_bytes_text(&st->text), st->text.length, st->file.path, err);
    sw_bytes_clear(&st->text);

    return rc;
}

static void add_names(const struct sw_layer *l, const struct conf *c, struct sw_bytes *text)
{
    const char *comma = "";

    for (int k = 0; k < c->names.count; k++) {
        int64_t columns = sw_output_columns(l, k);

        for (int64_t i = 0; i < columns; i++, comma = ",")
            if (columns == 1)
                sw_bytes_printf(text, "%s%s", comma, c->names.items[k]);
            else
                sw_bytes_printf(text, "%s%s_%" PRId64, comma, c->names.items[k], i);
    }

    if (c->names.count > 0)
        sw_bytes_add(text, "\n");
}

static int begin(struct sw_layer *l, const char *folder, struct sw_err *err)
{
    const struct conf *c = l->conf;
    struct state *st = l->state;
    char *path = sw_output_path(folder, c->path);
    if (!path)
        return sw_err_nomem(err, "a path", 0);

    int rc = sw_os_new_file_begin(&st->file, path, 0666, err);
    sw_free(path);
    if (rc != SW_OK)
        return rc;

    add_names(l, c, &st->text);
    return flush(st, err);
}

static void add_value(const struct sw_layer *l, int k, const void *src, int64_t i,
                      struct sw_bytes *text)
{
    if (l->src[k]->desc.dtype == SW_F32)
        sw_bytes_printf(text, "%.9g", (double)((const float *)src)[i]);
    else
        sw_bytes_printf(text, "%d", (int)((const int32_t *)src)[i]);
}

static int rows(struct sw_layer *l, const void *const *src, int64_t count, struct sw_err *err)
{
    struct state *st = l->state;

    for (int64_t r = 0; r < count; r++) {
        const char *comma = "";

        for (int k = 0; k < l->src_count; k++) {
            int64_t columns = sw_output_columns(l, k);
            for (int64_t i = 0; i < columns; i++, comma = ",") {
                sw_bytes_add(&st->text, comma);
                add_value(l, k, src[k], r * columns + i, &st->text);
            }
        }

        sw_bytes_add(&st->text, "\n");
    }

    return flush(st, err);
}

static int commit(struct sw_layer *l, struct sw_err *err)
{
    struct state *st = l->state;
    return sw_os_new_file_commit(&st->file, err);
}

static const struct sw_layer_output output = {
    .begin = begin, .rows = rows, .commit = commit, .abandon = abandon};

static const struct sw_layer_example examples[] = {
    {.recipe = "path = rows.csv\n", .src = {{2, {3, 4}, 0}}},
    {.recipe = "path = rows.csv\nnames = score, label\n", .src = {{2, {3, 4}, 0}, {1, {3}, 5}}},
    {0},
};

const struct sw_layer_type sw_layer_csv_output = {
    .base =
        SW_TYPE("csv_output", "writes the rows of an evaluation as CSV text", struct conf, opts),
    .role = SW_ROLE_OUTPUT,
    .split_reason = "a row is written whole",
    SW_LAYER_SOURCES(1, SW_LAYER_SRCS),
    .state_bytes = sizeof(struct state),
    SW_LAYER_CALLS(setup, sw_output_forward, NULL),
    .output = &output,
    .teardown = abandon,
    .examples = examples,
};
