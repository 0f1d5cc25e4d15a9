/* Writes and reads the data spec of a checkpoint. Reading order: lists of names, writing, reading.
 */
#include "data/spec.h"
#include "base/os.h"
#include "data/source.h"
#include "data/vocabulary.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char mean_name[] = "data.mean_image", whiten_mean_name[] = "data.whiten.mean",
                  whiten_name[] = "data.whiten.matrix";

static const char *const units[] = {
    [SW_TEXT_BYTES] = "bytes", [SW_TEXT_CHARACTERS] = "characters", [SW_TEXT_WORDS] = "words"};

bool sw_data_spec_owns(const char *tensor)
{
    return sw_str_eq(tensor, mean_name) || sw_str_eq(tensor, whiten_mean_name) ||
           sw_str_eq(tensor, whiten_name);
}

void sw_data_spec_fini(struct sw_data_spec *spec)
{
    sw_free(spec->section);
    sw_free(spec->format);
    for (int i = 0; i < spec->field_count; i++)
        sw_free((void *)(uintptr_t)spec->field[i].name);
    sw_lexicon_fini(&spec->classes);
    sw_lexicon_fini(&spec->columns);
    sw_free(spec->tokens);
    sw_free(spec->token_counts);
    sw_free(spec->tags);
    sw_free(spec->mean_image);
    sw_free(spec->whiten_mean);
    sw_free(spec->whiten);
    *spec = (struct sw_data_spec){0};
}

const struct sw_field *sw_data_spec_field(const struct sw_data_spec *spec, const char *name)
{
    for (int i = 0; i < spec->field_count; i++)
        if (sw_str_eq(spec->field[i].name, name))
            return &spec->field[i];
    return NULL;
}

static int bad_value(const struct sw_st_file *f, const char *key, struct sw_err *err)
{
    return sw_err_set(err, SW_ERR_FORMAT, "%s: metadata %s has an invalid value: %.80s",
                      sw_st_path(f), key, sw_st_metadata(f, key));
}

/* ---- lists of names ---- */

static int write_list(struct sw_st_writer *w, const char *key, const struct sw_lexicon *words,
                      struct sw_err *err)
{
    struct sw_bytes text = {0};

    if (words->count == 0)
        return SW_OK;

    for (int32_t i = 0; i < words->count; i++) {
        size_t n = 0;
        const char *word = sw_lexicon_word(words, i, &n);
        sw_vocabulary_add_line(&text, word, n);
    }

    int rc = text.failed ? sw_err_nomem(err, "the names of a checkpoint", text.length)
                         : sw_st_writer_metadata(w, key, sw_bytes_text(&text), err);
    sw_bytes_fini(&text);
    return rc;
}

static int read_list(const struct sw_st_file *f, const char *key, struct sw_lexicon *words,
                     struct sw_err *err)
{
    const char *text = sw_st_metadata(f, key);
    struct sw_vocabulary list;
    if (!text)
        return SW_OK;
    if (!sw_str_ends(text, "\n"))
        return bad_value(f, key, err);

    int rc = sw_vocabulary_parse(&list, key, text, strlen(text), NULL, err);
    if (rc)
        return sw_err_prefix(err, rc, "%s", sw_st_path(f));

    *words = list.tokens;
    return SW_OK;
}

/* ---- writing ---- */

static int write_fields(const struct sw_source *s, struct sw_st_writer *w, struct sw_err *err)
{
    struct sw_bytes text = {0};

    for (int i = 0; i < s->field_count; i++) {
        const struct sw_field *f = &s->field[i];

        sw_bytes_printf(&text, "%s %s ", f->name, f->dtype == SW_F32 ? "f32" : "i32");
        for (int d = 0; d < f->ndim; d++)
            sw_bytes_printf(&text, "%s%lld", d ? "x" : "", (long long)f->dim[d]);
        sw_bytes_add(&text, f->ndim ? "\n" : "scalar\n");
    }

    int rc = text.failed ? sw_err_nomem(err, "the fields of a checkpoint", text.length)
                         : sw_st_writer_metadata(w, "data.fields", sw_bytes_text(&text), err);
    sw_bytes_fini(&text);
    return rc;
}

static int write_raw(const struct sw_source *s, struct sw_st_writer *w, struct sw_err *err)
{
    const int image = sw_source_find(s, "image");
    char text[96];

    if (image < 0)
        return SW_OK;

    snprintf(text, sizeof text, "%lldx%lldx%lld", (long long)s->transform.channels,
             (long long)s->raw_height, (long long)s->raw_width);
    return sw_st_writer_metadata(w, "data.raw_image", text, err);
}

static int write_counts(const struct sw_lexicon *words, struct sw_st_writer *w, struct sw_err *err)
{
    struct sw_bytes text = {0};

    for (int32_t i = 0; i < words->count; i++)
        sw_bytes_printf(&text, "%lld\n", (long long)sw_lexicon_times(words, i));

    int rc = text.failed ? sw_err_nomem(err, "the counts of a checkpoint", text.length)
                         : sw_st_writer_metadata(w, "data.token_counts", sw_bytes_text(&text), err);
    sw_bytes_fini(&text);
    return rc;
}

