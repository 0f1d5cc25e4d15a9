/* Writing and reading tensors of a table. A file has whole parameters in plain order; the table may
 * have them in parts and in any layout. So writing emits parts that are consecutive one after the
 * other, a few rows at a time, and gathers others into one buffer; reading takes from the
 * file only the runs that belong to a part. By the leader, between steps. */
#include "exchange/table/table_file.h"

#include "base/os.h"
#include "base/str.h"
#include <stdio.h>
#include <string.h>

static int emit_part(const struct sw_table_source *s, int i, struct sw_st_sink *sink,
                     struct sw_err *err)
{
    struct sw_tensor part = sw_table_tensor(s->table, i, s->slot);
    return sw_st_emit_tensor(&part, s->stream, sink, err);
}

/* Copies a part, which is several runs, to its place in the whole. */
static int gather_part(const struct sw_table_source *s, int i, float *whole, struct sw_err *err)
{
    struct sw_tensor part = sw_table_tensor(s->table, i, s->slot);
    struct sw_param_runs runs = sw_param_runs(sw_table_param(s->table, i));
    size_t bytes = (size_t)sw_desc_count(&part.desc) * sizeof *whole;

    float *plain = sw_calloc(1, bytes);
    if (!plain)
        return sw_err_nomem(err, "a part of a parameter", bytes);

    int rc = sw_tensor_read(&part, s->stream, plain, err);
    for (int64_t r = 0; r < runs.count && rc == SW_OK; r++)
        memcpy(whole + runs.first + r * runs.step, plain + r * runs.length,
               (size_t)runs.length * sizeof *whole);

    sw_free(plain);
    return rc;
}

/* Emits all parts as one tensor, in plain order. */
static int emit_parts(void *user, struct sw_st_sink *sink, struct sw_err *err)
{
    const struct sw_table_source *s = user;
    const struct sw_param *first = sw_table_param(s->table, s->param);
    int64_t dim[SW_MAX_DIMS], count = 1;
    int ndim = sw_param_whole(first, dim), along = first->part_dim, rc = SW_OK;

    for (int i = 0; i < ndim; i++)
        count *= dim[i];

    size_t bytes = (size_t)count * sizeof(float);
    const bool gathers = sw_param_runs(first).count > 1;
    float *whole = gathers ? sw_calloc(1, bytes) : NULL;
    if (gathers && !whole)
        return sw_err_nomem(err, first->name, bytes);

    for (int64_t at = 0; at < dim[along];) {
        int i = sw_table_find(s->table, first->name, at);

        rc = i < 0
                 ? sw_err_set(err, SW_ERR_INVALID, "%s: no worker has the part that begins at %lld",
                              first->name, (long long)at)
             : gathers ? gather_part(s, i, whole, err)
                       : emit_part(s, i, sink, err);
        if (rc != SW_OK)
            goto out;

        at += sw_table_param(s->table, i)->layout.dim[along];
    }

    if (gathers)
        rc = sw_st_emit(sink, whole, bytes, err);

out:
    sw_free(whole);
    return rc;
}

size_t sw_table_write_bytes(const struct sw_param *p)
{
    int64_t dim[SW_MAX_DIMS];
    size_t bytes = sizeof(float);

    if (sw_param_runs(p).count <= 1)
        return sw_st_write_bytes(&p->layout);

    for (int i = 0, ndim = sw_param_whole(p, dim); i < ndim; i++)
        bytes *= (size_t)dim[i];
    return SW_ST_CHUNK_BYTES + bytes + (size_t)sw_desc_count(&p->layout) * sizeof(float);
}

int sw_table_add_tensor(struct sw_table_source *source, const char *name, struct sw_st_writer *w,
                        struct sw_err *err)
{
    const struct sw_param *p = sw_table_param(source->table, source->param);
    int64_t shape[SW_MAX_DIMS];

    if (p->part_first > 0)
        return SW_OK;

    int ndim = sw_param_whole(p, shape);
    return sw_st_writer_add(w, name, (struct sw_st_shape){SW_ST_F32, ndim, shape}, emit_parts,
                            source, err);
}

