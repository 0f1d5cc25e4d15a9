/* Fetches rows from a source: the working memory of one thread, and the path from a sample number
 * to finished rows. A few records are read, then these are transformed, so that the times of both
 * can be measured without reading the clock for every record. Images that must be decoded are
 * handled one at a time, since decoding takes much longer than reading the clock.
 *
 * A sample maps to a position in the section, and a position to a record. If a bad record is
 * skipped, the sample uses the next position, so the substitute depends only on the record. */
#include "base/os.h"
#include "base/stop.h"
#include "data/source.h"
#include <string.h>

/* The size of raw records read before they are transformed; fits the cache of a core. */
enum { SCRATCH_BYTES = 256 << 10, MAX_ROWS = 64, ALIGNMENT = 64 };
/* Software prefetch: how many rows ahead, and how many bytes of each; the processor prefetches what
 * follows. */
enum { ROWS_AHEAD = 2, PREFETCH_BYTES = 4096 };

static int64_t rows_at_once(const struct sw_reader *r)
{
    const int64_t fit = r->row_bytes ? (int64_t)(SCRATCH_BYTES / r->row_bytes) : MAX_ROWS;
    if (r->source->raw.has_pictures)
        return 1;
    return fit < 1 ? 1 : fit > MAX_ROWS ? MAX_ROWS : fit;
}

/* Whether a decoder is needed: for images, and for pixels whose three channels are converted to
 * one. */
static bool needs_decoder(const struct sw_source *s)
{
    const int image = sw_source_find(s, "image");
    const struct sw_field *raw = &s->raw.field[image < 0 ? 0 : image];
    return s->raw.has_pictures ||
           (image >= 0 && s->transform.channels == 1 && raw->ndim == 3 && raw->dim[0] == 3);
}

static int take_memory(struct sw_reader *r, struct sw_err *err)
{
    const size_t rows = (size_t)r->rows;

    r->block = sw_os()->alloc(r->scratch_bytes + ALIGNMENT);
    r->raw = sw_calloc(rows * SW_MAX_FIELDS, sizeof *r->raw);

    r->place = sw_calloc(rows, sizeof *r->place);
    if (!r->block || !r->raw || !r->place)
        return sw_err_nomem(err, "a buffer for raw records", r->scratch_bytes);

    r->scratch = r->block + (ALIGNMENT - (uintptr_t)r->block % ALIGNMENT) % ALIGNMENT;

    int rc = needs_decoder(r->source) ? sw_decoder_new(&r->decoder, err) : SW_OK;
    if (r->decoder)
        sw_decoder_limit(r->decoder, r->source->raw.max_pixels);
    if (!rc && r->source->raw.picture_bytes)
        rc = sw_room_need(&r->room, r->source->raw.picture_bytes, "an image", err);

    return rc;
}

int sw_reader_init(struct sw_reader *r, const struct sw_source *s, struct sw_err *err)
{
    *r = (struct sw_reader){.source = s};
    for (int f = 0; f < s->field_count; f++) {
        r->field_offset[f] = r->row_bytes;
        r->row_bytes += sw_aligned(sw_field_bytes(&s->raw.field[f]), ALIGNMENT);
    }

    r->rows = rows_at_once(r);
    r->scratch_bytes = (size_t)r->rows * r->row_bytes;

    int rc = take_memory(r, err);
    if (rc)
        sw_reader_fini(r);

    return rc;
}

void sw_reader_fini(struct sw_reader *r)
{
    sw_free(r->block);
    sw_free(r->raw);
    sw_free(r->place);
    sw_decoder_free(r->decoder);
    sw_room_fini(&r->room);
    sw_transform_work_fini(&r->work);
    *r = (struct sw_reader){0};
}

/* ---- Which record ---- */

static int64_t place_of(struct sw_reader *r, int64_t sample)
{
    const struct sw_source *s = r->source;
    if (!s->training)
        return sample;
    if (!s->shuffle)
        return sample % s->records;

    const uint64_t epoch = (uint64_t)(sample / s->records);
    if (r->order.count != s->records || r->order.epoch != epoch)
        sw_permutation_init(&r->order, s->shuffle_key, epoch, s->records);

    return sw_permutation_at(&r->order, sample % s->records);
}

int sw_source_locate(const struct sw_source *s, int64_t *record, char **where, struct sw_err *err)
{
    struct sw_bytes text = {0};

    *record = sw_subset_record(&s->subset, *record);
    if (s->raw.format->locate)
        s->raw.format->locate(&s->raw, *record, &text);
    *where = text.failed ? NULL : sw_strdup(text.length ? sw_bytes_text(&text) : "");
    sw_bytes_fini(&text);

    return *where ? SW_OK : sw_err_nomem(err, "the location of a record", 0);
}

