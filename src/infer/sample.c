/* Samples text from a recurrent net: each token is drawn from the probabilities that follow from
 * those before it. */
#include "infer/sample.h"
#include "run/job_private.h"

#include "base/os.h"
#include "data/source.h"
#include "data/spec.h"
#include "data/vocabulary.h"
#include "infer/inference.h"
#include <math.h>
#include <string.h>

struct sampler {
    const struct sw_sample_args *args;
    const struct sw_vocabulary *vocabulary; /* own, or memory of the source */
    struct sw_vocabulary own;
    enum sw_text_unit unit;
    const char *what; /* the text that is read, for messages */
    struct sw_inference net;
    const char *field[2]; /* the field for tokens; labels that do not matter, or NULL */
    int32_t token;        /* the token that is read next */
    int64_t classes;      /* number of scores */
    double *weight;       /* owned [classes] */
    bool began;           /* the net has read a token */
    bool wrote;           /* a token was written, so a word needs a space before it */
    const float *scores;
    sw_sample_sink *sink;
    void *user;
};

/* Takes the vocabulary of the checkpoint. */
static int use_spec(struct sampler *s, const struct sw_job *job, const struct sw_section *train,
                    struct sw_err *err)
{
    const struct sw_data_spec *spec = job->data.spec;
    const char *unknown = train ? sw_section_text(train, "unknown") : NULL;

    int rc = sw_vocabulary_parse(&s->own, "the vocabulary of the net", spec->tokens,
                                 strlen(spec->tokens), unknown, err);
    if (rc != SW_OK)
        return rc;

    sw_vocabulary_mark_lines(&s->own, train ? sw_section_text(train, "line_end") : NULL);
    s->vocabulary = &s->own;
    s->unit = (enum sw_text_unit)spec->unit;
    return SW_OK;
}

/* The vocabulary of the text: that of the checkpoint, else that of the training section. */
static int open_text(struct sampler *s, struct sw_job *job, struct sw_err *err)
{
    const struct sw_section *section = sw_recipe_find(job->recipe, "data", "train");

    int rc = sw_job_read_spec(job, s->args->weights, err);
    if (rc != SW_OK)
        return rc;
    if (job->data.spec->tokens)
        return use_spec(s, job, section, err);
    if (!section)
        return sw_err_set(err, SW_ERR_NOTFOUND, "the recipe has no [data train] section");

    rc = sw_job_open_split(job, SW_SPLIT_TRAIN, section, err);
    if (rc != SW_OK)
        return rc;

    const struct sw_source *source = job->data.source[SW_SPLIT_TRAIN];
    s->vocabulary = source->vocabulary;
    s->unit = (enum sw_text_unit)source->unit;
    if (!s->vocabulary)
        return sw_err_set(err, SW_ERR_INVALID,
                          "data train: not a text, so it has no tokens to write (format = text has "
                          "tokens; synthetic data has none)");

    return SW_OK;
}

/* Sets the layer, unless it is given, and the field of its tokens, field[0]. Scores that use the
 * parameters of a loss (class_softmax) also need the labels of the loss, field[1], whose values do
 * not matter. */
static int find_fields(const struct sw_job *job, const char **layer, const char *field[2],
                       struct sw_err *err)
{
    const char *names[SW_MAX_FIELDS];
    int count = 0;
    int rc = sw_inference_choose(job->recipe, *layer, layer, err);

    if (rc == SW_OK)
        rc = sw_net_fields(job->recipe, false, *layer, names, SW_MAX_FIELDS, &count, err);
    if (rc != SW_OK)
        return rc;

    field[0] = field[1] = NULL;
    for (int i = 0; i < count; i++) {
        const bool label = sw_str_eq(names[i], "target") || sw_str_eq(names[i], "label");
        const bool idle = label && !sw_inference_depends_on(job->recipe, *layer, names[i]);

        if (field[idle])
            return sw_err_set(
                err, SW_ERR_INVALID,
                "layer %s is computed from %d fields: sampling needs a net that reads only tokens",
                *layer, count);
        field[idle] = names[i];
    }

    return field[0]
               ? SW_OK
               : sw_err_set(err, SW_ERR_INVALID,
                            "layer %s reads no tokens: sampling needs a net that does", *layer);
}