static int write_tokens(const struct sw_source *s, struct sw_st_writer *w, struct sw_err *err)
{
    if (!s->vocabulary)
        return SW_OK;

    int rc = sw_st_writer_metadata(w, "data.unit", units[s->unit], err);
    if (rc)
        return rc;
    rc = write_list(w, "data.tokens", &s->vocabulary->tokens, err);
    return rc ? rc : write_counts(&s->vocabulary->tokens, w, err);
}

static int emit_mean(void *user, struct sw_st_sink *sink, struct sw_err *err)
{
    const struct sw_transform *t = user;
    return sw_st_emit(sink, t->mean_image,
                      (size_t)(t->channels * t->mean_height * t->mean_width) * sizeof(float), err);
}

static size_t row_elements(const struct sw_transform *t)
{
    return (size_t)(t->channels * t->out_height * t->out_width);
}

static int emit_whiten_mean(void *user, struct sw_st_sink *sink, struct sw_err *err)
{
    const struct sw_transform *t = user;
    return sw_st_emit(sink, t->whiten_mean, row_elements(t) * sizeof(float), err);
}

static int emit_whiten(void *user, struct sw_st_sink *sink, struct sw_err *err)
{
    const struct sw_transform *t = user;
    return sw_st_emit(sink, t->whiten, row_elements(t) * row_elements(t) * sizeof(float), err);
}

static int write_tensors(const struct sw_transform *t, struct sw_st_writer *w, struct sw_err *err)
{
    const int64_t mean[] = {t->channels, t->mean_height, t->mean_width};
    const int64_t row[] = {t->channels, t->out_height, t->out_width};
    const int64_t square[] = {(int64_t)row_elements(t), (int64_t)row_elements(t)};
    void *user = (void *)(uintptr_t)t; /* the writer only reads it */
    int rc = SW_OK;

    if (t->mean_image)
        rc = sw_st_writer_add(w, mean_name, (struct sw_st_shape){SW_ST_F32, 3, mean}, emit_mean,
                              user, err);
    if (rc || !t->whiten)
        return rc;
    rc = sw_st_writer_add(w, whiten_mean_name, (struct sw_st_shape){SW_ST_F32, 3, row},
                          emit_whiten_mean, user, err);
    if (rc)
        return rc;

    return sw_st_writer_add(w, whiten_name, (struct sw_st_shape){SW_ST_F32, 2, square}, emit_whiten,
                            user, err);
}

int sw_data_spec_write(const struct sw_source *s, struct sw_st_writer *w, struct sw_err *err)
{
    int rc = sw_st_writer_metadata(w, "data.section", s->name, err);
    if (rc)
        return rc;
    rc = sw_st_writer_metadata(w, "data.format", s->raw.format->base.name, err);
    if (rc)
        return rc;
    rc = write_fields(s, w, err);
    if (rc)
        return rc;
    rc = write_raw(s, w, err);
    if (rc)
        return rc;
    rc = write_list(w, "data.classes", s->class_names, err);
    if (rc)
        return rc;
    rc = write_list(w, "data.columns", &s->raw.columns, err);
    if (rc)
        return rc;
    rc = write_tokens(s, w, err);
    if (rc)
        return rc;
    rc = s->raw.tags ? write_list(w, "data.tags", &s->raw.tags->tokens, err) : SW_OK;
    if (rc)
        return rc;

    return write_tensors(&s->transform, w, err);
}

/* ---- reading ---- */

static int read_text(const struct sw_st_file *f, const char *key, char **out, struct sw_err *err)
{
    const char *text = sw_st_metadata(f, key);
    if (!text)
        return SW_OK;
    *out = sw_strdup(text);
    return *out ? SW_OK : sw_err_nomem(err, key, strlen(text));
}

/* Reads "3x64x64" at *at and moves behind it; returns the number of dimensions, or -1 if a size is
 * below `least` or all together are too many bytes. */
static int read_dims(const char **at, int64_t *dim, int most, int64_t least)
{
    int64_t bytes = sizeof(float);
    int n = 0;

    for (;; (*at)++) {
        long long value;
        int used = 0;
        if (n == most || !isdigit((unsigned char)**at) ||
            sscanf(*at, "%9lld%n", &value, &used) != 1 || value < least)
            return -1;
        if (__builtin_mul_overflow(bytes, value ? value : 1, &bytes))
            return -1;

        dim[n++] = value;
        *at += used;
        if (**at != 'x')
            return n;
    }
}

