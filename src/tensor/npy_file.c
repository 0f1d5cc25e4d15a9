/* Reads and writes uncompressed .npy files by rows. The contract is in tensor/npy.h. */
#include "tensor/npy.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* HEADER_BYTES hold eight dimensions of 19 digits and align the values to 64 bytes, as NumPy
 * requires. CONVERT_BYTES are read at a time. */
enum { HEADER_BYTES = 256, PREFIX_BYTES = 10, CONVERT_BYTES = 1 << 20 };

static int read_header(struct sw_npy_file *f, uint64_t file_bytes, struct sw_err *err)
{
    unsigned char first[SW_NPY_MIN_BYTES];
    size_t bytes = 0;

    if (file_bytes < sizeof first)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: ends after %llu bytes, inside its header",
                          f->path, (unsigned long long)file_bytes);

    int rc = sw_os_pread_all(f->fd, first, sizeof first, 0, f->path, err);
    if (!rc)
        rc = sw_npy_header_bytes(first, f->path, &bytes, err);

    if (!rc && bytes > file_bytes)
        rc = sw_err_set(err, SW_ERR_FORMAT, "%s: ends after %llu bytes, inside its header of %zu",
                        f->path, (unsigned long long)file_bytes, bytes);

    if (rc)
        return rc;

    unsigned char *head = sw_os()->alloc(bytes);
    if (!head)
        return sw_err_nomem(err, f->path, bytes);

    rc = sw_os_pread_all(f->fd, head, bytes, 0, f->path, err);
    if (!rc)
        rc = sw_npy_parse(head, bytes, f->path, &f->header, err);
    sw_free(head);

    return rc;
}

static int check_size(const struct sw_npy_file *f, uint64_t file_bytes, struct sw_err *err)
{
    const struct sw_npy_header *h = &f->header;
    const uint64_t want = h->data_offset + h->count * sw_npy_dtype_bytes(h->dtype);
    if (file_bytes == want)
        return SW_OK;

    return sw_err_set(err, SW_ERR_FORMAT,
                      "%s: has %llu bytes, but its header requires %llu: %llu values of type %s",
                      f->path, (unsigned long long)file_bytes, (unsigned long long)want,
                      (unsigned long long)h->count, sw_npy_dtype_name(h->dtype));
}

int sw_npy_open(struct sw_npy_file *f, const char *path, struct sw_err *err)
{
    uint64_t file_bytes;

    *f = (struct sw_npy_file){0};
    f->path = sw_strdup(path);
    if (!f->path)
        return sw_err_nomem(err, "the name of an array", strlen(path) + 1);

    int rc = sw_os_open_regular(path, &f->fd, &file_bytes, err);
    f->is_open = !rc;
    if (!rc)
        rc = read_header(f, file_bytes, err);
    if (!rc)
        rc = check_size(f, file_bytes, err);
    if (rc)
        sw_npy_close(f);

    return rc;
}

void sw_npy_close(struct sw_npy_file *f)
{
    if (f->is_open)
        sw_os()->close(f->fd);
    sw_free(f->path);
    *f = (struct sw_npy_file){0};
}

/* Reads and converts values [first, first + count). */
static int read_values(const struct sw_npy_file *f, int64_t first, int64_t count, enum sw_dtype to,
                       unsigned char *out, struct sw_err *err)
{
    const struct sw_npy_header *h = &f->header;
    const size_t size = sw_npy_dtype_bytes(h->dtype);
    const int64_t most = (int64_t)(CONVERT_BYTES / size), room = count < most ? count : most;
    int rc = SW_OK;

    if (count == 0)
        return SW_OK;

    unsigned char *buf = sw_os()->alloc((size_t)room * size);
    if (!buf)
        return sw_err_nomem(err, "conversion of an array", (size_t)room * size);

    for (int64_t done = 0; done < count && !rc; done += room) {
        const int64_t n = count - done < room ? count - done : room;
        const uint64_t offset = h->data_offset + (uint64_t)(first + done) * size;
        int64_t at = 0;
        rc = sw_os_pread_all(f->fd, buf, (size_t)n * size, (off_t)offset, f->path, err);
        if (rc)
            break;

        rc =
            sw_npy_convert(h->dtype, buf, n, to, out + (size_t)done * sw_dtype_bytes(to), &at, err);
        if (rc)
            sw_err_prefix(err, rc, "%s: row %lld", f->path,
                          (long long)((first + done + at) / sw_npy_row_elements(h)));
    }

    sw_free(buf);
    return rc;
}

