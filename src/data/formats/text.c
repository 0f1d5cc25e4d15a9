/* Running text for language models: bytes, characters or words as numbers (data/vocabulary.h). The
 * files form one long text. Record i is a window of `length` tokens starting at token i * stride;
 * `target` is the same window one token later, so that the next token is to be predicted at every
 * position, and `label` is its last token. With `streams` (a key of every section, data/subset.h)
 * and a stride of `length`, every row of a batch continues the same row of the previous batch.
 * Everything is read and checked at opening, and stored as one, two or four bytes per token. */
#include "base/os.h"
#include "data/blob.h"
#include "data/files.h"
#include "data/format.h"
#include "data/format_opts.h"
#include "data/spec.h"
#include "data/vocabulary.h"
#include <string.h>

enum {
    TOKENS = 0,
    TARGET,
    LABEL,
    FIELDS,
    FIRST_CODES = 1 << 16,
    MAX_LENGTH = 1 << 20,
    BYTES = 256
};

struct text_conf {
    struct sw_strings paths, vocabulary_from;
    const char *vocabulary, *unknown, *line_end;
    int unit; /* enum sw_text_unit */
    int64_t length, stride, max_tokens, min_count;
};

struct text_state {
    struct sw_vocabulary vocabulary;
    void *codes; /* owned; elements are uint8_t, uint16_t or int32_t */
    int width;   /* bytes of one element */
    int64_t count, capacity;
    int64_t length, stride;
    int32_t of_byte[BYTES]; /* while texts are read: token id of each single byte, or -1 */
    bool drops;             /* tokens that are not in the vocabulary are left out of the text */
    bool counts;            /* tokens are counted as they are read */
};

/* Token counts of texts. Many tokens are single bytes; these are counted without a lookup. */
struct met {
    struct sw_lexicon words;
    int64_t of_byte[BYTES]; /* count of each byte as a token; not yet in words */
};

static const char *const units[] = {"bytes", "characters", "words", NULL};

/* ---- texts ---- */

/* Handles one token of a text. */
typedef int visit_token(void *user, const struct sw_text *t, const char *token, size_t n,
                        struct sw_err *err);

static int visit_blob(const struct text_conf *conf, const struct sw_blob *blob, visit_token *visit,
                      void *user, struct sw_err *err)
{
    const char *first = (const char *)blob->memory;
    struct sw_text t = {.what = blob->path,
                        .begin = first,
                        .at = first,
                        .end = first + blob->bytes,
                        .unit = (enum sw_text_unit)conf->unit,
                        .line_end = conf->line_end};
    int rc = SW_OK;

    for (size_t n = 1; !rc && n;) {
        const char *token = NULL;
        rc = sw_text_next(&t, &token, &n, err);
        if (!rc && n)
            rc = visit(user, &t, token, n, err);
    }

    return rc;
}

static int visit_file(const struct text_conf *conf, const char *path, uint64_t max_bytes,
                      visit_token *visit, void *user, struct sw_err *err)
{
    struct sw_blob blob;

    int rc = sw_blob_open_whole(&blob, path, max_bytes, err);
    if (rc)
        return rc;

    rc = visit_blob(conf, &blob, visit, user, err);
    sw_blob_close(&blob);
    return rc;
}

static int visit_files(const struct text_conf *conf, const struct sw_files *files,
                       uint64_t max_bytes, visit_token *visit, void *user, struct sw_err *err)
{
    for (int i = 0; i < files->count; i++) {
        int rc = visit_file(conf, files->path[i], max_bytes, visit, user, err);
        if (rc)
            return rc;
    }

    return SW_OK;
}

/* ---- vocabulary ---- */

static int count_token(void *user, const struct sw_text *t, const char *token, size_t n,
                       struct sw_err *err)
{
    struct met *met = user;
    int32_t id;

    if (n == 1) {
        met->of_byte[(unsigned char)*token]++;
        return SW_OK;
    }

    int rc = sw_lexicon_add(&met->words, token, n, 1, &id, err);
    return rc ? sw_err_prefix(err, rc, "%s", t->what) : SW_OK;
}

static int add_bytes(struct met *met, struct sw_err *err)
{
    int rc = SW_OK;

    for (int b = 0; !rc && b < BYTES; b++) {
        const char byte = (char)b;
        int32_t id;
        if (met->of_byte[b])
            rc = sw_lexicon_add(&met->words, &byte, 1, met->of_byte[b], &id, err);
    }

    return rc;
}