int64_t sw_source_record(struct sw_reader *r, int64_t sample)
{
    return sw_subset_record(&r->source->subset, place_of(r, sample));
}

/* ---- Bad records ---- */

int64_t sw_source_skipped(const struct sw_source *s)
{
    /* Relaxed: for display only. */
    return __atomic_load_n(&s->bad->count, __ATOMIC_RELAXED);
}

bool sw_source_is_bad(const struct sw_source *s, int64_t place)
{
    /* Relaxed: a thread that does not see the bit yet detects the bad record again. */
    return s->bad->skip &&
           __atomic_load_n(&s->bad->bits[place / 8], __ATOMIC_RELAXED) >> place % 8 & 1;
}

/* Whether an error concerns only the record, and the section skips bad records. */
static bool may_skip(const struct sw_source *s, int code)
{
    return s->bad->skip &&
           (code == SW_ERR_FORMAT || code == SW_ERR_UNSUPPORTED || code == SW_ERR_NOTFOUND);
}

static void mark_bad(const struct sw_source *s, int64_t place, const struct sw_err *why)
{
    struct sw_bad_records *bad = s->bad;
    const unsigned char bit = (unsigned char)(1 << place % 8);
    if (__atomic_fetch_or(&bad->bits[place / 8], bit, __ATOMIC_RELAXED) & bit)
        return; /* already marked by another thread */

    __atomic_add_fetch(&bad->count, 1, __ATOMIC_RELAXED);
    if (bad->report)
        bad->report(bad->user, why->text);
}

/* ---- Reading ---- */

/* Prefixes the error with the location of the record, for formats that provide it separately. */
static int add_place(const struct sw_source *s, int64_t place, int rc, struct sw_err *err)
{
    struct sw_bytes where = {0};

    if (!s->raw.format->locate)
        return rc;

    sw_records_locate(&s->raw, sw_subset_record(&s->subset, place), &where);
    rc = sw_err_prefix(err, rc, "%s", sw_bytes_text(&where));
    sw_bytes_fini(&where);

    return rc;
}

static int read_record(struct sw_reader *r, int64_t i, void *const *wanted, struct sw_err *err)
{
    const struct sw_source *s = r->source;
    const int64_t record = sw_subset_record(&s->subset, r->place[i]);
    int rc = sw_stop_check(err);

    for (int f = 0; !rc && f < s->field_count; f++) {
        void *scratch = r->scratch + (size_t)i * r->row_bytes + r->field_offset[f];

        if (!wanted[f])
            continue;

        if (s->raw.has_pictures && f == s->raw.picture_field)
            rc = s->raw.format->fetch_picture(&s->raw, record, &r->room, &r->image, err);
        else
            rc = s->raw.format->fetch(&s->raw, record, f, scratch, &r->raw[i * SW_MAX_FIELDS + f],
                                      err);
    }

    return rc;
}

/* Adds context to the error. Returns true, and marks the record as bad, if it is skipped; else *rc
 * is the error. */
static bool skips_error(const struct sw_source *s, int64_t place, int *rc, struct sw_err *err)
{
    *rc = sw_err_prefix(err, add_place(s, place, *rc, err), "data %s", s->name);
    if (may_skip(s, *rc))
        mark_bad(s, place, err);
    return may_skip(s, *rc);
}

static int none_readable(const struct sw_source *s, struct sw_err *err)
{
    return sw_err_set(err, SW_ERR_FORMAT, "none of the %lld records can be read",
                      (long long)s->records);
}

/* Reads the record at r->place[i], or the next one that is not bad. */
static int read_row(struct sw_reader *r, int64_t i, void *const *wanted, struct sw_err *err)
{
    const struct sw_source *s = r->source;

    for (int64_t tried = 0; tried < s->records; tried++) {
        if (!sw_source_is_bad(s, r->place[i])) {
            int rc = read_record(r, i, wanted, err);
            if (rc == SW_OK || !skips_error(s, r->place[i], &rc, err))
                return rc;
        }

        r->place[i] = (r->place[i] + 1) % s->records;
    }

    return sw_err_prefix(err, none_readable(s, err), "data %s", s->name);
}

/* ---- Finishing ---- */

