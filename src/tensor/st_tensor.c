/* Writes and reads device tensors in safetensors files. Rows are converted in pieces, so that a
 * checkpoint does not need a second copy of all weights. */
#include "base/os.h"
#include "base/str.h"
#include "tensor/st_format.h"
#include <string.h>

enum { CONVERT_BYTES = 4 << 20 };

/* The number of rows that fit into the conversion buffer, at least one block of rows. */
static int64_t rows_at_once(const struct sw_tensor *t)
{
    size_t row_bytes = sw_tensor_row_bytes(t);
    int64_t step = sw_tensor_row_step(t), rows = sw_tensor_rows(t);
    int64_t fit = row_bytes ? (int64_t)(CONVERT_BYTES / row_bytes) : rows;

    if (step)
        fit = fit < step ? step : fit / step * step;
    return fit < rows ? fit : rows;
}

size_t sw_st_write_bytes(const struct sw_desc *layout)
{
    const struct sw_tensor t = sw_tensor_view(NULL, layout, NULL);
    return SW_ST_CHUNK_BYTES + (size_t)rows_at_once(&t) * sw_tensor_row_bytes(&t);
}

/* Calls `move` for one piece of rows after the other. */
struct pass {
    struct sw_tensor *tensor;
    struct sw_stream *stream;
    struct sw_st_sink *sink;         /* writing */
    const struct sw_st_file *file;   /* reading */
    const struct sw_st_entry *entry; /* reading */
};

static int emit_rows(const struct pass *p, int64_t first, int64_t rows, void *buf, size_t n,
                     struct sw_err *err)
{
    int rc = sw_tensor_read_rows(p->tensor, p->stream, first, rows, buf, err);
    if (rc != SW_OK)
        return rc;
    return sw_st_emit(p->sink, buf, n, err);
}

static int load_rows(const struct pass *p, int64_t first, int64_t rows, void *buf, size_t n,
                     struct sw_err *err)
{
    uint64_t from = (uint64_t)first * sw_tensor_row_bytes(p->tensor);

    int rc = sw_st_read(p->file, p->entry, from, n, buf, err);
    if (rc != SW_OK)
        return rc;

    return sw_tensor_write_rows(p->tensor, p->stream, first, rows, buf, err);
}

static int run_pass(const struct pass *p,
                    int (*move)(const struct pass *, int64_t, int64_t, void *, size_t,
                                struct sw_err *),
                    struct sw_err *err)
{
    int64_t rows = sw_tensor_rows(p->tensor), most = rows_at_once(p->tensor);
    size_t row_bytes = sw_tensor_row_bytes(p->tensor), bytes = (size_t)most * row_bytes;
    if (bytes == 0)
        return SW_OK;

    void *buf = sw_os()->alloc(bytes);
    if (!buf)
        return sw_err_nomem(err, "conversion of a tensor", bytes);

    int rc = SW_OK;
    for (int64_t first = 0; rc == SW_OK && first < rows; first += most) {
        int64_t n = rows - first < most ? rows - first : most;
        rc = move(p, first, n, buf, (size_t)n * row_bytes, err);
    }

    sw_free(buf);
    return rc;
}

int sw_st_emit_tensor(const struct sw_tensor *t, struct sw_stream *stream, struct sw_st_sink *sink,
                      struct sw_err *err)
{
    struct sw_tensor copy = *t;
    struct pass p = {.tensor = &copy, .stream = stream, .sink = sink};
    return run_pass(&p, emit_rows, err);
}

static void add_shape(struct sw_bytes *b, const char *dtype, int ndim, const int64_t *shape)
{
    sw_bytes_printf(b, "%s [", dtype);
    for (int i = 0; i < ndim; i++)
        sw_bytes_printf(b, "%s%lld", i ? ", " : "", (long long)shape[i]);
    sw_bytes_add(b, "]");
}

static int refuse_shape(const struct sw_st_entry *e, const struct sw_tensor *t, struct sw_err *err)
{
    struct sw_bytes has = {0}, wants = {0};

    add_shape(&has, sw_st_dtype_name(e->dtype), e->ndim, e->shape);
    add_shape(&wants, sw_st_dtype_name(sw_st_dtype_of(t->desc.dtype)), t->desc.ndim, t->desc.dim);

    int rc = sw_err_set(err, SW_ERR_INVALID, "tensor %.200s is %s in the file, but %s is needed",
                        e->name, sw_bytes_text(&has), sw_bytes_text(&wants));
    sw_bytes_fini(&has);
    sw_bytes_fini(&wants);

    return rc;
}

int sw_st_read_tensor(const struct sw_st_file *f, const char *name, struct sw_tensor *t,
                      struct sw_stream *stream, struct sw_err *err)
{
    const struct sw_st_entry *e = sw_st_find(f, name);
    if (!e)
        return sw_err_set(err, SW_ERR_NOTFOUND, "the file has no tensor %.200s", name);
    if (e->dtype != sw_st_dtype_of(t->desc.dtype) || e->ndim != t->desc.ndim ||
        memcmp(e->shape, t->desc.dim, (size_t)e->ndim * sizeof *e->shape) != 0)
        return refuse_shape(e, t, err);

    struct pass p = {.tensor = t, .stream = stream, .file = f, .entry = e};
    return run_pass(&p, load_rows, err);
}
