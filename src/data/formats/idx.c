/* IDX, the format of MNIST and related data sets (Yann LeCun, "The MNIST database", section "File
 * formats"): two zero bytes, the element type (8 is unsigned byte), the number of dimensions, each
 * dimension as a big-endian 32-bit number, then the elements. Images have dimensions N, H, W or N,
 * C, H, W; labels have N. Several image files go with as many label files, in the same order. */
#include "data/blob.h"
#include "data/files.h"
#include "data/format.h"
#include "data/format_opts.h"

enum { IDX_U8 = 8, MAX_SIDE = 65535, HEADER_LABELS = 8 };

struct idx_conf {
    struct sw_strings paths;
    struct sw_strings labels, classes;
};

struct idx_file {
    struct sw_part part;
    struct sw_blob images, labels; /* labels are in memory, including their header */
    uint64_t header_bytes;
};

struct idx_state {
    struct sw_files labels;
    size_t picture_bytes;
};

struct idx_header {
    int ndim;
    uint64_t dim[4];
};

static uint32_t big_endian(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Reads and checks a header with min_dims .. max_dims dimensions. */
static int read_header(struct sw_blob *b, int min_dims, int max_dims, struct idx_header *h,
                       struct sw_err *err)
{
    unsigned char raw[4 + 4 * 4];

    int rc = sw_blob_head(b, raw, 4, err);
    if (rc)
        return rc;

    if (raw[0] || raw[1] || raw[3] < 1)
        return sw_err_set(
            err, SW_ERR_FORMAT,
            "%s: not an IDX file: it begins with %02x %02x %02x %02x, expected 00 00 08 0%d",
            b->path, raw[0], raw[1], raw[2], raw[3], min_dims);

    if (raw[2] != IDX_U8)
        return sw_err_set(
            err, SW_ERR_UNSUPPORTED,
            "%s: IDX elements have type 0x%02x; only unsigned bytes (0x08) are supported", b->path,
            raw[2]);

    if (raw[3] < min_dims || raw[3] > max_dims)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: has %d dimensions, expected %s", b->path, raw[3],
                          max_dims == 1 ? "1 (labels)" : "3 (N, H, W) or 4 (N, C, H, W)");

    h->ndim = raw[3];
    rc = sw_blob_head(b, raw, 4 + 4 * (size_t)h->ndim, err);
    for (int i = 0; !rc && i < h->ndim; i++)
        h->dim[i] = big_endian(raw + 4 + 4 * i);

    return rc;
}

/* Sets the shape of the image field from the first file, and checks it for the others. */
static int take_shape(struct sw_records *r, const struct idx_file *f, const struct idx_header *h,
                      struct sw_err *err)
{
    const uint64_t c = h->ndim == 4 ? h->dim[1] : 1, y = h->dim[h->ndim - 2],
                   x = h->dim[h->ndim - 1];
    struct sw_field *image = &r->field[0];

    if (h->dim[0] < 1 || c < 1 || c > MAX_SIDE || y < 1 || y > MAX_SIDE || x < 1 || x > MAX_SIDE ||
        c * y * x > INT32_MAX)
        return sw_err_set(
            err, SW_ERR_FORMAT,
            "%s: its header claims %llu images of %llux%llux%llu; expected at least one, with "
            "dimensions of 1 to %d and less than 2 GiB",
            f->images.path, (unsigned long long)h->dim[0], (unsigned long long)c,
            (unsigned long long)y, (unsigned long long)x, MAX_SIDE);

    const struct sw_field seen = {"image", SW_U8, 3, {(int64_t)c, (int64_t)y, (int64_t)x}};
    if (r->field_count == 0) {
        *image = seen;
        r->field[1] = (struct sw_field){.name = "label", .dtype = SW_I32};
        r->field_count = 2;
    }

    for (int i = 0; i < 3; i++) {
        if (seen.dim[i] != image->dim[i])
            return sw_err_set(
                err, SW_ERR_FORMAT,
                "%s: images of %llux%llux%llu, expected %lldx%lldx%lld as in the first file",
                f->images.path, (unsigned long long)c, (unsigned long long)y, (unsigned long long)x,
                (long long)image->dim[0], (long long)image->dim[1], (long long)image->dim[2]);
    }

    return SW_OK;
}

static int open_images(struct sw_records *r, struct idx_file *f, const char *path,
                       struct sw_err *err)
{
    struct idx_header h = {0};

