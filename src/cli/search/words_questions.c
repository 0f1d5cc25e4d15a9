/* Reads and answers a file of analogies. The contract is in cli/search/words_questions.h. */
#include "cli/search/words_questions.h"

#include "base/os.h"
#include "data/lines.h"
#include <math.h>
#include <string.h>

enum { MOST_BYTES = 1 << 30, FIRST_QUESTIONS = 1024, WORDS = 4 };

struct sw_words_covered {
    struct sw_analogy given;
    int32_t want;
    int section;
};

void sw_words_questions_fini(struct sw_words_questions *q)
{
    for (int i = 0; i < q->section_count; i++)
        sw_free(q->section[i].name);
    sw_free(q->section);
    sw_free(q->covered);
    *q = (struct sw_words_questions){0};
}

/* ---- Reading ----------------------------------------------------------------------------------
 */

struct reading {
    struct sw_words_questions *q;
    const struct sw_word_vectors *v;
};

static int add_section(struct sw_words_questions *q, const char *name, struct sw_err *err)
{
    struct sw_words_section *s = sw_array_add(&q->section, &q->section_count, sizeof *s);
    if (!s)
        return sw_err_nomem(err, "the sections", sizeof *s);

    s->name = sw_strdup(name);
    s->syntactic = sw_str_starts(name, "gram");
    return s->name ? SW_OK : sw_err_nomem(err, "the sections", strlen(name));
}

static int read_line(void *user, const char *path, int64_t number, char *text, struct sw_err *err)
{
    static const char blanks[] = " \t";

    const struct reading *r = user;
    struct sw_words_questions *q = r->q;
    const char *word[WORDS];
    int count = 0;
    char *rest;

    if (*text == ':') {
        text += 1 + strspn(text + 1, blanks);
        return *text ? add_section(q, text, err)
                     : sw_err_set(err, SW_ERR_FORMAT, "%s:%lld: ':' and no name of a section", path,
                                  (long long)number);
    }

    for (char *at = strtok_r(text, blanks, &rest); at; at = strtok_r(NULL, blanks, &rest)) {
        if (count < WORDS)
            word[count] = at;
        count++;
    }

    if (count == 0)
        return SW_OK;
    if (count != WORDS)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s:%lld: %d word%s, expected 4, as in 'Athens Greece Oslo Norway', or "
                          "': NAME' of a section",
                          path, (long long)number, count, count == 1 ? "" : "s");
    if (!q->section_count)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s:%lld: a question before any section, expected ': NAME' first", path,
                          (long long)number);

    int32_t row[WORDS];
    struct sw_words_section *s = &q->section[q->section_count - 1];

    s->questions++;
    for (int i = 0; i < WORDS; i++)
        if ((row[i] = sw_words_row(&r->v->words, word[i])) < 0 || !sw_words_points(r->v, row[i]))
            return SW_OK;

    int rc = sw_grow(&q->covered, sizeof *q->covered, q->covered_count, &q->covered_capacity,
                     FIRST_QUESTIONS, path, err);
    if (rc != SW_OK)
        return rc;

    s->covered++;
    q->covered[q->covered_count++] =
        (struct sw_words_covered){{row[0], row[1], row[2]}, row[3], q->section_count - 1};
    return SW_OK;
}

static void add_counts(struct sw_words_section *to, const struct sw_words_section *s)
{
    to->questions += s->questions;
    to->covered += s->covered;
    to->correct += s->correct;
}

static void sum_sections(struct sw_words_questions *q)
{
    q->semantic = q->syntactic = q->total = (struct sw_words_section){0};
    for (int i = 0; i < q->section_count; i++) {
        const struct sw_words_section *s = &q->section[i];

        add_counts(s->syntactic ? &q->syntactic : &q->semantic, s);
        add_counts(&q->total, s);
    }
}

int sw_words_questions_read(struct sw_words_questions *q, const char *path,
                            const struct sw_word_vectors *v, struct sw_err *err)
{
    struct reading r = {q, v};

    *q = (struct sw_words_questions){0};

    int rc = sw_lines_visit(path, MOST_BYTES, read_line, &r, err);
    if (rc != SW_OK)
        return rc;

    sum_sections(q);
    if (q->total.questions == 0)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: has no questions", path);
    if (q->covered_count == 0)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%s: of no question do all four words have vectors, of %lld", path,
                          (long long)q->total.questions);
    return SW_OK;
}

/* ---- Answers ----------------------------------------------------------------------------------
 */

int sw_words_questions_answer(struct sw_words_questions *q, const struct sw_vectors *unit,
                              int threads, struct sw_err *err)
{
    const size_t count = (size_t)q->covered_count;
    struct sw_analogy *given = sw_calloc(count, sizeof *given);
    struct sw_neighbor *found = sw_calloc(count, sizeof *found);
    int rc = given && found
                 ? SW_OK
                 : sw_err_nomem(err, "the answers", count * (sizeof *given + sizeof *found));
    if (rc != SW_OK)
        goto out;

    for (size_t i = 0; i < count; i++)
        given[i] = q->covered[i].given;

    const int64_t began = sw_os()->monotonic_ns();
    rc = sw_words_analogies(unit, given, q->covered_count, 1, threads, found, err);
    q->seconds = (double)(sw_os()->monotonic_ns() - began) * 1e-9;
    if (rc != SW_OK)
        goto out;

    for (size_t i = 0; i < count; i++)
        q->section[q->covered[i].section].correct += found[i].id == q->covered[i].want;
    sum_sections(q);

out:
    sw_free(given);
    sw_free(found);
    return rc;
}

double sw_words_accuracy(const struct sw_words_section *s)
{
    return s->covered ? (double)s->correct / (double)s->covered : NAN;
}
