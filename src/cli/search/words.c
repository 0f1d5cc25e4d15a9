/* singa-ws search words: finds near words, answers analogies, and writes vectors of words. */
#include "base/json.h"
#include "base/os.h"
#include "cli/search/arrays.h"
#include "cli/search/verb.h"
#include "cli/search/words_questions.h"
#include "cli/terminal/columns.h"
#include "data/vocabulary.h"
#include "tensor/npy.h"

static const char verb[] = "search words";

struct options {
    struct sw_cli_common common;
    const char *tensor, *vocabulary, *npy, *word2vec;
    int64_t k, threads;
};

static const struct sw_cli_option rows[] = {
    SW_SEARCH_NEIGHBORS_ROW(struct options),
    SW_CLI_TEXT_OPTION(struct options, npy, "npy", "V.npy", "export: the vectors as an array"),
    SW_CLI_TEXT_OPTION(struct options, word2vec, "word2vec", "FILE",
                       "export: words and vectors as text, as word2vec and gensim read it"),
    SW_CLI_TEXT_OPTION(struct options, vocabulary, "vocabulary", "FILE",
                       "words, one per line: those of VECTORS that has none, such as V.npy; else "
                       "export --npy writes them"),
    SW_CLI_TEXT_OPTION(struct options, tensor, "tensor", "NAME",
                       "of a checkpoint: its vectors; default: the weight of the first embedding "
                       "layer"),
    SW_SEARCH_THREADS_OPTION(struct options),
    {0},
};

/* An open source, and what is printed. */
struct table {
    const char *what;
    struct sw_word_vectors vectors;
    bool has_words;
    struct sw_vectors unit; /* once the vectors are divided by their lengths */
    int threads;
};

static void make_unit(struct table *t)
{
    struct sw_word_vectors *v = &t->vectors;

    sw_words_unit(v->values, v->words.count, v->dims);
    t->unit = (struct sw_vectors){v->values, v->words.count, v->dims};
}

static const char *word_of(const struct table *t, int64_t row)
{
    size_t n;
    return sw_lexicon_word(&t->vectors.words, (int32_t)row, &n);
}

static void json_begin(struct sw_json_writer *w, const struct table *t, struct sw_bytes *out)
{
    sw_cli_json_begin(w, out);
    sw_json_int(w, "words", t->vectors.words.count);
    sw_json_int(w, "dimensions", t->vectors.dims);
}

/* ---- nearest, analogy -------------------------------------------------------------------------
 */

/* What was asked: `words` words in each of `count` questions. */
struct asked {
    const int32_t *row; /* [count][words] */
    int64_t count;
    int words;
    const struct sw_neighbor *found; /* [count][k] */
    int64_t k;
};

static double cosine_of(struct sw_neighbor n)
{
    return sw_metric_shown(SW_METRIC_DOT, n.distance);
}

static void neighbors_json(const struct table *t, const struct asked *a, struct sw_bytes *out)
{
    struct sw_json_writer w;

    json_begin(&w, t, out);
    sw_json_open_array(&w, "queries");

    for (int64_t q = 0; q < a->count; q++) {
        sw_json_open_object(&w, NULL);
        sw_json_open_array(&w, "query");
        for (int i = 0; i < a->words; i++)
            sw_json_string(&w, NULL, word_of(t, a->row[q * a->words + i]));
        sw_json_close_array(&w);

        sw_json_open_array(&w, "neighbors");
        for (int64_t i = 0; i < a->k; i++) {
            const struct sw_neighbor n = a->found[q * a->k + i];

            sw_json_open_object(&w, NULL);
            sw_json_string(&w, "word", word_of(t, n.id));
            sw_json_int(&w, "row", n.id);
            sw_json_real(&w, "cosine", cosine_of(n));
            sw_json_close_object(&w);
        }
        sw_json_close_array(&w);
        sw_json_close_object(&w);
    }

    sw_json_close_array(&w);
    sw_cli_json_end(&w);
}

