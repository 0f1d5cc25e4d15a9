/* Models of codes in files. Which parts an encoder has follows from which sections there are. The
 * contract is in search/code_model.h. */
#include "search/code_model.h"

#include <stdio.h>
#include <string.h>

enum { TEXT = 128, MOST_NAME = 32 };

static const int sections[SW_CODE_VIEWS][SW_ENCODER_PARTS] = {
    {SW_INDEX_CENTER, SW_INDEX_PLANES, SW_INDEX_SHIFTS, SW_INDEX_WAVES, SW_INDEX_ANCHORS},
    {SW_INDEX_CENTER_2, SW_INDEX_PLANES_2, SW_INDEX_SHIFTS_2, SW_INDEX_WAVES_2, SW_INDEX_ANCHORS_2},
};

int sw_code_model_fit(struct sw_code_model *m, const struct sw_code_method *method,
                      const struct sw_code_fit *f, struct sw_err *err)
{
    *m = (struct sw_code_model){
        .method = method, .bits = f->bits, .views = method->views, .rows = f->view[0].count};
    return sw_code_method_fit(method, f, m->view, err);
}

int sw_code_model_write(const struct sw_code_model *m, const char *path, struct sw_err *err)
{
    const struct sw_index_header h = {.kind = SW_INDEX_KIND_MODEL,
                                      .dims = (uint32_t)m->view[0].dims,
                                      .parts = (uint32_t)m->view[1].dims,
                                      .bits = (uint32_t)m->bits,
                                      .count = (uint64_t)m->rows};
    struct sw_index_part part[SW_INDEX_SECTION_END] = {
        [SW_INDEX_METHOD] = {m->method->name, strlen(m->method->name)}};

    for (int v = 0; v < m->views; v++)
        for (int p = 0; p < SW_ENCODER_PARTS; p++)
            part[sections[v][p]] = (struct sw_index_part){
                m->view[v].part[p], sw_encoder_part_count(&m->view[v], p) * sizeof(float)};
    return sw_index_file_write(path, &h, part, err);
}

/* ---- Open -------------------------------------------------------------------------------------
 */

static int bind_method(struct sw_code_model *m, struct sw_err *err)
{
    const struct sw_index_part *p = &m->file.part[SW_INDEX_METHOD];
    char name[MOST_NAME + 1] = "";

    if (p->data && p->bytes <= MOST_NAME)
        memcpy(name, p->data, (size_t)p->bytes);
    m->method = sw_code_method_find(name);
    if (m->method)
        return SW_OK;

    for (char *c = name; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    return sw_err_set(err, SW_ERR_UNSUPPORTED, "%s: method \"%s\" of codes is unknown",
                      m->file.path, name);
}

static int bind_header(struct sw_code_model *m, struct sw_err *err)
{
    const struct sw_index_header *h = &m->file.header;
    const char *path = m->file.path;

    if (h->kind != SW_INDEX_KIND_MODEL)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: an index, expected a model of codes", path);
    if (h->bits < 1 || h->bits > SW_CODE_MOST_BITS)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: codes of %u bits, expected 1 to %d", path,
                          h->bits, SW_CODE_MOST_BITS);
    if (h->count < 1 || h->count > INT32_MAX)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: %llu rows, expected 1 to 2^31 - 1", path,
                          (unsigned long long)h->count);

    int rc = bind_method(m, err);
    if (rc != SW_OK)
        return rc;
    if (m->method->views != 1 + (h->parts > 0))
        return sw_err_set(err, SW_ERR_FORMAT, "%s: %d views, expected %d for method %s", path,
                          1 + (h->parts > 0), m->method->views, m->method->name);

    m->bits = (int)h->bits;
    m->views = m->method->views;
    m->rows = (int64_t)h->count;
    return SW_OK;
}

