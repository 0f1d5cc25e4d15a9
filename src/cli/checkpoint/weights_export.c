/* weights FILE export --output PATH: parameters and running statistics without what only training
 * needs, as a .safetensors file or as a folder of arrays for numpy. */
#include "base/json.h"
#include "base/os.h"
#include "cli/checkpoint/weights_verb.h"
#include "tensor/npy.h"
#include <string.h>

enum { CHUNK = 1 << 20 };

static bool is_exported(const struct sw_weights_options *o, const struct sw_st_entry *e)
{
    return o->all || !sw_str_starts(e->name, "updater.");
}

/* ---- one file ---- */

struct source {
    const struct sw_st_file *f;
    const struct sw_st_entry *e;
};

static int copy_values(void *user, struct sw_st_sink *sink, struct sw_err *err)
{
    const struct source *s = user;
    char *buffer = sw_calloc(1, CHUNK);
    int rc = buffer ? SW_OK : sw_err_nomem(err, s->e->name, CHUNK);

    for (uint64_t at = 0; at < s->e->bytes && rc == SW_OK; at += CHUNK) {
        size_t n = s->e->bytes - at < CHUNK ? (size_t)(s->e->bytes - at) : CHUNK;
        rc = sw_st_read(s->f, s->e, at, n, buffer, err);
        if (rc == SW_OK)
            rc = sw_st_emit(sink, buffer, n, err);
    }

    sw_free(buffer);
    return rc;
}

static int write_file(const struct sw_weights_options *o, const struct sw_st_file *f, int *count,
                      struct sw_err *err)
{
    size_t n = sw_st_count(f);
    struct source *sources = sw_calloc(n + 1, sizeof *sources);
    struct sw_st_writer *w = sw_st_writer_new();
    const char *step = sw_st_metadata(f, "step");
    int rc = SW_OK;

    if (!sources || !w) {
        rc = sw_err_nomem(err, "list of tensors", n * sizeof *sources);
        goto out;
    }

    if (step)
        rc = sw_st_writer_metadata(w, "step", step, err);
    if (rc != SW_OK)
        goto out;

    for (size_t i = 0; i < n; i++) {
        const struct sw_st_entry *e = sw_st_entry_at(f, i);
        if (!is_exported(o, e))
            continue;

        sources[i] = (struct source){f, e};
        rc = sw_st_writer_add(w, e->name, (struct sw_st_shape){e->dtype, e->ndim, e->shape},
                              copy_values, &sources[i], err);
        if (rc != SW_OK)
            goto out;

        ++*count;
    }

    rc = sw_st_writer_write(w, o->output, 0666, NULL, NULL, err);

out:
    sw_st_writer_free(w);
    sw_free(sources);

    return rc;
}

/* ---- a folder ---- */

/* Tensor names are untrusted: refuse those that would lead out of the folder. */
static int check_name(const char *name, struct sw_err *err)
{
    if (*name && *name != '.' && !strchr(name, '/'))
        return SW_OK;
    return sw_err_set(err, SW_ERR_UNSUPPORTED,
                      "tensor name '%s' cannot be a file name: export to a .safetensors file",
                      name);
}

static int engine_type(const struct sw_st_entry *e, enum sw_dtype *out, struct sw_err *err)
{
    switch (e->dtype) {
    case SW_ST_F32:
        *out = SW_F32;
        return SW_OK;
    case SW_ST_I32:
        *out = SW_I32;
        return SW_OK;
    case SW_ST_U8:
        *out = SW_U8;
        return SW_OK;
    default:
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "tensor %s has type %s, but arrays must be F32, I32 or U8: export to a "
                          ".safetensors file",
                          e->name, sw_st_dtype_name(e->dtype));
    }
}

static int write_array(const char *folder, const struct sw_st_file *f, const struct sw_st_entry *e,
                       struct sw_err *err)
{
    enum sw_dtype type = SW_F32;
    int64_t one = 1;

    int rc = check_name(e->name, err);
    if (rc != SW_OK)
        return rc;
    rc = engine_type(e, &type, err);
    if (rc != SW_OK)
        return rc;

    char *path = sw_format("%s/%s.npy", folder, e->name);
    void *values = sw_calloc(1, e->bytes + 1);
    rc = path && values ? sw_st_read(f, e, 0, e->bytes, values, err)
                        : sw_err_nomem(err, e->name, e->bytes);
    if (rc != SW_OK)
        goto out;

    rc = sw_npy_write(path, type, e->ndim ? e->ndim : 1, e->ndim ? e->shape : &one, values, err);

out:
    sw_free(values);
    sw_free(path);

    return rc;
}

static int write_folder(const struct sw_weights_options *o, const struct sw_st_file *f, int *count,
                        struct sw_err *err)
{
    int rc = sw_os_mkdirs(o->output, 0777, err);
    if (rc != SW_OK)
        return rc;

    for (size_t i = 0; i < sw_st_count(f); i++) {
        const struct sw_st_entry *e = sw_st_entry_at(f, i);
        if (!is_exported(o, e))
            continue;
        rc = write_array(o->output, f, e, err);
        if (rc != SW_OK)
            return rc;

        ++*count;
    }

    return SW_OK;
}

int sw_weights_export(const struct sw_weights_options *o, const struct sw_weights_file *file,
                      struct sw_bytes *out)
{
    struct sw_err err;
    int count = 0;

    int rc = sw_str_ends(o->output, ".safetensors") ? write_file(o, file->f, &count, &err)
                                                    : write_folder(o, file->f, &count, &err);
    if (rc != SW_OK)
        return sw_cli_fail(rc, &err);

    if (o->common.json) {
        struct sw_json_writer w;

        sw_cli_json_begin(&w, out);
        sw_json_string(&w, "file", file->path);
        sw_json_string(&w, "output", o->output);
        sw_json_int(&w, "tensors", count);
        sw_cli_json_end(&w);
    } else if (!o->common.quiet) {
        sw_bytes_printf(out, "%d tensors of %s: %s\n", count, file->path, o->output);
    }

    return sw_cli_print(out);
}