    int rc = sw_blob_open(&f->images, path, r->max_bytes, err);
    if (rc)
        return rc;
    rc = read_header(&f->images, 3, 4, &h, err);
    if (rc)
        return rc;
    rc = take_shape(r, f, &h, err);
    if (rc)
        return rc;

    f->header_bytes = 4 + 4 * (uint64_t)h.ndim;
    r->count += (int64_t)h.dim[0];

    return sw_blob_check_size(&f->images, f->header_bytes, sw_field_bytes(&r->field[0]), h.dim[0],
                              err);
}

static int open_labels(struct sw_records *r, struct idx_file *f, const char *path,
                       struct sw_err *err)
{
    struct idx_header h = {0};
    const int64_t images = r->count - f->part.first;
    int rc = sw_blob_open(&f->labels, path, r->max_bytes, err);

    if (!rc)
        rc = read_header(&f->labels, 1, 1, &h, err);

    if (!rc && h.dim[0] != (uint64_t)images)
        rc = sw_err_set(
            err, SW_ERR_FORMAT,
            "%s: its header claims %llu labels, expected %lld, the number of images in %s", path,
            (unsigned long long)h.dim[0], (long long)images, f->images.path);

    if (!rc)
        rc = sw_blob_check_size(&f->labels, HEADER_LABELS, 1, h.dim[0], err);
    if (!rc)
        rc = sw_blob_load(&f->labels, err);

    for (int64_t i = 0; !rc && i < images; i++) {
        if (f->labels.memory[HEADER_LABELS + i] >= r->classes)
            r->classes = f->labels.memory[HEADER_LABELS + i] + 1;
    }

    return rc;
}

static int idx_open(struct sw_records *r, const struct sw_format_args *args, struct sw_err *err)
{
    const struct idx_conf *conf = args->conf;
    struct idx_state *s = r->state;

    int rc = sw_files_expand(&s->labels, &conf->labels, "labels", err);
    if (rc)
        return rc;
    if (args->files->count != s->labels.count)
        return sw_err_set(err, SW_ERR_INVALID,
                          "labels: %d files, expected %d, one for each file in paths",
                          s->labels.count, args->files->count);

    return SW_OK;
}

static int idx_open_part(struct sw_records *r, void *part, const char *path,
                         const struct sw_format_args *args, struct sw_err *err)
{
    struct idx_state *s = r->state;

    int rc = open_images(r, part, path, err);
    if (rc)
        return rc;

    s->picture_bytes = sw_field_bytes(&r->field[0]);
    return open_labels(r, part, s->labels.path[r->parts - 1], err);
}

static void idx_close_part(void *part)
{
    struct idx_file *f = part;
    sw_blob_close(&f->images);
    sw_blob_close(&f->labels);
}

static void idx_close(struct sw_records *r)
{
    struct idx_state *s = r->state;
    sw_files_fini(&s->labels);
}

static int idx_fetch(const struct sw_records *r, int64_t record, int f, void *scratch,
                     const void **out, struct sw_err *err)
{
    const struct idx_state *s = r->state;
    const struct idx_file *file = sw_records_part(r, record);
    const uint64_t i = (uint64_t)(record - file->part.first);

    if (f == 1) {
        *(int32_t *)scratch = file->labels.memory[HEADER_LABELS + i];
        *out = scratch;
        return SW_OK;
    }

    int rc = sw_blob_view(&file->images, file->header_bytes + i * s->picture_bytes,
                          s->picture_bytes, scratch, out, err);
    return rc ? sw_err_prefix(err, rc, "record %llu", (unsigned long long)i) : SW_OK;
}

static const struct sw_opt idx_opts[] = {
    SW_FORMAT_PATHS(struct idx_conf, "image files, plain or .gz"),
    SW_OPT(PATHS, struct idx_conf, labels,
           "label files, one for each file in paths, in the same order", .required = true),
    SW_FORMAT_CLASS_LIST(struct idx_conf),
    {0},
};

const struct sw_format sw_format_idx = {
    .base = SW_TYPE("idx", "IDX files of unsigned bytes (MNIST and related), plain or .gz",
                    struct idx_conf, idx_opts),
    .implied = {.records = 10000, .classes = 10, .channels = 1, .height = 28, .width = 28},
    .state_bytes = sizeof(struct idx_state),
    SW_FORMAT_PARTS(struct idx_file, idx_open_part, idx_close_part),
    SW_FORMAT_CALLS(idx_open, idx_close, idx_fetch),
};