/* Reads a part of a matrix that is stored transposed in the file. */
static int read_transposed(const struct sw_st_file *f, const struct sw_st_entry *e,
                           const struct sw_param *p, float *plain, struct sw_err *err)
{
    int64_t rows = p->layout.dim[0], columns = p->layout.dim[1], whole = e->shape[1];
    int64_t first_row = p->part_dim == 0 ? p->part_first : 0,
            first_column = p->part_first - first_row;
    float *line = sw_calloc((size_t)whole + 1, sizeof *line);
    if (!line)
        return sw_err_nomem(err, e->name, (size_t)whole * sizeof *line);

    int rc = SW_OK;
    for (int64_t c = 0; c < columns && rc == SW_OK; c++) {
        size_t bytes = (size_t)whole * sizeof *line;
        rc = sw_st_read(f, e, (uint64_t)(first_column + c) * bytes, bytes, line, err);
        for (int64_t r = 0; r < rows && rc == SW_OK; r++)
            plain[r * columns + c] = line[first_row + r];
    }

    sw_free(line);
    return rc;
}

static int read_runs(const struct sw_st_file *f, const struct sw_st_entry *e,
                     const struct sw_param *p, float *plain, struct sw_err *err)
{
    struct sw_param_runs runs = sw_param_runs(p);
    size_t bytes = (size_t)runs.length * sizeof *plain;

    for (int64_t r = 0; r < runs.count; r++) {
        int rc = sw_st_read(f, e, (uint64_t)(runs.first + r * runs.step) * sizeof *plain, bytes,
                            plain + r * runs.length, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

int sw_table_read_tensor(const struct sw_table_source *to, const char *name,
                         const struct sw_st_file *f, struct sw_err *err)
{
    const struct sw_param *p = sw_table_param(to->table, to->param);
    const struct sw_st_entry *e = sw_st_find(f, name);
    struct sw_tensor part = sw_table_tensor(to->table, to->param, to->slot);

    int rc = sw_table_check_tensor(to, name, f, "checkpoint", err);
    if (rc != SW_OK)
        return rc;
    if (!p->part_whole && !to->transposed)
        return sw_st_read_tensor(f, name, &part, to->stream, err);

    size_t bytes = (size_t)sw_desc_count(&part.desc) * sizeof(float);
    void *plain = sw_calloc(1, bytes);
    if (!plain)
        return sw_err_nomem(err, name, bytes);

    rc = to->transposed ? read_transposed(f, e, p, plain, err) : read_runs(f, e, p, plain, err);
    if (rc == SW_OK)
        rc = sw_tensor_write(&part, to->stream, plain, err);
    sw_free(plain);

    return rc;
}

int sw_table_check_tensor(const struct sw_table_source *to, const char *name,
                          const struct sw_st_file *f, const char *path, struct sw_err *err)
{
    return sw_table_check_entry(to, name, sw_st_find(f, name), path, err);
}

int sw_table_check_entry(const struct sw_table_source *to, const char *name,
                         const struct sw_st_entry *e, const char *path, struct sw_err *err)
{
    const struct sw_param *p = sw_table_param(to->table, to->param);
    int64_t shape[SW_MAX_DIMS];
    int ndim = sw_param_whole(p, shape);
    char has[128], needs[128];

    if (!e)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: has no tensor %s", path, name);

    bool fits = e->dtype == SW_ST_F32 && e->ndim == ndim && (!to->transposed || ndim == 2);
    for (int i = 0; fits && i < ndim; i++)
        fits = e->shape[to->transposed ? ndim - 1 - i : i] == shape[i];
    if (fits)
        return SW_OK;

    sw_shape_text(e->ndim, e->shape, has, sizeof has);
    sw_shape_text(ndim, shape, needs, sizeof needs);

    bool renamed = strcmp(name, p->name) != 0;
    return sw_err_set(err, SW_ERR_INVALID,
                      "%s: %s is %s %s in the file%s, but %s%sF32 %s in this net", path, name,
                      sw_st_dtype_name(e->dtype), has, to->transposed ? ", to be transposed" : "",
                      renamed ? p->name : "", renamed ? " is " : "", needs);
}