static int make_vocabulary(struct text_state *s, const struct text_conf *conf,
                           const struct sw_files *texts, uint64_t max_bytes, struct sw_err *err)
{
    struct met met = {.words = {.max_bytes = max_bytes}};
    int rc = visit_files(conf, texts, max_bytes, count_token, &met, err);

    if (!rc)
        rc = add_bytes(&met, err);

    const bool cuts = conf->max_tokens > 0 && conf->max_tokens < met.words.count;
    if (!rc && cuts && !conf->unknown && !s->drops)
        rc =
            sw_err_set(err, SW_ERR_INVALID,
                       "max_tokens = %lld, but the texts have %d distinct tokens; set unknown to a "
                       "token that replaces the others",
                       (long long)conf->max_tokens, met.words.count);

    if (!rc)
        rc = sw_vocabulary_make(&s->vocabulary, &met.words, conf->min_count, conf->max_tokens,
                                conf->unknown, err);
    sw_lexicon_fini(&met.words);

    return rc;
}

static int read_vocabulary(struct text_state *s, const struct text_conf *conf, uint64_t max_bytes,
                           struct sw_err *err)
{
    struct sw_blob blob;

    int rc = sw_blob_open(&blob, conf->vocabulary, max_bytes, err);
    if (rc)
        return sw_err_prefix(err, rc, "vocabulary");
    rc = sw_blob_take(&blob, err);
    if (rc)
        goto out;

    rc = sw_vocabulary_parse(&s->vocabulary, blob.path, (const char *)blob.memory,
                             (size_t)blob.bytes, conf->unknown, err);

out:
    sw_blob_close(&blob);
    return rc;
}

/* Texts without counts, of checkpoints before they were saved, are counted as they are read. */
static int read_trained(struct text_state *s, const struct text_conf *conf,
                        const struct sw_data_spec *spec, struct sw_err *err)
{
    static const char what[] = "the vocabulary of the trained net";

    int rc = sw_vocabulary_parse(&s->vocabulary, what, spec->tokens, strlen(spec->tokens),
                                 conf->unknown, err);
    if (rc)
        return rc;

    s->counts = !spec->token_counts;
    return s->counts ? SW_OK
                     : sw_vocabulary_read_counts(&s->vocabulary, what, spec->token_counts, err);
}

static int open_vocabulary(struct text_state *s, const struct sw_format_args *args,
                           uint64_t max_bytes, struct sw_err *err)
{
    const struct text_conf *conf = args->conf;
    const char *trained = args->spec ? args->spec->tokens : NULL;
    struct sw_files others = {0};

    if (trained)
        return read_trained(s, conf, args->spec, err);
    if (conf->vocabulary && conf->vocabulary_from.count)
        return sw_err_set(err, SW_ERR_INVALID,
                          "vocabulary and vocabulary_from are both set; remove one");

    if (conf->vocabulary && (conf->max_tokens || conf->min_count > 1))
        return sw_err_set(err, SW_ERR_INVALID,
                          "%s = %lld applies only to a vocabulary built from texts; shorten "
                          "the file %s instead",
                          conf->max_tokens ? "max_tokens" : "min_count",
                          (long long)(conf->max_tokens ? conf->max_tokens : conf->min_count),
                          conf->vocabulary);

    s->counts = conf->vocabulary != NULL;
    if (conf->vocabulary)
        return read_vocabulary(s, conf, max_bytes, err);
    if (!conf->vocabulary_from.count)
        return make_vocabulary(s, conf, args->files, max_bytes, err);

    int rc = sw_files_expand(&others, &conf->vocabulary_from, "vocabulary_from", err);
    if (rc)
        goto out;

    rc = make_vocabulary(s, conf, &others, max_bytes, err);

out:
    sw_files_fini(&others);
    return rc;
}

/* ---- tokens ---- */

static int take_token(void *state, const struct sw_text *t, const char *token, size_t n,
                      struct sw_err *err)
{
    struct text_state *s = state;
    const int32_t id =
        n == 1 ? s->of_byte[(unsigned char)*token] : sw_vocabulary_find(&s->vocabulary, token, n);
    if (id < 0 && s->drops)
        return SW_OK;
    if (id < 0)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: '%.*s' before byte %lld is not in the vocabulary; set unknown to a "
                          "token that replaces unknown tokens",
                          t->what, (int)(n < 60 ? n : 60), token, (long long)(t->at - t->begin));

    int rc = sw_grow(&s->codes, (size_t)s->width, s->count, &s->capacity, FIRST_CODES,
                     "the tokens of a text", err);
    if (rc)
        return rc;

    if (s->counts)
        sw_lexicon_set_times(&s->vocabulary.tokens, id,
                             sw_lexicon_times(&s->vocabulary.tokens, id) + 1);
    if (s->width == 1)
        ((uint8_t *)s->codes)[s->count++] = (uint8_t)id;
    else if (s->width == 2)
        ((uint16_t *)s->codes)[s->count++] = (uint16_t)id;
    else
        ((int32_t *)s->codes)[s->count++] = id;

    return SW_OK;
}

static void copy_codes(const struct text_state *s, int64_t first, int64_t n, int32_t *out)
{
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = first + i;
        out[i] = s->width == 1   ? ((const uint8_t *)s->codes)[at]
                 : s->width == 2 ? ((const uint16_t *)s->codes)[at]
                                 : ((const int32_t *)s->codes)[at];
    }
}

