/* Parses Caffe's Datum: walks over the fields of the protobuf message, stores the known ones, and
 * checks that sizes and data agree. Pure; any thread. */
#include "data/datum.h"
#include <string.h>

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };
enum { CHANNELS = 1, HEIGHT, WIDTH, DATA, LABEL, FLOATS, ENCODED };
enum { MAX_SIDE = 65535, MAX_VARINT = 10 };

/* Walks over the fields of a message. */
struct walk {
    const unsigned char *at, *end;
    /* the current field */
    uint32_t number, wire;
    uint64_t value;             /* VARINT: its value; BYTES: their count */
    const unsigned char *bytes; /* BYTES, FIXED32, FIXED64 */
};

static bool read_varint(struct walk *w, uint64_t *value)
{
    *value = 0;
    for (int i = 0; i < MAX_VARINT && w->at < w->end; i++) {
        const unsigned char byte = *w->at++;
        *value |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (!(byte & 0x80))
            return true;
    }

    return false;
}

static bool take(struct walk *w, uint64_t bytes)
{
    if (bytes > (uint64_t)(w->end - w->at))
        return false;

    w->bytes = w->at;
    w->at += bytes;
    return true;
}

/* Reads the next field. False at the end, and on an invalid field (then at < end). */
static bool next(struct walk *w)
{
    const unsigned char *begin = w->at;
    uint64_t key;
    bool ok = w->at < w->end && read_varint(w, &key);

    if (ok) {
        w->number = key >> 3 > UINT32_MAX ? 0 : (uint32_t)(key >> 3);
        w->wire = key & 7;
        ok = w->number != 0;
    }

    if (ok && w->wire == VARINT)
        ok = read_varint(w, &w->value);
    else if (ok && w->wire == BYTES)
        ok = read_varint(w, &w->value) && take(w, w->value);
    else if (ok && (w->wire == FIXED32 || w->wire == FIXED64))
        ok = take(w, w->wire == FIXED32 ? 4 : 8);
    else
        ok = false; /* groups are not used in a Datum */

    if (!ok)
        w->at = begin;
    return ok;
}

/* Whether the wire type fits the field; floats may be packed or not. */
static bool wire_fits(const struct walk *w)
{
    switch (w->number) {
    case CHANNELS:
    case HEIGHT:
    case WIDTH:
    case LABEL:
    case ENCODED:
        return w->wire == VARINT;
    case DATA:
        return w->wire == BYTES;
    case FLOATS:
        return w->wire == FIXED32 || (w->wire == BYTES && w->value % 4 == 0);
    default:
        return true;
    }
}

static void take_field(struct sw_datum *d, const struct walk *w, bool *encoded)
{
    int64_t side = w->value > (uint64_t)INT64_MAX ? -1 : (int64_t)w->value;

    switch (w->number) {
    case CHANNELS:
        d->channels = side;
        break;
    case HEIGHT:
        d->height = side;
        break;
    case WIDTH:
        d->width = side;
        break;
    case DATA:
        d->data = w->bytes;
        d->bytes = (size_t)w->value;
        break;
    case LABEL:
        d->has_label = true;
        d->label = (int32_t)(uint32_t)w->value;
        break;
    case FLOATS:
        d->floats += w->wire == FIXED32 ? 1 : (size_t)(w->value / 4);
        break;
    case ENCODED:
        *encoded = w->value != 0;
        break;
    default:
        break;
    }
}

static bool is_side(int64_t v)
{
    return v >= 1 && v <= MAX_SIDE;
}

static int check_sizes(struct sw_datum *d, bool encoded, struct sw_err *err)
{
    if (encoded && d->bytes > 0) {
        d->kind = SW_DATUM_ENCODED;
        return SW_OK;
    }
    if (encoded)
        return sw_err_set(err, SW_ERR_FORMAT, "the encoded image has no bytes");

    const size_t count = d->floats && !d->bytes ? d->floats : d->bytes;
    d->kind = d->floats && !d->bytes ? SW_DATUM_F32 : SW_DATUM_U8;
    if (!is_side(d->channels) || !is_side(d->height) || !is_side(d->width))
        return sw_err_set(
            err, SW_ERR_FORMAT,
            "image of %lldx%lldx%lld (channels x height x width), expected 1 to %d for each",
            (long long)d->channels, (long long)d->height, (long long)d->width, MAX_SIDE);

    if ((uint64_t)d->channels * (uint64_t)d->height * (uint64_t)d->width != count)
        return sw_err_set(err, SW_ERR_FORMAT, "has %zu %s, expected %lldx%lldx%lld", count,
                          d->kind == SW_DATUM_F32 ? "floats" : "bytes", (long long)d->channels,
                          (long long)d->height, (long long)d->width);

    return SW_OK;
}

int sw_datum_parse(const void *message, size_t bytes, struct sw_datum *d, struct sw_err *err)
{
    struct walk w = {.at = message, .end = (const unsigned char *)message + bytes};
    bool encoded = false;

    *d = (struct sw_datum){0};

    while (next(&w)) {
        if (!wire_fits(&w))
            return sw_err_set(err, SW_ERR_FORMAT, "not a Caffe Datum: field %u has wire type %u",
                              w.number, w.wire);
        take_field(d, &w, &encoded);
    }

    if (w.at < w.end)
        return sw_err_set(err, SW_ERR_FORMAT, "not a Caffe Datum: invalid field at byte %zu of %zu",
                          (size_t)(w.at - (const unsigned char *)message), bytes);

    return check_sizes(d, encoded, err);
}

void sw_datum_floats(const void *message, size_t bytes, size_t count, float *out)
{
    struct walk w = {.at = message, .end = (const unsigned char *)message + bytes};

    while (next(&w)) {
        if (w.number != FLOATS)
            continue;

        const size_t has = w.wire == FIXED32 ? 1 : (size_t)w.value / 4;
        const size_t n = has < count ? has : count;
        memcpy(out, w.bytes, n * sizeof *out);
        out += n;
        count -= n;
    }
}
