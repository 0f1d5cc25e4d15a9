/* A small safetensors file with every type, an empty tensor, a scalar and more than three pages of
 * values. Byte i of tensor t is sample_byte(t, i). Include once per program. */
#pragma once

#include "tensor/safetensors.h"

enum { SAMPLES = 7 };

struct sample {
    const char *name;
    enum sw_st_dtype dtype;
    int ndim;
    int64_t shape[4];
    uint64_t bytes;
};

/* In the order of adding, which is not that of the file. */
static const struct sample samples[SAMPLES] = {
    {"labels", SW_ST_U8, 1, {5}, 5},
    {"conv1.weight", SW_ST_F32, 4, {3, 2, 2, 2}, 96},
    {"fc \"6\".\xC3\xA9", SW_ST_F32, 2, {3, 1000}, 12000},
    {"statistics", SW_ST_F64, 1, {2}, 16},
    {"step", SW_ST_I64, 0, {0}, 8},
    {"nothing", SW_ST_I32, 3, {2, 0, 3}, 0},
    {"seed", SW_ST_U64, 1, {1}, 8},
};

static inline unsigned char sample_byte(size_t t, uint64_t i)
{
    return (unsigned char)(((i + 1) * (t + 3) * 2654435761u) >> 11);
}

/* Emits in pieces of 1, 2, 3 ... bytes. */
static int sample_source(void *user, struct sw_st_sink *sink, struct sw_err *err)
{
    const struct sample *s = user;
    size_t t = (size_t)(s - samples);
    int rc = SW_OK;
    for (uint64_t at = 0, piece = 1; rc == SW_OK && at < s->bytes; at += piece, piece++) {
        unsigned char bytes[256];
        if (piece > s->bytes - at)
            piece = s->bytes - at;
        for (uint64_t i = 0; i < piece; i++)
            bytes[i] = sample_byte(t, at + i);
        rc = sw_st_emit(sink, bytes, piece, err);
    }
    return rc;
}

/* A writer with everything in it, or NULL with err set. */
static inline struct sw_st_writer *sample_writer(struct sw_err *err)
{
    struct sw_st_writer *w = sw_st_writer_new();
    if (!w) {
        sw_err_set(err, SW_ERR_NOMEM, "writer");
        return NULL;
    }
    int rc = sw_st_writer_metadata(w, "format", "pt", err);
    if (rc == SW_OK)
        rc = sw_st_writer_metadata(w, "recipe", "[job]\n\"x\" = 1\n", err);
    for (size_t t = 0; rc == SW_OK && t < SAMPLES; t++) {
        const struct sample *s = &samples[t];
        rc = sw_st_writer_add(w, s->name, (struct sw_st_shape){s->dtype, s->ndim, s->shape},
                              sample_source, (void *)(uintptr_t)s, err);
    }
    if (rc == SW_OK)
        return w;
    sw_st_writer_free(w);
    return NULL;
}

/* Writes the sample to path. */
static inline int sample_write(const char *path, struct sw_err *err)
{
    struct sw_st_writer *w = sample_writer(err);
    if (!w)
        return SW_ERR_NOMEM;
    int rc = sw_st_writer_write(w, path, 0600, NULL, NULL, err);
    sw_st_writer_free(w);
    return rc;
}
