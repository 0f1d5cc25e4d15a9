/* Reads vectors of words. The first line tells the formats of word2vec, which have two numbers
 * there, from that of GloVe; control characters where text has a number tell the binary one from
 * text. The contract is in data/word_vectors.h. */
#include "base/little_endian.h"
#include "base/os.h"
#include "base/stop.h"
#include "base/str.h"
#include "data/lines.h"
#include "data/word_vectors.h"
#include <math.h>
#include <string.h>

#define MOST_BYTES (UINT64_C(1) << 36)
#define LEAST_BEYOND 0x1.ffffffp127 /* the least double that is not rounded to a finite float */
enum { FIRST_ROWS = 16, MOST_HEAD = 64, MOST_NUMBER = 64, LOOKED_AT = 4096, FLOAT_BYTES = 4 };

struct reading {
    struct sw_word_vectors *v;
    bool has_head; /* rows is what the first line says */
    int64_t rows, capacity;
};

/* ---- Lines ------------------------------------------------------------------------------------
 */

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

static int count_fields(const char *text)
{
    int count = 0;

    for (size_t i = 0; text[i]; i++)
        count += !is_blank(text[i]) && (i == 0 || is_blank(text[i - 1]));
    return count;
}

/* Cuts a line before its last `count` fields: returns these; what is left is the word, which may
 * contain blanks. NULL: there are fewer fields, or no word. */
static char *cut_numbers(char *text, int count)
{
    char *at = text + strlen(text), *numbers = NULL;

    while (at > text && is_blank(at[-1]))
        at--;

    for (int i = 0; i < count; i++) {
        while (at > text && !is_blank(at[-1]))
            at--;
        numbers = at;
        while (at > text && is_blank(at[-1]))
            at--;
        if (at == text)
            return NULL;
    }

    *at = '\0';
    return numbers;
}

/* ---- The first line ---------------------------------------------------------------------------
 */

static int check_dims(const char *path, int64_t dims, struct sw_err *err)
{
    return dims >= 1 && dims <= SW_WORD_VECTORS_MOST_DIMS
               ? SW_OK
               : sw_err_set(err, SW_ERR_FORMAT, "%s:1: %lld dimensions, expected 1 to %d", path,
                            (long long)dims, SW_WORD_VECTORS_MOST_DIMS);
}

/* Reads a first line of two numbers. *end: what follows it; 0: it is another line. */
static int read_head(struct reading *r, const struct sw_blob *b, size_t *end, struct sw_err *err)
{
    char line[MOST_HEAD], *at = line;
    const size_t most = b->bytes < MOST_HEAD - 1 ? (size_t)b->bytes : MOST_HEAD - 1;
    const unsigned char *stop = most ? memchr(b->memory, '\n', most) : NULL;
    const size_t n = stop ? (size_t)(stop - b->memory) : most;
    int64_t rows, dims;

    *end = 0;
    if (!n)
        return SW_OK;

    memcpy(line, b->memory, n);
    line[n - (line[n - 1] == '\r')] = '\0';

    const char *first = next_field(&at), *second = next_field(&at), *more = next_field(&at);
    if (!first || !second || more || !sw_parse_int(first, &rows) || !sw_parse_int(second, &dims))
        return SW_OK;
    if (rows < 1 || rows > INT32_MAX)
        return sw_err_set(err, SW_ERR_FORMAT, "%s:1: %s words, expected 1 to %d", b->path, first,
                          INT32_MAX);

    int rc = check_dims(b->path, dims, err);
    *end = n + (stop != NULL);
    r->has_head = true;
    r->rows = rows;
    r->v->dims = (int)dims;
    return rc;
}

/* The first line of GloVe is that of a word. */
static int count_dims(struct reading *r, const char *path, const char *text, struct sw_err *err)
{
    const int fields = count_fields(text);

    if (fields < 2)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s:1: expected two numbers, of words and of dimensions, as word2vec "
                          "writes them, or a word and its numbers, as GloVe does",
                          path);
    r->v->dims = fields - 1;
    return check_dims(path, fields - 1, err);
}