static void neighbors_text(const struct table *t, const struct asked *a, struct sw_bytes *out)
{
    struct sw_columns columns = {0};

    if (a->words == 1)
        sw_columns_begin(&columns, "word");
    sw_columns_begin(&columns, "neighbor|>cosine");

    for (int64_t i = 0; i < a->count * a->k; i++) {
        if (a->words == 1)
            sw_columns_cell(&columns, "%s", word_of(t, a->row[i / a->k]));
        sw_columns_cell(&columns, "%s", word_of(t, a->found[i].id));
        sw_columns_cell(&columns, "%.4f", cosine_of(a->found[i]));
    }

    sw_columns_print(&columns, out);
    out->failed |= columns.failed;
    sw_columns_fini(&columns);
}

/* Answers the words after the action: each for itself, or as one analogy. */
static int find(const struct options *o, struct table *t, bool analogy, struct sw_bytes *out,
                struct sw_err *err)
{
    const int given = o->common.arg_count - 2;
    struct asked a = {.count = analogy ? 1 : given,
                      .words = analogy ? given : 1,
                      .k = o->k ? o->k : SW_SEARCH_USUAL_NEIGHBORS};
    int32_t *row = sw_calloc((size_t)given, sizeof *row);
    struct sw_neighbor *found = NULL;
    int rc = row ? SW_OK : sw_err_nomem(err, "the words", (size_t)given * sizeof *row);

    for (int i = 0; rc == SW_OK && i < given; i++)
        rc = sw_words_need(&t->vectors, t->what, o->common.args[2 + i], &row[i], err);
    if (rc != SW_OK)
        goto out;

    /* Where there are fewer words than the usual number of neighbors, all are shown. */
    const int64_t others = t->vectors.words.count - a.words;
    if (!o->k && others > 0 && a.k > others)
        a.k = others;
    if (a.k > others) {
        rc = sw_err_set(err, SW_ERR_INVALID, "--neighbors=%lld: %s has %lld other words",
                        (long long)a.k, t->what, (long long)(others > 0 ? others : 0));
        goto out;
    }

    make_unit(t);
    found = sw_calloc((size_t)a.count, (size_t)a.k * sizeof *found);
    if (!found)
        rc = sw_err_nomem(err, "the neighbors", (size_t)a.count * (size_t)a.k * sizeof *found);
    else if (analogy)
        rc = sw_words_analogies(&t->unit, &(struct sw_analogy){row[0], row[1], row[2]}, 1, a.k,
                                t->threads, found, err);
    else
        rc = sw_words_nearest(&t->unit, row, a.count, a.k, t->threads, found, err);
    if (rc != SW_OK)
        goto out;

    a.row = row;
    a.found = found;
    if (o->common.json)
        neighbors_json(t, &a, out);
    else
        neighbors_text(t, &a, out);

out:
    sw_free(row);
    sw_free(found);
    return rc;
}

static int find_nearest(const struct options *o, struct table *t, struct sw_bytes *out,
                        struct sw_err *err)
{
    return find(o, t, false, out, err);
}

static int find_analogy(const struct options *o, struct table *t, struct sw_bytes *out,
                        struct sw_err *err)
{
    return find(o, t, true, out, err);
}

/* ---- questions --------------------------------------------------------------------------------
 */

static void section_row(struct sw_columns *c, const char *name, const struct sw_words_section *s)
{
    sw_columns_cell(c, "%s", name);
    sw_columns_cell(c, "%lld", (long long)s->questions);
    sw_columns_cell(c, "%lld", (long long)s->covered);
    sw_columns_cell(c, "%lld", (long long)s->correct);
    if (s->covered)
        sw_columns_cell(c, "%.4f", sw_words_accuracy(s));
    else
        sw_columns_cell(c, "--");
}

static void questions_text(const struct sw_words_questions *q, struct sw_bytes *out)
{
    struct sw_columns c = {0};

    sw_columns_begin(&c, "section|>questions|>covered|>correct|>accuracy");
    for (int i = 0; i < q->section_count; i++)
        section_row(&c, q->section[i].name, &q->section[i]);
    section_row(&c, "semantic", &q->semantic);
    section_row(&c, "syntactic", &q->syntactic);
    section_row(&c, "total", &q->total);

    sw_columns_print(&c, out);
    out->failed |= c.failed;
    sw_columns_fini(&c);
}

