/* Codes of vectors by random hyperplanes. The contract is in search/encoder.h. */
#include "search/encoder.h"

#include "base/hash.h"
#include "base/os.h"
#include "base/philox.h"
#include "search/parallel.h"
#include "tensor/fill.h"
#include <string.h>

enum { CHUNK = 256, ROWS = 256 };

void sw_encoder_build(const struct sw_vectors *v, int bits, uint64_t seed, float *center,
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

struct encode {
    const struct sw_encoder *e;
    const struct sw_vectors *v;
    double *offset; /* [bits]: plane . center */
    uint64_t *words;
};

static double product(const float *a, const float *b, int dims)
{
    return -sw_vector_distance(SW_METRIC_DOT, a, b, dims);
}

static int run_task(void *user, int64_t task, int thread, struct sw_err *err)
{
    const struct encode *c = user;
    const int row_words = sw_code_words(c->e->bits), dims = c->e->dims;
    const int64_t end = (task + 1) * ROWS;

    for (int64_t row = task * ROWS; row < end && row < c->v->count; row++) {
        uint64_t *code = c->words + row * row_words;

        for (int w = 0; w < row_words; w++)
            code[w] = 0;
        for (int j = 0; j < c->e->bits; j++)
            if (product(c->e->planes + (int64_t)j * dims, sw_vector(c->v, row), dims) >
                c->offset[j])
                code[j / 64] |= (uint64_t)1 << (j % 64);
    }

    return SW_OK;
}

int sw_encoder_encode(const struct sw_encoder *e, const struct sw_vectors *v, int threads,
                      uint64_t *words, struct sw_err *err)
{
    struct encode c = {.e = e, .v = v, .words = words};

    c.offset = sw_calloc((size_t)e->bits, sizeof *c.offset);
    if (!c.offset)
        return sw_err_nomem(err, "an encoder", (size_t)e->bits * sizeof *c.offset);

    for (int j = 0; j < e->bits; j++)
        c.offset[j] = product(e->planes + (int64_t)j * e->dims, e->center, e->dims);

    int rc = sw_search_parallel(threads, (v->count + ROWS - 1) / ROWS, run_task, &c, err);
    sw_free(c.offset);
    return rc;
}
