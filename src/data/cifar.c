/* The binary files of CIFAR: the size and all labels of each file are checked at opening; fetching
 * an image returns a view of the bytes of the file (data/blob.h). */
#include "data/cifar.h"
#include "base/os.h"

enum { IMAGE_BYTES = 3 * 32 * 32, SCAN_RECORDS = 256 };

static uint64_t record_bytes(const struct sw_cifar_layout *l)
{
    return (uint64_t)l->labels + IMAGE_BYTES;
}

/* Sets *records from the size of the file. */
static int check_size(struct sw_cifar_file *f, const struct sw_cifar_layout *l, int64_t *records,
                      struct sw_err *err)
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

    *records = (int64_t)(bytes / record);
    return sw_blob_check_size(&f->blob, 0, record, bytes / record, err);
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

static int scan_labels(struct sw_cifar_file *f, const struct sw_cifar_layout *l, int64_t records,
                       struct sw_err *err)
{
    const uint64_t record = record_bytes(l);
    unsigned char *buffer = sw_os()->alloc((size_t)(SCAN_RECORDS * record));

    f->label = sw_os()->alloc((size_t)records);

    int rc = f->label && buffer ? SW_OK : sw_err_nomem(err, "labels of CIFAR", (size_t)records);
    for (int64_t at = 0; !rc && at < records; at += SCAN_RECORDS) {
        const int64_t n = records - at < SCAN_RECORDS ? records - at : SCAN_RECORDS;
        const void *view = NULL;

        rc = sw_blob_view(&f->blob, (uint64_t)at * record, (size_t)((uint64_t)n * record), buffer,
                          &view, err);
        for (int64_t i = 0; !rc && i < n; i++)
            rc = take_labels(f, l, at + i, (const unsigned char *)view + (uint64_t)i * record, err);
    }

    sw_free(buffer);
    return rc;
}

void sw_cifar_begin(struct sw_records *r, const struct sw_cifar_layout *layout)
{
    *(struct sw_cifar_layout *)r->state = *layout;
    r->classes = layout->classes[layout->wanted];
    r->classes_fixed = true;
    r->field[0] = (struct sw_field){"image", SW_U8, 3, {3, 32, 32}};
    r->field[1] = (struct sw_field){.name = "label", .dtype = SW_I32};
    r->field_count = 2;
}

int sw_cifar_open(struct sw_records *r, void *part, const char *path,
                  const struct sw_format_args *args, struct sw_err *err)
{
    struct sw_cifar_file *f = part;
    int64_t records = 0;

    int rc = sw_blob_open(&f->blob, path, r->max_bytes, err);
    if (rc)
        return rc;
    rc = check_size(f, r->state, &records, err);
    if (rc)
        return rc;

    r->count += records;
    return scan_labels(f, r->state, records, err);
}

void sw_cifar_close(void *part)
{
    struct sw_cifar_file *f = part;
    sw_blob_close(&f->blob);
    sw_free(f->label);
}

int sw_cifar_fetch(const struct sw_records *r, int64_t record, int f, void *scratch,
                   const void **out, struct sw_err *err)
{
    const struct sw_cifar_layout *l = r->state;
    const struct sw_cifar_file *file = sw_records_part(r, record);
    const int64_t i = record - file->part.first;

    if (f == 1) {
        *(int32_t *)scratch = file->label[i];
        *out = scratch;
        return SW_OK;
    }

    const uint64_t at = (uint64_t)i * record_bytes(l) + (uint64_t)l->labels;
    int rc = sw_blob_view(&file->blob, at, IMAGE_BYTES, scratch, out, err);
    return rc ? sw_err_prefix(err, rc, "record %lld", (long long)i) : SW_OK;
}