static void section_json(struct sw_json_writer *w, const char *key,
                         const struct sw_words_section *s)
{
    sw_json_open_object(w, key);
    if (s->name) {
        sw_json_string(w, "name", s->name);
        sw_json_bool(w, "syntactic", s->syntactic);
    }
    sw_json_int(w, "questions", s->questions);
    sw_json_int(w, "covered", s->covered);
    sw_json_int(w, "correct", s->correct);
    sw_json_real(w, "accuracy", sw_words_accuracy(s));
    sw_json_close_object(w);
}

static void questions_json(const struct table *t, const struct sw_words_questions *q,
                           struct sw_bytes *out)
{
    struct sw_json_writer w;

    json_begin(&w, t, out);
    sw_json_int(&w, "threads", t->threads);
    sw_json_real(&w, "seconds", q->seconds);
    sw_json_open_array(&w, "sections");
    for (int i = 0; i < q->section_count; i++)
        section_json(&w, NULL, &q->section[i]);
    sw_json_close_array(&w);
    section_json(&w, "semantic", &q->semantic);
    section_json(&w, "syntactic", &q->syntactic);
    section_json(&w, "total", &q->total);
    sw_cli_json_end(&w);
}

static int answer_questions(const struct options *o, struct table *t, struct sw_bytes *out,
                            struct sw_err *err)
{
    struct sw_words_questions q = {0};

    int rc = sw_words_questions_read(&q, o->common.args[2], &t->vectors, err);
    if (rc != SW_OK)
        goto out;

    make_unit(t);
    rc = sw_words_questions_answer(&q, &t->unit, t->threads, err);
    if (rc == SW_OK && o->common.json)
        questions_json(t, &q, out);
    else if (rc == SW_OK)
        questions_text(&q, out);

out:
    sw_words_questions_fini(&q);
    return rc;
}

/* ---- export -----------------------------------------------------------------------------------
 */

/* A list that sw_vocabulary_parse reads. */
static int write_words(const struct table *t, const char *path, struct sw_err *err)
{
    struct sw_bytes list = {0};

    for (int32_t row = 0; row < t->vectors.words.count; row++) {
        size_t n;
        const char *word = sw_lexicon_word(&t->vectors.words, row, &n);

        sw_vocabulary_add_line(&list, word, n);
    }

    int rc = list.failed ? sw_err_nomem(err, path, 0)
                         : sw_os_replace_file(path, list.text, list.length, 0666, err);
    sw_bytes_fini(&list);
    return rc;
}

static int export_vectors(const struct options *o, struct table *t, struct sw_bytes *out,
                          struct sw_err *err)
{
    const struct sw_word_vectors *v = &t->vectors;
    const int64_t shape[] = {v->words.count, v->dims};
    int rc = SW_OK;

    if (o->word2vec)
        rc = sw_word_vectors_write(v, o->word2vec, err);
    if (rc == SW_OK && o->npy)
        rc = sw_npy_write(o->npy, SW_F32, 2, shape, v->values, err);
    if (rc == SW_OK && o->vocabulary && t->has_words)
        rc = write_words(t, o->vocabulary, err);
    if (rc != SW_OK)
        return rc;

    if (o->common.json) {
        struct sw_json_writer w;

        json_begin(&w, t, out);
        sw_cli_json_end(&w);
    } else if (!o->common.quiet) {
        sw_bytes_printf(out, "%d words, %d dimensions\n", v->words.count, v->dims);
    }

    return SW_OK;
}

/* ---- The verb ---------------------------------------------------------------------------------
 */

struct action {
    const char *name, *arguments;
    int least, most; /* arguments after its name; most -1: any number */
    bool finds;      /* takes --neighbors */
    int (*run)(const struct options *o, struct table *t, struct sw_bytes *out, struct sw_err *err);
};

static const struct action actions[] = {
    {"nearest", "WORD...", 1, -1, true, find_nearest},
    {"analogy", "A B C", 3, 3, true, find_analogy},
    {"questions", "FILE", 1, 1, false, answer_questions},
    {"export", "--npy=V.npy or --word2vec=FILE", 0, 0, false, export_vectors},
};
enum { ACTIONS = sizeof actions / sizeof *actions };

static const struct action *action_of(const char *name)
{
    for (int i = 0; i < ACTIONS; i++)
        if (sw_str_eq(name, actions[i].name))
            return &actions[i];
    return NULL;
}