/* Decodes the part of an image that the view requires. */
static int decode(struct sw_reader *r, const struct sw_picture *image, struct sw_view *v,
                  int64_t sample, struct sw_pixels *pixels, struct sw_err *err)
{
    const struct sw_source *s = r->source;
    struct sw_picture_head head;
    struct sw_picture_part part;
    int64_t height, width;

    int rc = sw_decoder_open(r->decoder, image, &head, err);
    if (rc)
        return rc;
    rc = sw_transform_view(&s->transform, s->augment_key, sample, head.height, head.width, v, err);
    if (rc)
        return rc;

    sw_decoder_shrink(r->decoder, v->height, v->width, &height, &width);
    rc = sw_transform_need(v, &r->work, height, width, &part, err);
    if (rc)
        return rc;

    return sw_decoder_read(r->decoder, s->transform.channels, part, pixels, err);
}

/* Selects the part that the view requires of pixels in memory that need no conversion. */
static int select_pixels(struct sw_reader *r, const struct sw_field *field, const void *raw,
                         struct sw_view *v, int64_t sample, struct sw_pixels *pixels,
                         struct sw_err *err)
{
    const struct sw_transform *t = &r->source->transform;
    const int64_t plane = t->height * t->width;
    struct sw_picture_part part;

    int rc = sw_transform_view(t, r->source->augment_key, sample, t->height, t->width, v, err);
    if (rc)
        return rc;
    rc = sw_transform_need(v, &r->work, t->height, t->width, &part, err);
    if (rc)
        return rc;

    const int64_t first = part.top * t->width + part.left;
    const bool gray = sw_field_count(field) == plane;
    *pixels = (struct sw_pixels){
        .dtype = field->dtype,
        .data = (const unsigned char *)raw + first * (int64_t)sw_dtype_bytes(field->dtype),
        .channels = t->channels,
        .height = part.height,
        .width = part.width,
        .channel_step = gray ? 0 : plane,
        .row_step = t->width,
        .pixel_step = 1,
    };

    return SW_OK;
}

static int finish_image(struct sw_reader *r, int64_t sample, int image, const void *raw, void *out,
                        struct sw_err *err)
{
    const struct sw_source *s = r->source;
    const struct sw_field *field = &s->raw.field[image];
    struct sw_picture input = r->image;
    struct sw_view v;
    struct sw_pixels pixels;
    int rc;

    if (!s->raw.has_pictures)
        input = (struct sw_picture){false,         raw,           sw_field_bytes(field),
                                    field->dim[0], field->dim[1], field->dim[2]};

    if (r->decoder)
        rc = decode(r, &input, &v, sample, &pixels, err);
    else
        rc = select_pixels(r, field, raw, &v, sample, &pixels, err);

    if (rc)
        return rc;
    if (!r->pixels || !s->pixels_bytes)
        return sw_transform_run(&s->transform, &r->work, &v, &pixels, out, err);

    sw_transform_pack(&s->transform, &v, &pixels, out);
    return SW_OK;
}

/* Checks the labels of a field against the range that the net accepts. */
static int check_labels(const struct sw_source *s, int f, int64_t place, const void *raw,
                        struct sw_err *err)
{
    const struct sw_label_range *range = &s->labels[f];
    const int64_t count = range->classes ? sw_field_count(&s->field[f]) : 0; /* integers */
    struct sw_bytes where = {0};

    for (int64_t i = 0; i < count; i++) {
        int32_t label;

        memcpy(&label, (const char *)raw + (size_t)i * sizeof label, sizeof label);
        if ((label >= 0 && label < range->classes) || (range->ignores && label == range->ignored))
            continue;

        if (!s->raw.format->locate) /* else the caller adds the place */
            sw_records_locate(&s->raw, sw_subset_record(&s->subset, place), &where);
        sw_err_set(
            err, SW_ERR_INVALID,
            "%s%s%s %d, but layer %s has scores for %lld classes (0 to %lld): give the layer "
            "before it more outputs, or correct the record",
            sw_bytes_text(&where), where.length ? ": " : "", s->field[f].name, label, range->layer,
            (long long)range->classes, (long long)range->classes - 1);
        sw_bytes_fini(&where);
        return SW_ERR_INVALID;
    }

    return SW_OK;
}

/* Copies a field other than pictures; one that an input layer transforms becomes floats. */
static int copy_field(struct sw_reader *r, int f, const void *raw, void *to, size_t bytes,
                      struct sw_err *err)
{
    const struct sw_source *s = r->source;

    memcpy(to, raw, bytes);
    if (!s->scaling[f].count)
        return SW_OK;

    if (s->raw.field[f].dtype == SW_I32) {
        int32_t whole;
        memcpy(&whole, raw, sizeof whole);
        *(float *)to = (float)whole;
    }

    if (!s->scaling[f].known)
        return SW_OK;

