/* npy_output: writes the rows of an evaluation as a NumPy array, [samples, C, H, W] for a source of
 * images, in the order of the data; f4, or i4 for integers. */
#include "base/os.h"
#include "layers/share/output.h"
#include "tensor/npy.h"

struct conf {
    const char *path;
};

struct state {
    struct sw_npy_writer writer;
};

static const struct sw_opt opts[] = {
    SW_OUTPUT_PATH_OPT(struct conf, path),
    {0},
};

static int setup(struct sw_layer *l, const struct sw_layer_setup *s, struct sw_err *err)
{
    struct state *st = l->state;
    st->writer.file.fd = -1;
    sw_output_finish_setup(l);
    return SW_OK;
}

static void abandon(struct sw_layer *l)
{
    struct state *st = l->state;
    sw_npy_writer_abandon(&st->writer);
}

static int begin(struct sw_layer *l, const char *folder, struct sw_err *err)
{
    const struct conf *c = l->conf;
    const struct sw_desc *d = &l->src[0]->desc;
    struct state *st = l->state;
    char *path = sw_output_path(folder, c->path);
    if (!path)
        return sw_err_nomem(err, "a path", 0);

    int rc = sw_npy_writer_begin(&st->writer, path, d->dtype, d->ndim - 1, d->dim + 1, err);
    sw_free(path);
    return rc;
}

static int rows(struct sw_layer *l, const void *const *src, int64_t count, struct sw_err *err)
{
    struct state *st = l->state;
    return sw_npy_append(&st->writer, count, src[0], err);
}

static int commit(struct sw_layer *l, struct sw_err *err)
{
    struct state *st = l->state;
    return sw_npy_writer_commit(&st->writer, err);
}

static const struct sw_layer_output output = {
    .begin = begin, .rows = rows, .commit = commit, .abandon = abandon};

static const struct sw_layer_example examples[] = {
    {.recipe = "path = rows.npy\n", .src = {{4, {3, 2, 4, 5}, 0}}},
    {.recipe = "path = rows.npy\n", .src = {{1, {3}, 5}}},
    {0},
};

const struct sw_layer_type sw_layer_npy_output = {
    .base = SW_TYPE("npy_output", "writes the rows of an evaluation as a NumPy array", struct conf,
                    opts),
    .role = SW_ROLE_OUTPUT,
    .split_reason = "a row is written whole",
    SW_LAYER_SOURCES(1, 1),
    .state_bytes = sizeof(struct state),
    SW_LAYER_CALLS(setup, sw_output_forward, NULL),
    .output = &output,
    .teardown = abandon,
    .examples = examples,
};