static int refuse_action(const struct options *o)
{
    const char *names[ACTIONS];

    for (int i = 0; i < ACTIONS; i++)
        names[i] = actions[i].name;

    const char *word = o->common.args[1], *near = sw_str_nearest(word, names, ACTIONS);
    if (action_of(o->common.args[0]))
        return sw_cli_usage(verb, "VECTORS come first: singa-ws search words %s %s", word,
                            o->common.args[0]);
    return near ? sw_cli_usage(verb, "unknown action '%s'; did you mean '%s'?", word, near)
                : sw_cli_usage(verb,
                               "unknown action '%s'; must be nearest, analogy, questions or export",
                               word);
}

static int check_options(const struct options *o, const struct action *a)
{
    const int given = o->common.arg_count - 2;
    const bool exports = a->run == export_vectors;

    if (given < a->least || (a->most >= 0 && given > a->most) ||
        (exports && !o->npy && !o->word2vec))
        return sw_cli_usage(verb, "%s takes %s", a->name, a->arguments);
    if (!exports && (o->npy || o->word2vec))
        return sw_cli_usage(verb, "--%s is only for export", o->npy ? "npy" : "word2vec");
    if (o->k && !a->finds)
        return sw_cli_usage(verb, "--neighbors is for nearest and analogy");
    return SW_EXIT_DONE;
}

static int open_table(const struct options *o, struct table *t, struct sw_err *err)
{
    const struct sw_words_source source = {
        .what = t->what, .tensor = o->tensor, .vocabulary = o->vocabulary, .db = o->common.db};

    int rc = sw_search_threads(o->threads, &t->threads, err);
    if (rc == SW_OK)
        rc = sw_words_source_read(&source, &t->vectors, &t->has_words, err);
    if (rc == SW_OK && o->vocabulary && t->has_words && !o->npy)
        rc = sw_err_set(err, SW_ERR_INVALID,
                        "%s: has its own words; --vocabulary is for vectors "
                        "without, and for export --npy",
                        t->what);
    return rc;
}

static int run(void *options)
{
    const struct options *o = options;
    struct table t = {.what = o->common.args[0]};
    struct sw_bytes out = {0};
    struct sw_err err;

    const struct action *a = action_of(o->common.args[1]);
    if (!a)
        return refuse_action(o);

    int code = check_options(o, a);
    if (code != SW_EXIT_DONE)
        return code;

    int rc = open_table(o, &t, &err);
    if (rc == SW_OK)
        rc = a->run(o, &t, &out, &err);

    code = rc == SW_OK ? sw_cli_print(&out) : sw_cli_fail(rc, &err);
    sw_word_vectors_fini(&t.vectors);
    sw_bytes_fini(&out);
    return code;
}

const struct sw_verb sw_search_words = {
    .name = "words",
    .help = "find near words and answer analogies with vectors of words",
    .typed = verb,
    .usage = "[OPTION]... VECTORS nearest WORD...\n"
             "[OPTION]... VECTORS analogy A B C\n"
             "[OPTION]... VECTORS questions FILE\n"
             "[OPTION]... VECTORS export --npy=V.npy [--vocabulary=FILE]\n"
             "[OPTION]... VECTORS export --word2vec=FILE",
    .about =
        "Finds the words whose vectors have the largest cosine to that of a WORD; the words that\n"
        "are to C as B is to A (the nearest to b - a + c of unit vectors, other than these); and\n"
        "the share of a FILE of such questions that vectors answer: lines of four words, in\n"
        "sections that begin with ': NAME', as questions-words.txt of word2vec. VECTORS is a run\n"
        "(an id, a unique prefix, a name, @last, RUN:best, RUN:STEP) or a checkpoint of a net of\n"
        "text, a file of word2vec (text or binary) or of GloVe, or an array V.npy with\n"
        "--vocabulary.",
    .more = "A word that is not among the words as it is written is looked up in lower case.\n"
            "Sections whose names begin with 'gram' are syntactic, the others semantic.",
    .takes = SW_CLI_JSON | SW_CLI_QUIET | SW_CLI_DB,
    SW_CLI_OPTIONS(struct options, rows),
    .min_args = 2,
    .max_args = -1,
    .arg_name = "VECTORS or action",
    .run = run,
};
