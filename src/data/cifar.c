/* The binary files of CIFAR: the size and all labels of each file are checked at opening; fetching
 * an image returns a view of the bytes of the file (data/blob.h). */
#include "data/cifar.h"
#include "base/os.h"
#include "data/blob.h"
#include "data/files.h"

enum { IMAGE_BYTES = 3 * 32 * 32, SCAN_RECORDS = 256 };

struct sw_cifar_file {
    struct sw_blob blob;
    unsigned char *label; /* owned */
    int64_t first, count; /* records */
};

static uint64_t record_bytes(const struct sw_cifar_layout *l)
{
    return (uint64_t)l->labels + IMAGE_BYTES;
}

static int check_size(struct sw_cifar_file *f, const struct sw_cifar_layout *l, struct sw_err *err)
{
    const uint64_t record = record_bytes(l);
    uint64_t bytes = 0;

    int rc = sw_blob_stated_bytes(&f->blob, &bytes, err);
    if (rc)
        return rc;
    if (bytes == 0)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: the file is empty; expected records of %llu bytes", f->blob.path,
                          (unsigned long long)record);

    if (bytes % record)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: record %llu is truncated: %llu bytes, expected %llu (%d for labels, "
                          "3072 for pixels)",
                          f->blob.path, (unsigned long long)(bytes / record),
                          (unsigned long long)(bytes % record), (unsigned long long)record,
                          l->labels);

    f->count = (int64_t)(bytes / record);
    return sw_blob_check_size(&f->blob, 0, record, (uint64_t)f->count, err);
}

/* Checks all labels of a record and stores the one to use. */
static int take_labels(struct sw_cifar_file *f, const struct sw_cifar_layout *l, int64_t i,
                       const unsigned char *record, struct sw_err *err)
{
    for (int k = 0; k < l->labels; k++) {
        if (record[k] >= l->classes[k])
            return sw_err_set(err, SW_ERR_FORMAT, "%s: record %lld: %slabel %d, expected 0 to %d",
                              f->blob.path, (long long)i, l->kind[k], record[k], l->classes[k] - 1);
    }

    f->label[i] = record[l->wanted];
    return SW_OK;
}

static int scan_labels(struct sw_cifar_file *f, const struct sw_cifar_layout *l,
                       unsigned char *buffer, struct sw_err *err)
{
    const uint64_t record = record_bytes(l);
    int rc = SW_OK;

    f->label = sw_os()->alloc((size_t)f->count);
    if (!f->label)
        return sw_err_nomem(err, "labels of CIFAR", (size_t)f->count);

    for (int64_t at = 0; !rc && at < f->count; at += SCAN_RECORDS) {
        const int64_t n = f->count - at < SCAN_RECORDS ? f->count - at : SCAN_RECORDS;
        const void *view = NULL;

        rc = sw_blob_view(&f->blob, (uint64_t)at * record, (size_t)((uint64_t)n * record), buffer,
                          &view, err);
        for (int64_t i = 0; !rc && i < n; i++)
            rc = take_labels(f, l, at + i, (const unsigned char *)view + (uint64_t)i * record, err);
    }

    return rc;
}

static int open_file(struct sw_records *r, struct sw_cifar_file *f, const char *path,
                     unsigned char *buffer, struct sw_err *err)
{
    const struct sw_cifar *s = r->state;

    int rc = sw_blob_open(&f->blob, path, r->max_bytes, err);
    if (rc)
        return rc;
    rc = check_size(f, &s->layout, err);
    if (rc)
        return rc;
    rc = scan_labels(f, &s->layout, buffer, err);
    if (rc)
        return rc;

    f->first = r->count;
    r->count += f->count;
    return SW_OK;
}

static int open_all(struct sw_records *r, const struct sw_files *files, struct sw_err *err)
{
    struct sw_cifar *s = r->state;
    const size_t buffer_bytes = (size_t)(SCAN_RECORDS * record_bytes(&s->layout));
    unsigned char *buffer = sw_os()->alloc(buffer_bytes);
    int rc = SW_OK;

    s->file = sw_calloc((size_t)files->count, sizeof *s->file);
    if (!buffer || !s->file)
        rc = sw_err_nomem(err, "a buffer to read CIFAR", buffer_bytes);
    else
        s->count = files->count;

    for (int i = 0; !rc && i < s->count; i++)
        rc = open_file(r, &s->file[i], files->path[i], buffer, err);
    sw_free(buffer);

    return rc;
}

int sw_cifar_open(struct sw_records *r, const struct sw_files *files,
                  const struct sw_cifar_layout *layout, struct sw_err *err)
{
    struct sw_cifar *s = r->state;

    s->layout = *layout;
    r->classes = layout->classes[layout->wanted];
    r->field[0] = (struct sw_field){"image", SW_U8, 3, {3, 32, 32}};
    r->field[1] = (struct sw_field){.name = "label", .dtype = SW_I32};
    r->field_count = 2;

    return open_all(r, files, err);
}

void sw_cifar_close(struct sw_records *r)
{
    struct sw_cifar *s = r->state;

    for (int i = 0; i < s->count; i++) {
        sw_blob_close(&s->file[i].blob);
        sw_free(s->file[i].label);
    }

    sw_free(s->file);
}

int sw_cifar_fetch(const struct sw_records *r, int64_t record, int f, void *scratch,
                   const void **out, struct sw_err *err)
{
    const struct sw_cifar *s = r->state;
    const struct sw_cifar_file *file = s->file;

    while (record >= file->first + file->count)
        file++;

    const int64_t i = record - file->first;
    if (f == 1) {
        *(int32_t *)scratch = file->label[i];
        *out = scratch;
        return SW_OK;
    }

    const uint64_t at = (uint64_t)i * record_bytes(&s->layout) + (uint64_t)s->layout.labels;
    int rc = sw_blob_view(&file->blob, at, IMAGE_BYTES, scratch, out, err);
    return rc ? sw_err_prefix(err, rc, "record %lld", (long long)i) : SW_OK;
}
