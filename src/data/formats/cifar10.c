/* CIFAR-10, binary version (Alex Krizhevsky, "Learning Multiple Layers of Features from Tiny
 * Images", 2009; https://www.cs.toronto.edu/~kriz/cifar.html): records of one label byte, 0..9, and
 * 3072 bytes of a 32x32 picture, red plane first; no header. Any number of files, plain or .gz. All
 * labels are checked once, at opening, so that a damaged file does not stop a run in its middle. */
#include "base/os.h"
#include "base/str.h"
#include "data/blob.h"
#include "data/files.h"
#include "data/format.h"

enum {
    CLASSES = 10,
    PICTURE_BYTES = 3 * 32 * 32,
    RECORD_BYTES = 1 + PICTURE_BYTES,
    SCAN_RECORDS = 256
};

struct cifar_conf {
    struct sw_strings paths;
};

struct cifar_file {
    struct sw_blob blob;
    unsigned char *label; /* owned */
    int64_t first, count; /* records */
};

struct cifar_state {
    struct cifar_file *file; /* owned */
    int count;
};

static int check_size(struct cifar_file *f, struct sw_err *err)
{
    uint64_t bytes = 0;
    int rc = sw_blob_claimed(&f->blob, &bytes, err);
    if (rc)
        return rc;
    if (bytes == 0)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: has no record; expected records of %d bytes",
                          f->blob.path, RECORD_BYTES);
    if (bytes % RECORD_BYTES)
        return sw_err_set(
            err, SW_ERR_FORMAT,
            "%s: record %llu is cut short: %llu bytes, expected %d (1 label, 3072 pixels)",
            f->blob.path, (unsigned long long)(bytes / RECORD_BYTES),
            (unsigned long long)(bytes % RECORD_BYTES), RECORD_BYTES);
    f->count = (int64_t)(bytes / RECORD_BYTES);
    return sw_blob_settle(&f->blob, 0, RECORD_BYTES, (uint64_t)f->count, err);
}

static int scan_labels(struct cifar_file *f, unsigned char *buffer, struct sw_err *err)
{
    f->label = sw_os()->alloc((size_t)f->count);
    if (!f->label)
        return sw_err_nomem(err, "labels of CIFAR-10", (size_t)f->count);
    for (int64_t at = 0; at < f->count; at += SCAN_RECORDS) {
        const int64_t n = f->count - at < SCAN_RECORDS ? f->count - at : SCAN_RECORDS;
        const void *view = NULL;
        int rc = sw_blob_view(&f->blob, (uint64_t)at * RECORD_BYTES, (size_t)n * RECORD_BYTES,
                              buffer, &view, err);
        if (rc)
            return rc;
        for (int64_t i = 0; i < n; i++) {
            const unsigned char label = ((const unsigned char *)view)[i * RECORD_BYTES];
            if (label >= CLASSES)
                return sw_err_set(err, SW_ERR_FORMAT, "%s: record %lld: label %d, expected 0 to %d",
                                  f->blob.path, (long long)(at + i), label, CLASSES - 1);
            f->label[at + i] = label;
        }
    }
    return SW_OK;
}

static int open_file(struct sw_records *r, struct cifar_file *f, const char *path,
                     unsigned char *buffer, struct sw_err *err)
{
    int rc = sw_blob_open(&f->blob, path, err);
    if (!rc)
        rc = check_size(f, err);
    if (!rc)
        rc = scan_labels(f, buffer, err);
    f->first = r->count;
    r->count += f->count;
    return rc;
}

static int open_all(struct sw_records *r, const struct sw_files *files, struct sw_err *err)
{
    struct cifar_state *s = r->state;
    const size_t buffer_bytes = (size_t)SCAN_RECORDS * RECORD_BYTES;
    unsigned char *buffer = sw_os()->alloc(buffer_bytes);
    int rc = SW_OK;
    s->file = sw_calloc((size_t)files->count, sizeof *s->file);
    if (!buffer || !s->file)
        rc = sw_err_nomem(err, "a buffer to read CIFAR-10", buffer_bytes);
    else
        s->count = files->count;
    for (int i = 0; !rc && i < s->count; i++)
        rc = open_file(r, &s->file[i], files->path[i], buffer, err);
    sw_free(buffer);
    return rc;
}

static int cifar10_open(struct sw_records *r, const struct sw_format_args *args, struct sw_err *err)
{
    const struct cifar_conf *conf = args->conf;
    struct sw_files files = {0};
    int rc = sw_files_expand(&files, &conf->paths, "paths", err);
    if (rc)
        return rc;
    rc = open_all(r, &files, err);
    if (rc)
        goto done;
    r->classes = CLASSES;
    r->files = files.count;
    r->field[0] = (struct sw_field){"image", SW_U8, 3, {3, 32, 32}};
    r->field[1] = (struct sw_field){.name = "label", .dtype = SW_I32};
    r->field_count = 2;
    r->where = sw_files_text(&files);
    if (!r->where)
        rc = sw_err_nomem(err, "the name of a data file", 0);
done:
    sw_files_fini(&files);
    return rc;
}

static void cifar10_close(struct sw_records *r)
{
    struct cifar_state *s = r->state;
    for (int i = 0; i < s->count; i++) {
        sw_blob_close(&s->file[i].blob);
        sw_free(s->file[i].label);
    }
    sw_free(s->file);
}

static int cifar10_fetch(const struct sw_records *r, int64_t record, int f, void *scratch,
                         const void **out, struct sw_err *err)
{
    const struct cifar_state *s = r->state;
    const struct cifar_file *file = s->file;
    while (record >= file->first + file->count)
        file++;
    const int64_t i = record - file->first;
    if (f == 1) {
        *(int32_t *)scratch = file->label[i];
        *out = scratch;
        return SW_OK;
    }
    int rc =
        sw_blob_view(&file->blob, (uint64_t)i * RECORD_BYTES + 1, PICTURE_BYTES, scratch, out, err);
    return rc ? sw_err_prefix(err, rc, "record %lld", (long long)i) : SW_OK;
}

static const struct sw_opt cifar10_opts[] = {
    {.key = "paths",
     .help = "data files, plain or .gz: a list, each may be a pattern with * and ?",
     .offset = offsetof(struct cifar_conf, paths),
     .type = SW_OPT_STRINGS,
     .required = true},
    {0},
};

const struct sw_format sw_format_cifar10 = {
    .base = {.name = "cifar10",
             .help = "CIFAR-10, binary version: 3x32x32 pictures in 10 classes",
             .opts = cifar10_opts,
             .conf_bytes = sizeof(struct cifar_conf)},
    .implied = {.records = 10000, .classes = CLASSES, .channels = 3, .height = 32, .width = 32},
    .state_bytes = sizeof(struct cifar_state),
    .open = cifar10_open,
    .close = cifar10_close,
    .fetch = cifar10_fetch,
};
