/* Tensors, and copies between their storage and plain arrays of the host. Memory that the host
 * cannot address is copied through a staging buffer on the stream; other memory is converted in
 * place after a wait for the stream. The contract is in tensor/tensor.h. */
#include "tensor/tensor.h"
#include "base/os.h"
#include <string.h>

/* Whether the host can address the memory. Other memory is copied through a staging buffer on the
 * stream. */
static bool host_reaches(const struct sw_tensor *t)
{
    return !t->device || t->device->host_memory;
}

int sw_tensor_new(struct sw_device *device, const struct sw_desc *desc, const char *what,
                  struct sw_tensor **out, struct sw_err *err)
{
    size_t bytes = sw_desc_bytes(desc);
    if (bytes >= SIZE_MAX / 2)
        return sw_err_set(err, SW_ERR_INVALID, "the size of %s overflows", what);

    struct sw_tensor *t = sw_calloc(1, sizeof *t);
    if (!t)
        return sw_err_nomem(err, what, sizeof *t);

    *t = (struct sw_tensor){.desc = *desc, .device = device, .owned = true};

    int rc = SW_OK;
    if (device)
        rc = sw_device_alloc(device, bytes, what, &t->data, err);
    else if (!(t->data = sw_calloc(bytes, 1)))
        rc = sw_err_nomem(err, what, bytes);

    if (rc != SW_OK) {
        sw_free(t);
        return rc;
    }

    *out = t;
    return SW_OK;
}

void sw_tensor_free(struct sw_tensor *t)
{
    if (t && t->owned && t->device)
        sw_device_free(t->device, t->data, sw_desc_bytes(&t->desc));
    else if (t && t->owned)
        sw_free(t->data);

    sw_free(t);
}

struct sw_tensor sw_tensor_view(struct sw_device *device, const struct sw_desc *desc, void *data)
{
    return (struct sw_tensor){.desc = *desc, .device = device, .data = data};
}

int64_t sw_tensor_rows(const struct sw_tensor *t)
{
    return t->desc.ndim ? t->desc.dim[0] : 1;
}

size_t sw_tensor_row_bytes(const struct sw_tensor *t)
{
    return (size_t)sw_desc_features(&t->desc) * sw_dtype_bytes(t->desc.dtype);
}

/* The number of rows in one block of dimension 0. */
static int64_t batch_block(const struct sw_desc *d)
{
    int64_t block = 1;

    for (int i = 0; i < d->nblock; i++)
        if (d->block_dim[i] == 0)
            block *= d->block[i];

    return block;
}

int64_t sw_tensor_row_step(const struct sw_tensor *t)
{
    const struct sw_desc *d = &t->desc;
    int64_t rows = sw_tensor_rows(t), block = batch_block(d);
    if (rows <= block || d->ndim == 0)
        return rows;

    /* Rows can be separated only if one step ends before the next begins in storage. */
    struct sw_desc one = *d;
    one.dim[0] = block;
    one.padded[0] = block;

    return sw_desc_storage(&one) <= d->stride[0] ? block : rows;
}

/* Computes the descriptor of the rows and their byte offset from the tensor's data. */
static int cut_rows(const struct sw_tensor *t, int64_t first, int64_t rows, struct sw_desc *part,
                    size_t *at, struct sw_err *err)
{
    int64_t all = sw_tensor_rows(t), step = sw_tensor_row_step(t), block = batch_block(&t->desc);
    if (first < 0 || rows < 0 || first > all || rows > all - first || (step && first % step) ||
        (step && rows % step && first + rows != all))
        return sw_err_set(
            err, SW_ERR_INVALID,
            "%lld rows from row %lld are out of range or unaligned: the tensor has %lld "
            "rows, in blocks of %lld",
            (long long)rows, (long long)first, (long long)all, (long long)step);

    *part = t->desc;
    *at = 0;
    if (part->ndim == 0 || rows == all)
        return SW_OK;

    part->dim[0] = rows;
    part->padded[0] = (rows + block - 1) / block * block;
    *at = (size_t)(first / block * part->stride[0]) * sw_dtype_bytes(part->dtype);

    return SW_OK;
}

/* Copies the stored rows from the device to a staging buffer and converts them on the host. */
static int read_staged(struct sw_stream *stream, const struct sw_desc *d, const void *stored,
                       void *plain, struct sw_err *err)
{
    size_t bytes = sw_desc_bytes(d);
    void *stage = sw_os()->alloc(bytes);
    if (!stage)
        return sw_err_nomem(err, "staging of a tensor", bytes);

    int rc = sw_copy(stream, stage, stored, bytes, err);
    int waited = sw_stream_wait(stream, rc == SW_OK ? err : NULL);
    rc = rc == SW_OK ? waited : rc;
    if (rc == SW_OK)
        sw_desc_to_plain(d, stage, plain);
    sw_free(stage);

    return rc;
}

static int write_staged(struct sw_stream *stream, const struct sw_desc *d, const void *plain,
                        void *stored, struct sw_err *err)
{
    size_t bytes = sw_desc_bytes(d);
    void *stage = sw_calloc(bytes, 1);
    if (!stage)
        return sw_err_nomem(err, "staging of a tensor", bytes);

    sw_desc_from_plain(d, plain, stage);

    int rc = sw_copy(stream, stored, stage, bytes, err);
    int waited = sw_stream_wait(stream, rc == SW_OK ? err : NULL);
    sw_free(stage);

    return rc == SW_OK ? waited : rc;
}

int sw_tensor_read_rows(const struct sw_tensor *t, struct sw_stream *stream, int64_t first,
                        int64_t rows, void *plain, struct sw_err *err)
{
    struct sw_desc part;
    size_t at = 0;

    int rc = cut_rows(t, first, rows, &part, &at, err);
    if (rc != SW_OK || sw_desc_count(&part) == 0)
        return rc;

    const unsigned char *stored = (const unsigned char *)t->data + at;
    if (!host_reaches(t))
        return read_staged(stream, &part, stored, plain, err);

    rc = stream ? sw_stream_wait(stream, err) : SW_OK;
    if (rc != SW_OK)
        return rc;

    sw_desc_to_plain(&part, stored, plain);
    return SW_OK;
}

int sw_tensor_write_rows(struct sw_tensor *t, struct sw_stream *stream, int64_t first, int64_t rows,
                         const void *plain, struct sw_err *err)
{
    struct sw_desc part;
    size_t at = 0;

    int rc = cut_rows(t, first, rows, &part, &at, err);
    if (rc != SW_OK || sw_desc_count(&part) == 0)
        return rc;

    unsigned char *stored = (unsigned char *)t->data + at;
    if (!host_reaches(t))
        return write_staged(stream, &part, plain, stored, err);

    rc = stream ? sw_stream_wait(stream, err) : SW_OK;
    if (rc != SW_OK)
        return rc;

    sw_desc_from_plain(&part, plain, stored);
    return SW_OK;
}

int sw_tensor_read(const struct sw_tensor *t, struct sw_stream *stream, void *plain,
                   struct sw_err *err)
{
    return sw_tensor_read_rows(t, stream, 0, sw_tensor_rows(t), plain, err);
}

int sw_tensor_write(struct sw_tensor *t, struct sw_stream *stream, const void *plain,
                    struct sw_err *err)
{
    return sw_tensor_write_rows(t, stream, 0, sw_tensor_rows(t), plain, err);
}