static int open_net(struct sampler *s, struct sw_job *job, int64_t *step, struct sw_err *err)
{
    const char *layer = NULL;
    const int64_t one[] = {1, 1};
    int rc = find_fields(job, &layer, s->field, err);

    if (rc != SW_OK)
        return rc;

    const bool per_row = s->field[1] && sw_str_eq(s->field[1], "label");
    const struct sw_net_field fields[] = {
        {.name = s->field[0], .desc = sw_desc_plain(SW_I32, 2, one)},
        {.name = s->field[1], .desc = sw_desc_plain(SW_I32, per_row ? 1 : 2, one)}};
    const struct sw_inference_args args = {.layer = layer,
                                           .weights = s->args->weights,
                                           .rows = 1,
                                           .fields = fields,
                                           .field_count = s->field[1] ? 2 : 1,
                                           .source = "tokens, one by one",
                                           .keep_state = true,
                                           .steps = 1};
    rc = sw_inference_begin(&s->net, job->workers, job->recipe, &args, step, err);
    if (rc != SW_OK)
        return rc;

    s->classes = sw_desc_count(&sw_inference_layer(&s->net)->dst.desc);

    const int64_t tokens = sw_vocabulary_count(s->vocabulary);
    if (s->classes < tokens)
        return sw_err_set(err, SW_ERR_INVALID,
                          "layer %s gives %lld scores, but the text has %lld different tokens",
                          layer, (long long)s->classes, (long long)tokens);

    s->weight = sw_calloc((size_t)s->classes, sizeof *s->weight);
    return s->weight ? SW_OK : sw_err_nomem(err, "scores", (size_t)s->classes * sizeof *s->weight);
}

/* The net reads s->token. */
static int read_token(struct sampler *s, struct sw_err *err)
{
    int32_t label = 0;
    void *data[] = {&s->token, &label};
    const struct sw_inference_input input = {s->field, data, s->field[1] ? 2 : 1, 1, !s->began, 0};
    int rc = sw_inference_pass(&s->net, &input, &s->scores, err);
    s->began = true;
    return rc;
}

static int write_text(struct sampler *s, const char *text, size_t n, struct sw_err *err)
{
    return s->sink(s->user, text, n, err);
}

/* Writes a token; words are separated by spaces, except at line ends. */
static int write_token(struct sampler *s, struct sw_err *err)
{
    const struct sw_vocabulary *v = s->vocabulary;
    size_t n;
    const char *text = sw_vocabulary_token(v, s->token, &n);
    const bool ends_line = s->token == v->line_end;
    int rc = SW_OK;

    if (s->unit == SW_TEXT_WORDS && s->wrote && !ends_line)
        rc = write_text(s, " ", 1, err);
    s->wrote = !ends_line;
    return rc == SW_OK ? write_text(s, ends_line ? "\n" : text, ends_line ? 1 : n, err) : rc;
}

/* Without a prime text, start after a line end. */
static int begin_anywhere(struct sampler *s, struct sw_err *err)
{
    const struct sw_vocabulary *v = s->vocabulary;
    const bool words = s->unit == SW_TEXT_WORDS;
    int32_t line_end = words ? v->line_end : sw_vocabulary_find(v, "\n", 1);

    s->token = line_end >= 0 ? line_end : 0;
    return read_token(s, err);
}

/* The token for line ends in a prime text of words. */
static int line_end_of(const struct sampler *s, char **out, struct sw_err *err)
{
    const struct sw_vocabulary *v = s->vocabulary;
    size_t n = 0;
    const char *text = v->line_end < 0 ? "" : sw_vocabulary_token(v, v->line_end, &n);

    *out = sw_format("%.*s", (int)n, text);
    return *out ? SW_OK : sw_err_nomem(err, "the token of line ends", n);
}

static int read_prime(struct sampler *s, struct sw_text *text, struct sw_err *err)
{
    const char *token;
    size_t n;
    int rc = sw_text_next(text, &token, &n, err);

    while (rc == SW_OK && n > 0) {
        s->token = sw_vocabulary_find(s->vocabulary, token, n);
        if (s->token < 0)
            return sw_err_set(err, SW_ERR_INVALID,
                              "%s: '%.*s' is not among the %lld tokens of the text", s->what,
                              (int)n, token, (long long)sw_vocabulary_count(s->vocabulary));

        rc = read_token(s, err);
        if (rc == SW_OK)
            rc = sw_text_next(text, &token, &n, err);
    }

    s->wrote = s->token != s->vocabulary->line_end;
    return rc;
}