static int take_texts(struct sw_records *r, const struct text_conf *conf,
                      const struct sw_files *texts, struct sw_err *err)
{
    struct text_state *s = r->state;

    r->classes = sw_vocabulary_count(&s->vocabulary);
    r->naming = sw_vocabulary_identity(&s->vocabulary);

    s->width = r->classes <= 1 << 8 ? 1 : r->classes <= 1 << 16 ? 2 : 4;
    for (int b = 0; b < BYTES; b++) {
        const char byte = (char)b;
        s->of_byte[b] = sw_vocabulary_find(&s->vocabulary, &byte, 1);
    }

    for (int32_t i = 0; i < r->classes && s->counts; i++)
        sw_lexicon_set_times(&s->vocabulary.tokens, i, 0);

    int rc = visit_files(conf, texts, r->max_bytes, take_token, s, err);
    if (rc)
        return rc;

    if (s->count <= s->length)
        return sw_err_set(
            err, SW_ERR_FORMAT,
            "%s: all files together have %lld tokens; length = %lld requires at least "
            "%lld",
            texts->path[0], (long long)s->count, (long long)s->length, (long long)s->length + 1);

    r->count = (s->count - 1 - s->length) / s->stride + 1;
    return SW_OK;
}

/* ---- the format ---- */

static int text_open(struct sw_records *r, const struct sw_format_args *args, struct sw_err *err)
{
    const struct text_conf *conf = args->conf;
    struct text_state *s = r->state;

    s->length = conf->length;
    s->stride = conf->stride ? conf->stride : conf->length;
    s->drops = conf->min_count > 1 && !conf->unknown;
    s->vocabulary.unknown = s->vocabulary.line_end = -1;

    int rc = open_vocabulary(s, args, r->max_bytes, err);
    if (rc)
        return rc;
    rc = take_texts(r, conf, args->files, err);
    if (rc)
        return rc;

    sw_vocabulary_mark_lines(&s->vocabulary, conf->line_end);
    r->field[TOKENS] = (struct sw_field){"tokens", SW_I32, 1, {s->length}};
    r->field[TARGET] = (struct sw_field){"target", SW_I32, 1, {s->length}};
    r->field[LABEL] = (struct sw_field){.name = "label", .dtype = SW_I32};
    r->field_count = FIELDS;
    r->vocabulary = &s->vocabulary;
    r->unit = conf->unit;

    return SW_OK;
}

static void text_close(struct sw_records *r)
{
    struct text_state *s = r->state;
    sw_vocabulary_fini(&s->vocabulary);
    sw_free(s->codes);
}

static int text_fetch(const struct sw_records *r, int64_t record, int f, void *scratch,
                      const void **out, struct sw_err *err)
{
    const struct text_state *s = r->state;
    const int64_t first = record * s->stride;

    if (f == LABEL)
        copy_codes(s, first + s->length, 1, scratch);
    else
        copy_codes(s, first + (f == TARGET), s->length, scratch);

    *out = scratch;
    return SW_OK;
}

#define OPT(kind, member, ...) SW_OPT(kind, struct text_conf, member, __VA_ARGS__)

static const struct sw_opt text_opts[] = {
    SW_FORMAT_PATHS(struct text_conf, "texts, plain or .gz"),
    OPT(ENUM, unit, "unit of a token: a byte, a UTF-8 character, or a word between blanks",
        .def = "characters", .choices = units),
    OPT(INT, length, "tokens of a record", .min = 1, .max = MAX_LENGTH, .required = true),
    OPT(INT, stride,
        "tokens from the beginning of a record to that of the next; 0: length (no gap or overlap)",
        .def = "0", .min = 0, .max = MAX_LENGTH),
    OPT(PATH, vocabulary,
        "file with one token per line; unset: built from texts, the most frequent token first"),
    OPT(PATHS, vocabulary_from,
        "texts to build the vocabulary from, the same in all sections; unset: paths"),
    SW_FORMAT_MAX_TOKENS(
        struct text_conf,
        "limit for a vocabulary built from texts, which keeps the most frequent; 0: all"),
    OPT(INT, min_count,
        "tokens that occur less often in the texts are not in a vocabulary built from them; "
        "without "
        "`unknown` they are left out of the text",
        .def = "1", .min = 1, .max = 1e8),
    OPT(STRING, unknown,
        "token that replaces tokens outside the vocabulary, such as <unk>; unset: these are "
        "errors, or left out with min_count"),
    OPT(STRING, line_end,
        "for words: token added at the end of each line, such as <eos>; unset: none"),
    {0},
};

const struct sw_format sw_format_text = {
    .base =
        SW_TYPE("text", "running text: windows of bytes, characters or words, and the next tokens",
                struct text_conf, text_opts),
    .implied = {.records = 10000, .classes = 64, .length = 50},
    .state_bytes = sizeof(struct text_state),
    SW_FORMAT_CALLS(text_open, text_close, text_fetch),
};
