/* Records of any format: finds a format by name, opens and closes it, and names the location of a
 * record for messages. The registry sw_formats[] is written by the build. */
#include "data/format.h"
#include "base/os.h"
#include "data/blob.h"
#include "data/files.h"
#include <string.h>

int64_t sw_field_count(const struct sw_field *f)
{
    int64_t n = 1;
    for (int i = 0; i < f->ndim; i++)
        n *= f->dim[i];
    return n;
}

size_t sw_field_bytes(const struct sw_field *f)
{
    return (size_t)sw_field_count(f) * sw_dtype_bytes(f->dtype);
}

const struct sw_format *sw_format_find(const char *name)
{
    for (int i = 0; name && sw_formats[i]; i++) {
        if (!strcmp(sw_formats[i]->base.name, name))
            return sw_formats[i];
    }

    return NULL;
}

int sw_records_open(struct sw_records *r, const struct sw_format *format,
                    const struct sw_format_args *args, struct sw_err *err)
{
    memset(r, 0, sizeof *r);
    r->format = format;
    r->max_bytes = args->max_bytes ? (uint64_t)args->max_bytes : SW_BLOB_MAX_BYTES;
    r->max_pixels = args->max_pixels ? args->max_pixels : SW_PICTURE_MAX_PIXELS;

    r->state = sw_calloc(1, format->state_bytes);
    if (!r->state)
        return sw_err_nomem(err, "the state of a data format", format->state_bytes);

    struct sw_format_args format_args = *args;
    struct sw_files files = {0};
    format_args.files = format->generated ? NULL : &files;

    int rc = format_args.files ? sw_files_expand(&files, args->conf, "paths", err) : SW_OK;
    if (rc)
        goto out;
    rc = format->open(r, &format_args, err);
    if (rc)
        goto out;

    if (!r->where) {
        r->files = files.count;
        r->where = sw_files_text(&files);
        rc = r->where ? SW_OK : sw_err_nomem(err, "the name of a data file", 0);
    }

out:
    sw_files_fini(&files);
    if (rc)
        sw_records_close(r);

    return rc;
}

void sw_records_close(struct sw_records *r)
{
    if (r->state)
        r->format->close(r);
    sw_free(r->state);
    sw_free(r->origin);
    sw_free(r->where);
    memset(r, 0, sizeof *r);
}

int sw_records_check(const struct sw_records *r, struct sw_err *err)
{
    return r->format->check ? r->format->check(r, err) : SW_OK;
}

void sw_records_locate(const struct sw_records *r, int64_t record, struct sw_bytes *out)
{
    sw_bytes_printf(out, "record %lld (", (long long)record);

    if (r->format->locate)
        r->format->locate(r, record, out);
    else
        sw_bytes_add(out, r->where);

    sw_bytes_add(out, ")");
}