int sw_npy_read_rows(const struct sw_npy_file *f, int64_t first, int64_t rows, enum sw_dtype to,
                     void *out, struct sw_err *err)
{
    const int64_t have = sw_npy_rows(&f->header), per_row = sw_npy_row_elements(&f->header);
    if (first < 0 || rows < 0 || first > have || rows > have - first)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%s: rows %lld to %lld are out of range: the array has %lld", f->path,
                          (long long)first, (long long)(first + rows - 1), (long long)have);

    return read_values(f, first * per_row, rows * per_row, to, out, err);
}

/* Formats the header for w->rows rows. Its length does not depend on the number of rows. */
static void fill_header(const struct sw_npy_writer *w, char head[HEADER_BYTES])
{
    static const char *const descr[] = {[SW_F32] = "<f4", [SW_I32] = "<i4", [SW_U8] = "|u1"};
    const uint16_t length = HEADER_BYTES - PREFIX_BYTES;
    const size_t room = HEADER_BYTES;

    memset(head, ' ', HEADER_BYTES);
    memcpy(head, "\x93NUMPY\x01\x00", 8);
    memcpy(head + 8, &length, sizeof length);

    size_t n = PREFIX_BYTES;

    n += (size_t)snprintf(head + n, room - n,
                          "{'descr': '%s', 'fortran_order': False, 'shape': (%lld,",
                          descr[w->dtype], (long long)w->rows);
    for (int i = 0; i < w->row_ndim; i++)
        n += (size_t)snprintf(head + n, room - n, "%s%lld", i ? ", " : " ",
                              (long long)w->row_shape[i]);

    n += (size_t)snprintf(head + n, room - n, "), }");
    head[n] = ' ';
    head[HEADER_BYTES - 1] = '\n';
}

static int start_file(struct sw_npy_writer *w, const char *path, struct sw_err *err)
{
    char head[HEADER_BYTES];

    int rc = sw_os_new_file_begin(&w->file, path, 0666, err);
    if (rc)
        return rc;

    fill_header(w, head);
    rc = sw_os_write_all(w->file.fd, head, sizeof head, path, err);
    if (rc)
        sw_npy_writer_abandon(w);

    return rc;
}

int sw_npy_writer_begin(struct sw_npy_writer *w, const char *path, enum sw_dtype dtype,
                        int row_ndim, const int64_t *row_shape, struct sw_err *err)
{
    *w = (struct sw_npy_writer){.file.fd = -1, .dtype = dtype, .row_ndim = row_ndim};

    uint64_t bytes = sw_dtype_bytes(dtype);
    bool fits = row_ndim >= 0 && row_ndim < SW_NPY_MAX_DIMS;
    for (int i = 0; fits && i < row_ndim; i++) {
        w->row_shape[i] = row_shape[i];
        fits = row_shape[i] >= 0 &&
               !__builtin_mul_overflow(bytes, (uint64_t)row_shape[i], &bytes) &&
               bytes < UINT64_C(1) << 62;
    }

    if (!fits)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%s: invalid row shape with %d dimensions: at most %d are supported, "
                          "none negative",
                          path, row_ndim, SW_NPY_MAX_DIMS - 1);

    w->row_bytes = (size_t)bytes;
    return start_file(w, path, err);
}

int sw_npy_append(struct sw_npy_writer *w, int64_t rows, const void *values, struct sw_err *err)
{
    int rc = sw_os_write_all(w->file.fd, values, (size_t)rows * w->row_bytes, w->file.path, err);
    if (!rc)
        w->rows += rows;
    return rc;
}

int sw_npy_writer_commit(struct sw_npy_writer *w, struct sw_err *err)
{
    char head[HEADER_BYTES];

    fill_header(w, head);

    int rc = sw_os_pwrite_all(w->file.fd, head, sizeof head, 0, w->file.path, err);
    if (!rc)
        rc = sw_os_new_file_commit(&w->file, err);
    if (rc)
        sw_npy_writer_abandon(w);

    return rc;
}

void sw_npy_writer_abandon(struct sw_npy_writer *w)
{
    sw_os_new_file_abandon(&w->file);
}

int sw_npy_write(const char *path, enum sw_dtype dtype, int ndim, const int64_t *shape,
                 const void *values, struct sw_err *err)
{
    struct sw_npy_writer w = {.file.fd = -1};

    if (ndim < 1)
        return sw_err_set(err, SW_ERR_INVALID, "%s: an array without dimensions", path);

    int rc = sw_npy_writer_begin(&w, path, dtype, ndim - 1, shape + 1, err);
    if (!rc)
        rc = sw_npy_append(&w, shape[0], values, err);
    if (!rc)
        rc = sw_npy_writer_commit(&w, err);
    sw_npy_writer_abandon(&w);

    return rc;
}
