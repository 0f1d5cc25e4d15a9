/* Reads and writes vectors of words as text. The contract is in data/word_vectors.h. */
#include "data/word_vectors.h"
#include "base/os.h"
#include "base/str.h"
#include "data/lines.h"
#include <math.h>
#include <string.h>

#define MOST_BYTES (UINT64_C(1) << 36)
#define LEAST_BEYOND 0x1.ffffffp127 /* the least double that is not rounded to a finite float */
enum { FIRST_ROWS = 16, PIECE_BYTES = 1 << 20 };

void sw_word_vectors_fini(struct sw_word_vectors *v)
{
    sw_lexicon_fini(&v->words);
    sw_free(v->values);
    *v = (struct sw_word_vectors){0};
}

/* ---- Reading ----------------------------------------------------------------------------------
 */

struct reading {
    struct sw_word_vectors *v;
    int64_t rows, capacity; /* rows: of the first line, 0 before it */
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Cuts the next word off a line: returns it, or NULL at the end, and moves *at behind it. */
static char *next_field(char **at)
{
    char *begin = *at, *end;

    while (is_blank(*begin))
        begin++;
    for (end = begin; *end && !is_blank(*end);)
        end++;

    *at = *end ? end + 1 : end;
    *end = '\0';
    return end > begin ? begin : NULL;
}

static int read_head(struct reading *r, const char *path, char *text, struct sw_err *err)
{
    const char *rows = next_field(&text), *dims = next_field(&text), *more = next_field(&text);
    int64_t n;

    if (!rows || !dims || more || !sw_parse_int(rows, &r->rows) || !sw_parse_int(dims, &n))
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s:1: expected a first line with two numbers, of words and of "
                          "dimensions, as word2vec writes it",
                          path);
    if (r->rows < 1 || r->rows > INT32_MAX)
        return sw_err_set(err, SW_ERR_FORMAT, "%s:1: %s words, expected 1 to %d", path, rows,
                          INT32_MAX);
    if (n < 1 || n > SW_WORD_VECTORS_MOST_DIMS)
        return sw_err_set(err, SW_ERR_FORMAT, "%s:1: %s dimensions, expected 1 to %d", path, dims,
                          SW_WORD_VECTORS_MOST_DIMS);

    r->v->dims = (int)n;
    return SW_OK;
}

static int read_values(float *row, int dims, const char *path, int64_t number, char *text,
                       struct sw_err *err)
{
    int count = 0;

    for (const char *field; (field = next_field(&text)); count++) {
        double value;

        if (count == dims)
            return sw_err_set(err, SW_ERR_FORMAT,
                              "%s:%lld: more than %d numbers, expected %d as line 1 says", path,
                              (long long)number, dims, dims);
        if (!sw_parse_real(field, &value) || fabs(value) >= LEAST_BEYOND)
            return sw_err_set(err, SW_ERR_FORMAT,
                              "%s:%lld: number %d is '%.40s', expected a finite number", path,
                              (long long)number, count + 1, field);
        row[count] = (float)value;
    }

    return count == dims
               ? SW_OK
               : sw_err_set(err, SW_ERR_FORMAT, "%s:%lld: %d numbers, expected %d as line 1 says",
                            path, (long long)number, count, dims);
}

static int read_line(void *user, const char *path, int64_t number, char *text, struct sw_err *err)
{
    struct reading *r = user;
    struct sw_word_vectors *v = r->v;
    const int32_t row = v->words.count;
    int32_t id;

    if (number == 1)
        return read_head(r, path, text, err);

    const char *word = next_field(&text);
    if (!word)
        return sw_err_set(err, SW_ERR_FORMAT, "%s:%lld: empty line, expected a word and %d numbers",
                          path, (long long)number, v->dims);
    if (row == r->rows)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s:%lld: more lines, expected %lld words as line 1 says", path,
                          (long long)number, (long long)r->rows);

    int rc = sw_grow(&v->values, (size_t)v->dims * sizeof *v->values, row, &r->capacity, FIRST_ROWS,
                     path, err);
    if (rc == SW_OK)
        rc = sw_lexicon_add(&v->words, word, strlen(word), 1, &id, err);
    if (rc != SW_OK)
        return rc;
    if (id < row)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s:%lld: the word '%.40s' again, expected each once (line %d has it)",
                          path, (long long)number, word, id + 2);

    return read_values(v->values + (size_t)row * (size_t)v->dims, v->dims, path, number, text, err);
}

int sw_word_vectors_read(struct sw_word_vectors *v, const char *path, struct sw_err *err)
{
    struct reading r = {.v = v};

    *v = (struct sw_word_vectors){0};

    int rc = sw_lines_visit(path, MOST_BYTES, read_line, &r, err);
    if (rc == SW_OK && r.rows == 0)
        rc = sw_err_set(err, SW_ERR_FORMAT, "%s: empty, expected vectors of words", path);
    if (rc == SW_OK && v->words.count < r.rows)
        rc = sw_err_set(err, SW_ERR_FORMAT,
                        "%s: ends after %d words, expected %lld as line 1 says: the file is "
                        "truncated",
                        path, v->words.count, (long long)r.rows);
    if (rc != SW_OK)
        sw_word_vectors_fini(v);
    return rc;
}

/* ---- Writing ----------------------------------------------------------------------------------
 */

static int check_word(const struct sw_word_vectors *v, int32_t row, const char *path,
                      struct sw_err *err)
{
    size_t n;
    const char *word = sw_lexicon_word(&v->words, row, &n);

    if (n > 0 && strlen(word) == n && strcspn(word, " \t\r\n") == n)
        return SW_OK;
    return sw_err_set(
        err, SW_ERR_UNSUPPORTED,
        "%s: word %d contains blanks or line ends, which the format of word2vec cannot "
        "hold: use --npy",
        path, row + 1);
}

static int flush(struct sw_bytes *text, int fd, const char *path, struct sw_err *err)
{
    int rc = text->failed ? sw_err_nomem(err, path, PIECE_BYTES)
                          : sw_os_write_all(fd, text->text, text->length, path, err);

    sw_bytes_clear(text);
    return rc;
}

int sw_word_vectors_write(const struct sw_word_vectors *v, const char *path, struct sw_err *err)
{
    struct sw_new_file file = {.fd = -1};
    struct sw_bytes text = {0};

    int rc = sw_os_new_file_begin(&file, path, 0666, err);
    sw_bytes_printf(&text, "%d %d\n", v->words.count, v->dims);

    for (int32_t row = 0; rc == SW_OK && row < v->words.count; row++) {
        const float *values = v->values + (size_t)row * (size_t)v->dims;
        size_t n;

        rc = check_word(v, row, path, err);
        sw_bytes_add(&text, sw_lexicon_word(&v->words, row, &n));
        for (int d = 0; d < v->dims; d++)
            sw_bytes_printf(&text, " %.9g", (double)values[d]);
        sw_bytes_add(&text, "\n");
        if (rc == SW_OK && (text.failed || text.length > PIECE_BYTES))
            rc = flush(&text, file.fd, path, err);
    }

    if (rc == SW_OK)
        rc = flush(&text, file.fd, path, err);
    if (rc == SW_OK)
        rc = sw_os_new_file_commit(&file, err);
    sw_os_new_file_abandon(&file);
    sw_bytes_fini(&text);
    return rc;
}