/* Reads a line "image f32 3x64x64" at *at, and moves behind it; the name is not in *f yet. */
static bool read_field(const char **at, struct sw_field *f, char name[64])
{
    char type[4];
    int used = 0;

    *f = (struct sw_field){0};
    if (sscanf(*at, "%63[^ \n]%*1[ ]%3[^ \n]%n", name, type, &used) != 2 || (*at)[used] != ' ')
        return false;
    if (!sw_str_eq(type, "f32") && !sw_str_eq(type, "i32"))
        return false;

    *at += used + 1;
    f->dtype = sw_str_eq(type, "f32") ? SW_F32 : SW_I32;
    if (sw_str_starts(*at, "scalar"))
        *at += strlen("scalar");
    else
        f->ndim = read_dims(at, f->dim, SW_MAX_FIELD_DIMS, 1);
    if (f->ndim < 0 || **at != '\n')
        return false;

    (*at)++;
    return true;
}

static int read_fields(struct sw_data_spec *spec, const struct sw_st_file *f, struct sw_err *err)
{
    const char *at = sw_st_metadata(f, "data.fields");
    char name[64];

    while (at && *at) {
        struct sw_field *field = &spec->field[spec->field_count];
        if (spec->field_count == SW_MAX_FIELDS || !read_field(&at, field, name) ||
            sw_data_spec_field(spec, name))
            return bad_value(f, "data.fields", err);

        field->name = sw_strdup(name);
        if (!field->name)
            return sw_err_nomem(err, "the fields of a checkpoint", strlen(name));
        spec->field_count++;
    }

    return SW_OK;
}

static int read_raw(struct sw_data_spec *spec, const struct sw_st_file *f, struct sw_err *err)
{
    const char *at = sw_st_metadata(f, "data.raw_image");
    if (!at || (read_dims(&at, spec->raw, 3, 0) == 3 && !*at))
        return SW_OK;
    return bad_value(f, "data.raw_image", err);
}

static int read_unit(struct sw_data_spec *spec, const struct sw_st_file *f, struct sw_err *err)
{
    const char *text = sw_st_metadata(f, "data.unit");

    for (size_t i = 0; text && i < sizeof units / sizeof *units; i++)
        if (sw_str_eq(text, units[i])) {
            spec->unit = (int)i;
            return SW_OK;
        }

    return text ? bad_value(f, "data.unit", err) : SW_OK;
}

static int read_tensor(const struct sw_st_file *f, const char *name, int ndim, float **out,
                       const struct sw_st_entry **entry, struct sw_err *err)
{
    const struct sw_st_entry *e = *entry = sw_st_find(f, name);
    if (!e)
        return SW_OK;
    if (e->dtype != SW_ST_F32 || e->ndim != ndim)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: tensor %s: expected F32 with %d dimensions",
                          sw_st_path(f), name, ndim);

    *out = sw_calloc(1, (size_t)e->bytes + sizeof **out);
    return *out ? sw_st_read(f, e, 0, (size_t)e->bytes, *out, err)
                : sw_err_nomem(err, name, (size_t)e->bytes);
}

static int read_tensors(struct sw_data_spec *spec, const struct sw_st_file *f, struct sw_err *err)
{
    const struct sw_st_entry *e = NULL, *mean = NULL;

    int rc = read_tensor(f, mean_name, 3, &spec->mean_image, &e, err);
    if (rc)
        return rc;
    if (e && e->shape[0] != spec->raw[0])
        return sw_err_set(err, SW_ERR_FORMAT, "%s: tensor %s has %lld channels, images have %lld",
                          sw_st_path(f), mean_name, (long long)e->shape[0],
                          (long long)spec->raw[0]);
    if (e) {
        spec->mean_height = e->shape[1];
        spec->mean_width = e->shape[2];
    }

    rc = read_tensor(f, whiten_mean_name, 3, &spec->whiten_mean, &mean, err);
    if (rc)
        return rc;
    rc = read_tensor(f, whiten_name, 2, &spec->whiten, &e, err);
    if (rc || !e)
        return rc;

    spec->whitened = e->shape[0];
    if (!mean || e->shape[1] != e->shape[0] || mean->bytes * (uint64_t)e->shape[0] != e->bytes)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: the shapes of %s and %s do not agree",
                          sw_st_path(f), whiten_mean_name, whiten_name);
    return SW_OK;
}

int sw_data_spec_read(struct sw_data_spec *spec, const struct sw_st_file *f, struct sw_err *err)
{
    *spec = (struct sw_data_spec){0};

    int rc = read_text(f, "data.section", &spec->section, err);
    if (rc)
        return rc;
    rc = read_text(f, "data.format", &spec->format, err);
    if (rc)
        return rc;
    rc = read_text(f, "data.tokens", &spec->tokens, err);
    if (rc)
        return rc;
    rc = read_text(f, "data.token_counts", &spec->token_counts, err);
    if (rc)
        return rc;
    rc = read_text(f, "data.tags", &spec->tags, err);
    if (rc)
        return rc;
    rc = read_unit(spec, f, err);
    if (rc)
        return rc;
    rc = read_fields(spec, f, err);
    if (rc)
        return rc;
    rc = read_raw(spec, f, err);
    if (rc)
        return rc;
    rc = read_list(f, "data.classes", &spec->classes, err);
    if (rc)
        return rc;
    rc = read_list(f, "data.columns", &spec->columns, err);
    if (rc)
        return rc;

    return read_tensors(spec, f, err);
}