/* ---- Rows -------------------------------------------------------------------------------------
 */

/* Adds a row, or only counts it if an earlier one has its word: GloVe's largest file has such rows.
 * *values is where its numbers belong; those of a row that is left out are overwritten. */
static int add_row(struct reading *r, const char *path, const char *word, size_t bytes,
                   float **values, struct sw_err *err)
{
    struct sw_word_vectors *v = r->v;
    const int32_t row = v->words.count;
    int32_t id;

    int rc = sw_grow(&v->values, (size_t)v->dims * sizeof *v->values, row, &r->capacity, FIRST_ROWS,
                     path, err);
    if (rc == SW_OK)
        rc = sw_lexicon_add(&v->words, word, bytes, 1, &id, err);
    if (rc != SW_OK)
        return rc;

    v->repeated += id < row;
    *values = v->values + (size_t)row * (size_t)v->dims;
    return SW_OK;
}

static int64_t rows_read(const struct reading *r)
{
    return r->v->words.count + r->v->repeated;
}

/* ---- Text -------------------------------------------------------------------------------------
 */

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
    float *values;
    int rc = SW_OK;

    if (number == 1 && r->has_head)
        return SW_OK;
    if (number == 1)
        rc = count_dims(r, path, text, err);
    if (rc != SW_OK)
        return rc;
    if (r->has_head && rows_read(r) == r->rows)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s:%lld: more lines, expected %lld words as line 1 says", path,
                          (long long)number, (long long)r->rows);

    /* Some words of GloVe contain blanks. */
    while (is_blank(*text))
        text++;
    char *numbers = r->has_head ? text : cut_numbers(text, v->dims);
    const char *word = r->has_head ? next_field(&numbers) : text;
    if (!word || !*word)
        return sw_err_set(err, SW_ERR_FORMAT, "%s:%lld: empty line, expected a word and %d numbers",
                          path, (long long)number, v->dims);
    if (!numbers)
        return sw_err_set(err, SW_ERR_FORMAT, "%s:%lld: %d numbers, expected %d as line 1 has",
                          path, (long long)number, count_fields(text) - 1, v->dims);

    rc = add_row(r, path, word, strlen(word), &values, err);
    return rc == SW_OK ? read_values(values, v->dims, path, number, numbers, err) : rc;
}

/* ---- Binary -----------------------------------------------------------------------------------
 */

/* Finds the next field of a line and moves *at behind it; returns its bytes, 0 at the end. */
static size_t find_field(const char **at, const char *end)
{
    while (*at < end && is_blank(**at))
        ++*at;

    const char *begin = *at;
    while (*at < end && !is_blank(**at) && **at != '\r' && **at != '\n')
        ++*at;
    return (size_t)(*at - begin);
}

/* Whether the first row is a word and numbers in digits, as in text. */
static bool begins_as_text(const struct sw_blob *b, size_t from, int dims)
{
    const char *at = (const char *)b->memory + from, *const end = at + (b->bytes - from);
    bool is_text = find_field(&at, end) > 0;

    for (int d = 0; is_text && d < dims; d++) {
        const size_t n = find_field(&at, end);
        char number[MOST_NUMBER + 1] = "";
        double ignored;

        if (n <= MOST_NUMBER)
            memcpy(number, at - n, n);
        is_text = strlen(number) == n && sw_parse_real(number, &ignored);
    }

    return is_text && find_field(&at, end) == 0;
}

/* Floats are no numbers in digits, and have bytes of control characters, which in text only a word
 * may have. */
static bool is_binary(const struct sw_blob *b, size_t from, int dims)
{
    if (begins_as_text(b, from, dims))
        return false;
    for (size_t i = from; i < b->bytes && i < from + LOOKED_AT; i++)
        if (b->memory[i] < ' ' && (!b->memory[i] || !strchr("\t\r\n", b->memory[i])))
            return true;
    return false;
}