/* Reads a text from its first token on. */
static int read_text(struct sampler *s, const char *prime, struct sw_err *err)
{
    char *line_end = NULL;

    int rc = line_end_of(s, &line_end, err);
    struct sw_text text = {.what = s->what,
                           .begin = prime,
                           .at = prime,
                           .end = prime + strlen(prime),
                           .unit = s->unit,
                           .line_end = line_end};
    if (rc == SW_OK)
        rc = read_prime(s, &text, err);
    sw_free(line_end);

    return rc;
}

static int begin(struct sampler *s, struct sw_err *err)
{
    const char *prime = s->args->prime;
    int rc = prime && *prime ? read_text(s, prime, err) : SW_OK;

    return rc == SW_OK && !s->began ? begin_anywhere(s, err) : rc;
}

/* The token with the highest score; the net may have scores for more tokens than exist. */
static int32_t best_of(const struct sampler *s, int64_t tokens)
{
    int32_t best = 0;

    for (int32_t i = 1; i < tokens; i++)
        if (s->scores[i] > s->scores[best])
            best = i;

    return best;
}

/* Draws with probability softmax(scores / temperature). */
static int32_t draw(struct sampler *s, int64_t number)
{
    const int64_t tokens = sw_vocabulary_count(s->vocabulary);
    const int32_t best = best_of(s, tokens);
    if (s->args->temperature <= 0)
        return best;

    double sum = 0;
    for (int64_t i = 0; i < tokens; i++) {
        const double above = (double)s->scores[i] - (double)s->scores[best];
        sum += s->weight[i] = exp(above / s->args->temperature);
    }

    const struct sw_philox key = sw_philox_stream(s->args->seed, SW_PURPOSE_TEXT, 0);
    const uint32_t word = sw_philox_word(key, (uint64_t)number, 0, 0);
    double left = sum * ((double)word + 0.5) / 4294967296.0;
    for (int64_t i = 0; i < tokens; i++) {
        left -= s->weight[i];
        if (left < 0)
            return (int32_t)i;
    }

    return best;
}

static void end(struct sampler *s)
{
    sw_inference_end(&s->net);
    sw_vocabulary_fini(&s->own);
    sw_free(s->weight);
}

int sw_job_sample(struct sw_job *job, const struct sw_sample_args *args, sw_sample_sink *sink,
                  void *user, int64_t *step, struct sw_err *err)
{
    struct sampler s = {.args = args, .what = "--prime", .sink = sink, .user = user};
    int rc = open_text(&s, job, err);

    if (rc == SW_OK)
        rc = open_net(&s, job, step, err);
    if (rc == SW_OK)
        rc = begin(&s, err);
    if (rc == SW_OK && args->prime)
        rc = write_text(&s, args->prime, strlen(args->prime), err);

    for (int64_t i = 0; i < args->length && rc == SW_OK; i++) {
        s.token = draw(&s, i);
        rc = write_token(&s, err);
        if (rc == SW_OK && i + 1 < args->length)
            rc = read_token(&s, err);
    }

    end(&s);
    return rc;
}

/* ---- the next token ---- */

bool sw_job_reads_text(const struct sw_job *job, const char *layer)
{
    const char *field[2];
    struct sw_err ignored; /* whoever uses the net reports it */

    return find_fields(job, &layer, field, &ignored) == SW_OK && sw_str_eq(field[0], "tokens");
}

bool sw_job_writes_text(const struct sw_job *job)
{
    const struct sw_source *train = job->data.source[SW_SPLIT_TRAIN];

    return train && train->vocabulary && sw_job_reads_text(job, NULL);
}

int sw_job_predict_next(struct sw_job *job, const char *weights, const char *const *texts,
                        int count, sw_next_sink *sink, void *user, struct sw_err *err)
{
    const struct sw_sample_args args = {.weights = weights};
    struct sampler s = {.args = &args};
    int64_t step;
    int rc = open_text(&s, job, err);

    if (rc == SW_OK)
        rc = open_net(&s, job, &step, err);

    for (int i = 0; i < count && rc == SW_OK; i++) {
        s.began = false;
        s.what = texts[i];
        rc = read_text(&s, texts[i], err);
        if (rc == SW_OK && !s.began)
            rc = sw_err_set(err, SW_ERR_INVALID, "an input has no tokens: '%s'", texts[i]);
        if (rc == SW_OK)
            rc = sink(user, texts[i], s.scores, sw_vocabulary_count(s.vocabulary), s.vocabulary,
                      err);
    }

    end(&s);
    return rc;
}
