/* Reads vectors of words. The contract is in cli/search/words_source.h. */
#include "cli/search/words_source.h"

#include "base/os.h"
#include "cli/checkpoint/weights.h"
#include "cli/search/arrays.h"
#include "data/spec.h"
#include "data/vocabulary.h"
#include "recipe/recipe.h"
#include <ctype.h>
#include <string.h>

/* ---- Words ------------------------------------------------------------------------------------
 */

static int parse_words(struct sw_word_vectors *v, const char *what, const char *list, size_t bytes,
                       struct sw_err *err)
{
    struct sw_vocabulary parsed;

    int rc = sw_vocabulary_parse(&parsed, what, list, bytes, NULL, err);
    if (rc == SW_OK)
        v->words = parsed.tokens;
    return rc;
}

static int read_words(const struct sw_words_source *s, struct sw_word_vectors *v,
                      struct sw_err *err)
{
    enum { MOST = 1 << 30 };

    char *text = NULL;
    size_t bytes;

    if (!s->vocabulary)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%s: has no words of its own; give the list of its words, one per line, "
                          "by --vocabulary=FILE",
                          s->what);

    int rc = sw_os_read_file(s->vocabulary, MOST, &text, &bytes, err);
    if (rc == SW_OK)
        rc = parse_words(v, s->vocabulary, text, bytes, err);
    sw_free(text);
    return rc;
}

/* ---- Arrays -----------------------------------------------------------------------------------
 */

static int read_array(const struct sw_words_source *s, struct sw_word_vectors *v,
                      struct sw_err *err)
{
    struct sw_search_array a;

    int rc = sw_search_array_read(&a, s->what, SW_METRIC_EUCLIDEAN, false, err);
    if (rc != SW_OK)
        return rc;

    v->values = a.owned;
    v->dims = a.set.vectors.dims;

    rc = read_words(s, v, err);
    if (rc == SW_OK && v->words.count != a.set.vectors.count)
        rc = sw_err_set(err, SW_ERR_FORMAT, "%s: %d words, expected %lld as %s has vectors",
                        s->vocabulary, v->words.count, (long long)a.set.vectors.count, s->what);
    return rc;
}

/* ---- Checkpoints ------------------------------------------------------------------------------
 */

/* The name of the weight of the first embedding layer in the recipe of a checkpoint, in new memory.
 */
static int name_tensor(const char *path, char **name, struct sw_err *err)
{
    const struct sw_job_options options = {.trained = path};
    struct sw_recipe *recipe = NULL;
    const struct sw_job_conf *conf;

    /* Errors in what the net does not need here, such as its data, are no concern. */
    int rc = sw_job_read_recipe(&options, &recipe, &conf, err);
    if (!recipe)
        return rc == SW_ERR_FORMAT
                   ? sw_err_set(err, SW_ERR_INVALID,
                                "%s: has no recipe; name its vectors by --tensor=NAME", path)
                   : rc;

    const struct sw_section *s = sw_recipe_first(recipe, "layer");
    while (s && !(s->type[0] && sw_str_eq(s->type[0]->name, "embedding")))
        s = sw_section_next(s);

    *name = s ? sw_format("%s.weight", s->name) : NULL;
    rc = *name ? SW_OK
         : s   ? sw_err_nomem(err, path, 0)
               : sw_err_set(err, SW_ERR_INVALID,
                            "%s: its net has no embedding layer; name the vectors of its words by "
                              "--tensor=NAME",
                            path);
    sw_recipe_free(recipe);
    return rc;
}

/* The rows of the words: a table may have more. */
static int read_tensor(const struct sw_st_file *f, const char *name, struct sw_word_vectors *v,
                       struct sw_err *err)
{
    const struct sw_st_entry *e = sw_st_find(f, name);
    const char *path = sw_st_path(f);

    if (!e)
        return sw_err_set(err, SW_ERR_NOTFOUND,
                          "%s: has no tensor %s; `singa-ws weights` lists those that it has", path,
                          name);
    if (e->dtype != SW_ST_F32 || e->ndim != 2 || e->shape[0] < v->words.count)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: %s has type %s, %d dimensions and %lld rows, expected F32, 2 "
                          "dimensions and a row for each of %d words",
                          path, name, sw_st_dtype_name(e->dtype), e->ndim,
                          (long long)(e->ndim ? e->shape[0] : 1), v->words.count);

    if (e->shape[1] < 1 || e->shape[1] > SW_SEARCH_MOST_DIMS)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: %s has vectors of %lld numbers, expected 1 to %d", path, name,
                          (long long)e->shape[1], SW_SEARCH_MOST_DIMS);

    const size_t count = (size_t)v->words.count * (size_t)e->shape[1];

    v->dims = (int)e->shape[1];
    v->values = sw_realloc_array(NULL, count, sizeof *v->values);
    if (!v->values)
        return sw_err_nomem(err, path, count * sizeof *v->values);

    int rc = sw_st_read(f, e, 0, count * sizeof *v->values, v->values, err);
    if (rc != SW_OK)
        return rc;

    const struct sw_vectors vectors = {v->values, v->words.count, v->dims};
    rc = sw_vectors_check(&vectors, SW_METRIC_EUCLIDEAN, name, err);
    return rc == SW_OK ? SW_OK : sw_err_prefix(err, rc, "%s", path);
}