/* A word, a blank, and its floats. word2vec.c ends them with a line end, gensim does not. */
static int read_record(struct reading *r, const struct sw_blob *b, size_t *at, struct sw_err *err)
{
    struct sw_word_vectors *v = r->v;
    const long long number = (long long)rows_read(r) + 1;
    const size_t row_bytes = (size_t)v->dims * FLOAT_BYTES;
    float *row;

    while (*at < b->bytes && b->memory[*at] == '\n')
        ++*at;

    const char *word = (const char *)b->memory + *at;
    const size_t rest = (size_t)b->bytes - *at;
    const char *blank = rest ? memchr(word, ' ', rest) : NULL;
    const size_t n = blank ? (size_t)(blank - word) : 0;
    if (!blank || rest - n - 1 < row_bytes)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: ends in word %lld, expected %lld words of %d floats as line 1 says: "
                          "the file is truncated",
                          b->path, number, (long long)r->rows, v->dims);
    if (n == 0 || memchr(word, 0, n) || memchr(word, '\n', n))
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: word %lld is empty or has a zero byte or a line end, expected a "
                          "word, a blank and %d floats",
                          b->path, number, v->dims);

    int rc = add_row(r, b->path, word, n, &row, err);
    if (rc != SW_OK)
        return rc;

    const unsigned char *from = (const unsigned char *)blank + 1;
    for (int d = 0; d < v->dims; d++) {
        const uint32_t bits = (uint32_t)sw_le_get(from + (size_t)d * FLOAT_BYTES, FLOAT_BYTES);

        memcpy(&row[d], &bits, sizeof bits);
        if (!isfinite(row[d]))
            return sw_err_set(err, SW_ERR_FORMAT, "%s: number %d of word %lld is not finite",
                              b->path, d + 1, number);
    }

    *at += n + 1 + row_bytes;
    return SW_OK;
}

static int read_binary(struct reading *r, const struct sw_blob *b, size_t at, struct sw_err *err)
{
    int rc = SW_OK;

    while (rc == SW_OK && rows_read(r) < r->rows) {
        rc = sw_stop_check(err);
        if (rc == SW_OK)
            rc = read_record(r, b, &at, err);
    }
    if (rc != SW_OK)
        return rc;

    while (at < b->bytes && b->memory[at] == '\n')
        at++;
    return at == b->bytes
               ? SW_OK
               : sw_err_set(err, SW_ERR_FORMAT,
                            "%s: %llu bytes after its %lld words, expected its end", b->path,
                            (unsigned long long)(b->bytes - at), (long long)r->rows);
}

/* ---- Files ------------------------------------------------------------------------------------
 */

static int read_text(struct reading *r, struct sw_blob *b, struct sw_err *err)
{
    int rc = sw_lines_visit_blob(b, read_line, r, err);
    if (rc != SW_OK || (rows_read(r) > 0 && rows_read(r) >= r->rows))
        return rc;

    return r->has_head
               ? sw_err_set(err, SW_ERR_FORMAT,
                            "%s: ends after %lld words, expected %lld as line 1 says: the file is "
                            "truncated",
                            b->path, (long long)rows_read(r), (long long)r->rows)
               : sw_err_set(err, SW_ERR_FORMAT, "%s: empty, expected vectors of words", b->path);
}

int sw_word_vectors_read(struct sw_word_vectors *v, const char *path, struct sw_err *err)
{
    struct reading r = {.v = v};
    struct sw_blob b;
    size_t head;

    *v = (struct sw_word_vectors){0};

    int rc = sw_blob_open_whole(&b, path, MOST_BYTES, err);
    if (rc != SW_OK)
        return rc;

    rc = read_head(&r, &b, &head, err);
    if (rc == SW_OK && r.has_head && is_binary(&b, head, v->dims))
        rc = read_binary(&r, &b, head, err);
    else if (rc == SW_OK)
        rc = read_text(&r, &b, err);

    sw_blob_close(&b);
    if (rc != SW_OK)
        sw_word_vectors_fini(v);
    return rc;
}
