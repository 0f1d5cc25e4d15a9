/* Codes and values of vectors. A task computes the values of some rows, of which codes keep the
 * signs. The contract is in search/encoder.h. */
#include "search/encoder.h"

#include "base/hash.h"
#include "base/os.h"
#include "base/philox.h"
#include "search/parallel.h"
#include "tensor/fill.h"
#include <math.h>
#include <string.h>

enum { CHUNK = 256, ROWS = 256 };

/* ---- Parts ------------------------------------------------------------------------------------
 */

uint64_t sw_encoder_part_count(const struct sw_encoder *e, enum sw_encoder_part part)
{
    const uint64_t features = (uint64_t)sw_encoder_features(e), bits = (uint64_t)e->bits;

    switch (part) {
    case SW_ENCODER_CENTER:
        return features;
    case SW_ENCODER_PLANES:
        return bits * features;
    case SW_ENCODER_ANCHORS:
        return (uint64_t)e->anchors * (uint64_t)e->dims;
    default:
        return bits;
    }
}

float *sw_encoder_room(struct sw_encoder *e, enum sw_encoder_part part, struct sw_err *err)
{
    const uint64_t count = sw_encoder_part_count(e, part);
    float *room = sw_calloc((size_t)count, sizeof *room);

    if (!room)
        sw_err_nomem(err, "an encoder", (size_t)count * sizeof *room);
    e->part[part] = room;
    return room;
}

void sw_encoder_fini(struct sw_encoder *e)
{
    for (int part = 0; part < SW_ENCODER_PARTS; part++)
        sw_free((void *)(uintptr_t)e->part[part]);
    *e = (struct sw_encoder){0};
}

void sw_encoder_random(const struct sw_vectors *v, int bits, uint64_t seed, float *center,
                       float *planes)
{
    const struct sw_philox key =
        sw_philox_stream(seed, SW_PURPOSE_INIT, sw_hash_name("search.planes"));
    const int64_t count = (int64_t)bits * v->dims;

    for (int d = 0; d < v->dims; d++) {
        double sum = 0;

        for (int64_t row = 0; row < v->count; row++)
            sum += (double)sw_vector(v, row)[d];
        center[d] = (float)(sum / (double)v->count);
    }

    for (int64_t i = 0; i < count; i += CHUNK) {
        float chunk[CHUNK];

        sw_fill_gaussian(key, (uint64_t)(i / CHUNK), 0, 1, chunk);
        memcpy(planes + i, chunk, (size_t)(count - i < CHUNK ? count - i : CHUNK) * sizeof *chunk);
    }
}

/* ---- Encoding ---------------------------------------------------------------------------------
 */

struct encode {
    const struct sw_encoder *e;
    const struct sw_vectors *v;
    double *offset;  /* [bits]: plane . center - shift */
    float *features; /* [threads][anchors] */
    uint64_t *words; /* codes, or NULL */
    float *values;   /* or NULL */
};

/* Of features alone. */
struct represent {
    const struct sw_encoder *e;
    const struct sw_vectors *v;
    float *out;
};

static double product(const float *a, const float *b, int dims)
{
    return -sw_vector_distance(SW_METRIC_DOT, a, b, dims);
}

/* The features of a vector: itself, or its distances, which are written to out [anchors]. */
static const float *features_of(const struct sw_encoder *e, const float *vector, float *out)
{
    const float *anchor = e->part[SW_ENCODER_ANCHORS];
    if (!anchor)
        return vector;

    for (int i = 0; i < e->anchors; i++, anchor += e->dims)
        out[i] = (float)sqrt(sw_vector_distance(SW_METRIC_EUCLIDEAN, vector, anchor, e->dims));
    return out;
}

static int run_task(void *user, int64_t task, int thread, struct sw_err *err)
{
    const struct encode *c = user;
    const struct sw_encoder *e = c->e;
    const float *planes = e->part[SW_ENCODER_PLANES], *waves = e->part[SW_ENCODER_WAVES];
    const int row_words = sw_code_words(e->bits), features = sw_encoder_features(e);
    const int64_t end = (task + 1) * ROWS;

    for (int64_t row = task * ROWS; row < end && row < c->v->count; row++) {
        const float *at =
            features_of(e, sw_vector(c->v, row), c->features + (int64_t)thread * e->anchors);
        uint64_t *code = c->words ? c->words + row * row_words : NULL;

        for (int w = 0; code && w < row_words; w++)
            code[w] = 0;

        for (int j = 0; j < e->bits; j++) {
            double value = product(planes + (int64_t)j * features, at, features) - c->offset[j];

            if (waves)
                value = cos((double)waves[j] * value);
            if (code && value > 0)
                code[j / 64] |= (uint64_t)1 << (j % 64);
            if (c->values)
                c->values[row * e->bits + j] = (float)value;
        }
    }

    return SW_OK;
}

static int encode(struct encode *c, int threads, struct sw_err *err)
{
    const struct sw_encoder *e = c->e;
    const float *const *part = e->part;
    const int features = sw_encoder_features(e);

    c->offset = sw_calloc((size_t)e->bits, sizeof *c->offset);
    c->features = sw_calloc((size_t)threads * (size_t)e->anchors + 1, sizeof *c->features);
    int rc = c->offset && c->features ? SW_OK : sw_err_nomem(err, "an encoder", 0);

    for (int j = 0; rc == SW_OK && j < e->bits; j++)
        c->offset[j] = product(part[SW_ENCODER_PLANES] + (int64_t)j * features,
                               part[SW_ENCODER_CENTER], features) -
                       (part[SW_ENCODER_SHIFTS] ? (double)part[SW_ENCODER_SHIFTS][j] : 0);

    if (rc == SW_OK)
        rc = sw_search_parallel(threads, (c->v->count + ROWS - 1) / ROWS, run_task, c, err);
    sw_free(c->offset);
    sw_free(c->features);
    return rc;
}

int sw_encoder_encode(const struct sw_encoder *e, const struct sw_vectors *v, int threads,
                      uint64_t *words, struct sw_err *err)
{
    struct encode c = {.e = e, .v = v, .words = words};

    return encode(&c, threads, err);
}

int sw_encoder_values(const struct sw_encoder *e, const struct sw_vectors *v, int threads,
                      float *out, struct sw_err *err)
{
    struct encode c = {.e = e, .v = v, .values = out};

    return encode(&c, threads, err);
}

static int represent_task(void *user, int64_t task, int thread, struct sw_err *err)
{
    const struct represent *r = user;
    const int features = sw_encoder_features(r->e);
    const int64_t end = (task + 1) * ROWS;

    for (int64_t row = task * ROWS; row < end && row < r->v->count; row++) {
        float *out = r->out + row * features;
        const float *at = features_of(r->e, sw_vector(r->v, row), out);

        if (at != out)
            memcpy(out, at, (size_t)features * sizeof *out);
    }

    return SW_OK;
}

int sw_encoder_features_of(const struct sw_encoder *e, const struct sw_vectors *v, int threads,
                           float *out, struct sw_err *err)
{
    struct represent r = {e, v, out};

    return sw_search_parallel(threads, (v->count + ROWS - 1) / ROWS, represent_task, &r, err);
}