    int rc = sw_scaling_apply(&s->scaling[f], &r->work.field, to, err);
    return rc ? sw_err_prefix(err, rc, "%s", s->field[f].name) : SW_OK;
}

static int finish_row(struct sw_reader *r, int64_t sample, int64_t i, int image, void *const *out,
                      int64_t out_row, struct sw_err *err)
{
    const struct sw_source *s = r->source;
    int rc = SW_OK;

    for (int f = 0; !rc && f < s->field_count; f++) {
        const size_t bytes = sw_source_row_bytes(s, f, r->pixels);
        unsigned char *to = out[f] ? (unsigned char *)out[f] + (size_t)out_row * bytes : NULL;
        const void *raw = r->raw[i * SW_MAX_FIELDS + f];

        if (to && f == image && !s->scaling[f].count) {
            rc = finish_image(r, sample, f, raw, to, err);
        } else if (to) {
            rc = copy_field(r, f, raw, to, bytes, err);
            if (!rc)
                rc = check_labels(s, f, r->place[i], raw, err);
        }
    }

    return rc;
}

/* Finishes row i, which has been read. Decoding may reveal that the image is bad. */
static int finish(struct sw_reader *r, int64_t sample, int64_t i, int image, void *const *out,
                  int64_t out_row, struct sw_err *err)
{
    int rc = finish_row(r, sample, i, image, out, out_row, err);

    while (rc && skips_error(r->source, r->place[i], &rc, err)) {
        rc = read_row(r, i, out, err);
        if (rc)
            return rc;
        rc = finish_row(r, sample, i, image, out, out_row, err);
    }

    return rc;
}

/* Prefetches a record into the cache: records in random order would otherwise arrive with the
 * latency of memory. An invalid address is harmless. */
static void prefetch_record(const struct sw_reader *r, int64_t i)
{
    const struct sw_source *s = r->source;

    for (int f = 0; f < s->field_count && !s->raw.has_pictures; f++) {
        const char *raw = r->raw[i * SW_MAX_FIELDS + f];
        const size_t bytes = sw_field_bytes(&s->raw.field[f]);
        for (size_t at = 0; raw && at < bytes && at < PREFETCH_BYTES; at += ALIGNMENT)
            __builtin_prefetch(raw + at);
    }
}

int sw_source_fetch(struct sw_reader *r, int64_t first, int64_t count,
                    void *const field_out[SW_MAX_FIELDS], struct sw_err *err)
{
    const int image = sw_source_find(r->source, "image");
    struct sw_err own;

    err = err ? err : &own; /* errors of skipped records are written here too */
    r->read_ms = r->decode_ms = 0;

    int64_t before = sw_os()->monotonic_ns();
    for (int64_t done = 0; done < count; done += r->rows) {
        const int64_t rows = count - done < r->rows ? count - done : r->rows;
        int rc = SW_OK;

        for (int64_t i = 0; !rc && i < rows; i++) {
            r->place[i] = place_of(r, first + done + i);
            rc = read_row(r, i, field_out, err);
        }

        const int64_t between = sw_os()->monotonic_ns();
        for (int64_t i = -ROWS_AHEAD; !rc && i < rows; i++) {
            if (i + ROWS_AHEAD < rows)
                prefetch_record(r, i + ROWS_AHEAD);
            if (i >= 0)
                rc = finish(r, first + done + i, i, image, field_out, done + i, err);
        }

        if (rc)
            return rc;

        const int64_t after = sw_os()->monotonic_ns();
        r->read_ms += (double)(between - before) * 1e-6;
        r->decode_ms += (double)(after - between) * 1e-6;
        before = after;
    }

    int rc = sw_records_check(&r->source->raw, err);
    return rc ? sw_err_prefix(err, rc, "data %s", r->source->name) : SW_OK;
}

/* Skipped records are not reported here, because they are fetched again later. */
int sw_reader_peek(struct sw_reader *r, int64_t place, int64_t *height, int64_t *width,
                   struct sw_err *err)
{
    const struct sw_source *s = r->source;
    void *wanted[SW_MAX_FIELDS] = {0};
    struct sw_picture_head head;

    wanted[s->raw.picture_field] = r; /* any non-NULL address: fetch only this field */
    for (; place < s->records; place++) {
        r->place[0] = place;

        int rc = read_record(r, 0, wanted, err);
        if (!rc)
            rc = sw_decoder_open(r->decoder, &r->image, &head, err);
        if (rc) {
            if (may_skip(s, rc))
                continue;
            return add_place(s, place, rc, err);
        }

        *height = head.height;
        *width = head.width;
        return SW_OK;
    }

    return none_readable(s, err);
}
