/* Fetching rows from a source: the working memory of one thread, and the way from a sample's number
 * to finished rows. A few records are read, then the same few transformed, so that the time of each
 * can be told apart without asking the clock for every record. */
#include "base/os.h"
#include "data/source.h"
#include <string.h>

/* Raw records that fit a core's own cache are read before they are transformed. */
enum { SCRATCH_BYTES = 256 << 10, MAX_ROWS = 64, ALIGNMENT = 64 };

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

int sw_reader_init(struct sw_reader *r, const struct sw_source *s, struct sw_err *err)
{
    *r = (struct sw_reader){.source = s};
    for (int f = 0; f < s->field_count; f++) {
        r->field_offset[f] = r->row_bytes;
        r->row_bytes += aligned(sw_field_bytes(&s->raw.field[f]));
    }
    r->rows = (int64_t)(SCRATCH_BYTES / r->row_bytes);
    r->rows = r->rows < 1 ? 1 : r->rows > MAX_ROWS ? MAX_ROWS : r->rows;
    r->scratch_bytes = (size_t)r->rows * r->row_bytes;
    r->block = sw_os()->alloc(r->scratch_bytes + ALIGNMENT);
    r->raw = sw_calloc((size_t)r->rows * SW_MAX_FIELDS, sizeof *r->raw);
    if (!r->block || !r->raw) {
        size_t bytes = r->scratch_bytes;
        sw_reader_fini(r);
        return sw_err_nomem(err, "a buffer for raw records", bytes);
    }
    r->scratch = r->block + (ALIGNMENT - (uintptr_t)r->block % ALIGNMENT) % ALIGNMENT;
    return SW_OK;
}

void sw_reader_fini(struct sw_reader *r)
{
    sw_free(r->block);
    sw_free(r->raw);
    *r = (struct sw_reader){0};
}

int64_t sw_source_record(struct sw_reader *r, int64_t sample)
{
    const struct sw_source *s = r->source;
    if (!s->training)
        return sw_subset_record(&s->subset, sample);
    if (!s->shuffle)
        return sw_subset_record(&s->subset, sample % s->records);
    const uint64_t epoch = (uint64_t)(sample / s->records);
    if (r->order.count != s->records || r->order.epoch != epoch)
        sw_permutation_init(&r->order, s->shuffle_key, epoch, s->records);
    return sw_subset_record(&s->subset, sw_permutation_at(&r->order, sample % s->records));
}

/* Reads `rows` raw records, the first being sample `first`, into r->raw. */
static int read_some(struct sw_reader *r, int64_t first, int64_t rows, void *const *wanted,
                     struct sw_err *err)
{
    const struct sw_source *s = r->source;
    for (int64_t i = 0; i < rows; i++) {
        const int64_t record = sw_source_record(r, first + i);
        for (int f = 0; f < s->field_count; f++) {
            void *scratch = r->scratch + (size_t)i * r->row_bytes + r->field_offset[f];
            if (!wanted[f])
                continue;
            int rc = s->raw.format->fetch(&s->raw, record, f, scratch,
                                          &r->raw[i * SW_MAX_FIELDS + f], err);
            if (rc)
                return sw_err_prefix(err, rc, "data %s", s->name);
        }
    }
    return SW_OK;
}

/* Turns r->raw into finished rows; out row 0 is sample `first`. */
static void finish_some(struct sw_reader *r, int64_t first, int64_t rows, int image,
                        void *const *out, int64_t out_row)
{
    const struct sw_source *s = r->source;
    for (int f = 0; f < s->field_count; f++) {
        const size_t bytes = sw_field_bytes(&s->field[f]);
        unsigned char *to = out[f] ? (unsigned char *)out[f] + (size_t)out_row * bytes : NULL;
        for (int64_t i = 0; to && i < rows; i++, to += bytes) {
            const void *raw = r->raw[i * SW_MAX_FIELDS + f];
            if (f == image)
                sw_transform_row(&s->transform,
                                 sw_transform_place(&s->transform, s->augment_key, first + i), raw,
                                 (float *)(void *)to);
            else
                memcpy(to, raw, bytes);
        }
    }
}

int sw_source_fetch(struct sw_reader *r, int64_t first, int64_t count,
                    void *const field_out[SW_MAX_FIELDS], struct sw_err *err)
{
    const int image = sw_source_find(r->source, "image");
    r->read_ms = r->decode_ms = 0;
    int64_t before = sw_os()->monotonic_ns();
    for (int64_t done = 0; done < count; done += r->rows) {
        const int64_t rows = count - done < r->rows ? count - done : r->rows;
        int rc = read_some(r, first + done, rows, field_out, err);
        const int64_t between = sw_os()->monotonic_ns();
        if (rc)
            return rc;
        finish_some(r, first + done, rows, image, field_out, done);
        const int64_t after = sw_os()->monotonic_ns();
        r->read_ms += (double)(between - before) * 1e-6;
        r->decode_ms += (double)(after - between) * 1e-6;
        before = after;
    }
    return SW_OK;
}