/* The number of anchors follows from the bytes of their section. */
static int bind_anchors(struct sw_code_model *m, int v, struct sw_err *err)
{
    struct sw_encoder *e = &m->view[v];
    const int section = sections[v][SW_ENCODER_ANCHORS];
    const struct sw_index_part *p = &m->file.part[section];
    const uint64_t row = (uint64_t)e->dims * sizeof(float);

    if (!p->data)
        return SW_OK;
    if (p->bytes % row || p->bytes / row > SW_SEARCH_MOST_DIMS)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: section %s has %llu bytes, expected 1 to %d rows of %d floats",
                          m->file.path, sw_index_section_name(section),
                          (unsigned long long)p->bytes, SW_SEARCH_MOST_DIMS, e->dims);
    e->anchors = (int)(p->bytes / row);
    return SW_OK;
}

static int bind_part(struct sw_code_model *m, int v, int part, struct sw_err *err)
{
    struct sw_encoder *e = &m->view[v];
    const int section = sections[v][part];
    const bool needed = part == SW_ENCODER_CENTER || part == SW_ENCODER_PLANES;
    const uint64_t count = sw_encoder_part_count(e, part);
    const void *data;
    char of[TEXT];

    if (!needed && !m->file.part[section].data)
        return SW_OK;

    snprintf(of, sizeof of, "%llu floats of an encoder of %d bits", (unsigned long long)count,
             e->bits);
    int rc = sw_index_file_section(&m->file, section, count * sizeof(float), of, &data, err);
    if (rc != SW_OK)
        return rc;

    e->part[part] = data;

    /* Rows as long as a vector may be. */
    const int dims = part == SW_ENCODER_PLANES    ? sw_encoder_features(e)
                     : part == SW_ENCODER_ANCHORS ? e->dims
                                                  : (int)count;
    const struct sw_vectors rows = {data, (int64_t)(count / (uint64_t)dims), dims};
    rc = sw_vectors_check(&rows, SW_METRIC_EUCLIDEAN, sw_index_section_name(section), err);
    return rc == SW_OK ? SW_OK : sw_err_prefix(err, rc, "%s", m->file.path);
}

static int bind_view(struct sw_code_model *m, int v, struct sw_err *err)
{
    const uint32_t dims = v ? m->file.header.parts : m->file.header.dims;

    if (dims < 1 || dims > SW_SEARCH_MOST_DIMS)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: vectors of %u floats, expected 1 to %d",
                          m->file.path, dims, SW_SEARCH_MOST_DIMS);

    m->view[v] = (struct sw_encoder){.dims = (int)dims, .bits = m->bits};

    int rc = bind_anchors(m, v, err);
    for (int part = 0; rc == SW_OK && part < SW_ENCODER_PARTS; part++)
        rc = bind_part(m, v, part, err);
    return rc;
}

static int bind(struct sw_code_model *m, struct sw_err *err)
{
    int rc = bind_header(m, err);
    for (int v = 0; rc == SW_OK && v < m->views; v++)
        rc = bind_view(m, v, err);
    if (rc == SW_OK)
        rc = sw_index_file_check(&m->file, err);
    if (rc != SW_OK)
        sw_code_model_close(m);
    return rc;
}

int sw_code_model_open(struct sw_code_model *m, const char *path, struct sw_err *err)
{
    *m = (struct sw_code_model){0};
    int rc = sw_index_file_open(&m->file, path, err);
    return rc == SW_OK ? bind(m, err) : rc;
}

int sw_code_model_parse(struct sw_code_model *m, const char *name, const void *bytes,
                        uint64_t count, struct sw_err *err)
{
    *m = (struct sw_code_model){0};
    int rc = sw_index_file_parse(&m->file, name, bytes, count, err);
    return rc == SW_OK ? bind(m, err) : rc;
}

void sw_code_model_close(struct sw_code_model *m)
{
    if (m->file.path)
        sw_index_file_close(&m->file);
    else
        for (int v = 0; v < SW_CODE_VIEWS; v++)
            sw_encoder_fini(&m->view[v]);
    *m = (struct sw_code_model){0};
}