static int read_checkpoint(const struct sw_words_source *s, const char *path,
                           struct sw_word_vectors *v, bool *has_words, struct sw_err *err)
{
    struct sw_st_file *f = NULL;
    struct sw_data_spec spec = {0};
    char *name = NULL;

    int rc = sw_st_open(path, false, &f, err);
    if (rc == SW_OK)
        rc = sw_data_spec_read(&spec, f, err);
    if (rc == SW_OK && !s->tensor)
        rc = name_tensor(path, &name, err);
    if (rc != SW_OK)
        goto out;

    *has_words = spec.tokens != NULL;
    rc = spec.tokens ? parse_words(v, path, spec.tokens, strlen(spec.tokens), err)
                     : read_words(s, v, err);
    if (rc == SW_OK)
        rc = read_tensor(f, name ? name : s->tensor, v, err);

out:
    sw_free(name);
    sw_data_spec_fini(&spec);
    sw_st_close(f);
    return rc;
}

static int read_file(const char *path, struct sw_word_vectors *v, struct sw_err *err)
{
    int rc = sw_word_vectors_read(v, path, err);
    if (rc == SW_OK && v->repeated > 0)
        sw_cli_message("%s: rows left out because an earlier one has their word: %lld", path,
                       (long long)v->repeated);
    return rc;
}

int sw_words_source_read(const struct sw_words_source *s, struct sw_word_vectors *v,
                         bool *has_words, struct sw_err *err)
{
    struct sw_weights w = {0};
    const struct sw_weights_args args = {.what = s->what, .db = s->db};

    *v = (struct sw_word_vectors){0};
    *has_words = false;

    const bool is_array = sw_str_ends(s->what, ".npy");
    const bool is_file = !is_array && sw_weights_is_recipe(s->what); /* a file, no checkpoint */

    if (sw_str_ends(s->what, ".ini"))
        return sw_err_set(err, SW_ERR_INVALID,
                          "%s: a recipe has no vectors; name a run of it, such as @last", s->what);
    if ((is_array || is_file) && s->tensor)
        return sw_err_set(err, SW_ERR_INVALID, "%s: --tensor is for runs and checkpoints", s->what);
    *has_words = is_file;
    if (is_array)
        return read_array(s, v, err);
    if (is_file)
        return read_file(s->what, v, err);

    int rc = sw_weights_find(&args, &w, err);
    if (rc == SW_OK)
        rc = read_checkpoint(s, w.path, v, has_words, err);
    sw_weights_fini(&w);
    return rc;
}

/* ---- Rows of words ----------------------------------------------------------------------------
 */

int32_t sw_words_row(const struct sw_lexicon *words, const char *word)
{
    enum { MOST = 256 };

    const size_t n = strlen(word);
    char lower[MOST];
    const int32_t row = sw_lexicon_find(words, word, n);
    if (row >= 0 || n > MOST)
        return row;

    for (size_t i = 0; i < n; i++)
        lower[i] = (char)tolower((unsigned char)word[i]);
    return sw_lexicon_find(words, lower, n);
}

/* Appends "; did you mean 'a', 'b' or 'c'?" if there are words like it. */
static void add_near(const struct sw_lexicon *words, const char *word, struct sw_bytes *out)
{
    enum { MOST = 3 };

    const char **all = sw_calloc((size_t)words->count, sizeof *all), *near[MOST];
    int found = 0, left = words->count;
    size_t n;

    for (int32_t i = 0; all && i < words->count; i++)
        all[i] = sw_lexicon_word(words, i, &n);

    while (all && found < MOST && (near[found] = sw_str_nearest(word, all, (size_t)left))) {
        int at = 0;

        while (all[at] != near[found])
            at++;
        memmove(all + at, all + at + 1, (size_t)(left - at - 1) * sizeof *all);
        left--;
        found++;
    }

    for (int i = 0; i < found; i++)
        sw_bytes_printf(out, "%s'%s'",
                        i == 0           ? "; did you mean "
                        : i == found - 1 ? " or "
                                         : ", ",
                        near[i]);
    if (found)
        sw_bytes_add(out, "?");
    sw_free(all);
}

bool sw_words_points(const struct sw_word_vectors *v, int32_t row)
{
    return sw_vector_norm2(v->values + (size_t)row * (size_t)v->dims, v->dims) > 0;
}

int sw_words_need(const struct sw_word_vectors *v, const char *what, const char *word, int32_t *row,
                  struct sw_err *err)
{
    *row = sw_words_row(&v->words, word);
    if (*row < 0) {
        struct sw_bytes near = {0};

        add_near(&v->words, word, &near);
        sw_err_set(err, SW_ERR_NOTFOUND, "%s: '%s' is not among its %d words%s", what, word,
                   v->words.count, sw_bytes_text(&near));
        sw_bytes_fini(&near);
        return SW_ERR_NOTFOUND;
    }

    return sw_words_points(v, *row)
               ? SW_OK
               : sw_err_set(err, SW_ERR_FORMAT,
                            "%s: the vector of '%s' is zero and has no direction", what, word);
}
