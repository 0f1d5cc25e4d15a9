/* Splits rows of delimited text in place: every field is zero-terminated, and the text of quoted
 * fields is moved over removed quotes. Reading order: fields (unquoted, quoted), then rows. One
 * owner. */
#include "data/delimited.h"
#include "base/os.h"
#include "base/stop.h"
#include <stdbool.h>
#include <string.h>

#define ZERO_BYTE "%s: line %lld, column %d: contains a zero byte; the file is not text"

enum { MAX_FIELDS = 1 << 20, FIRST_FIELDS = 64 };

void sw_delimited_init(struct sw_delimited *d, const char *what, char *text, size_t bytes,
                       char separator)
{
    *d = (struct sw_delimited){
        .what = what, .at = text, .end = text + bytes, .separator = separator, .next_line = 1};
    if (bytes >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3))
        d->at += 3;
}

void sw_delimited_fini(struct sw_delimited *d)
{
    sw_free(d->field);
    *d = (struct sw_delimited){0};
}

int sw_delimited_skip(struct sw_delimited *d, int64_t lines, struct sw_err *err)
{
    for (int64_t i = 0; i < lines; i++) {
        char *newline = memchr(d->at, '\n', (size_t)(d->end - d->at));
        if (!newline && (d->at == d->end || i + 1 < lines))
            return sw_err_set(err, SW_ERR_FORMAT, "%s: has only %lld lines, but skip_lines = %lld",
                              d->what, (long long)(i + (d->at < d->end)), (long long)lines);

        d->at = newline ? newline + 1 : d->end;
        d->next_line++;
    }

    return SW_OK;
}

static bool ends_line(const struct sw_delimited *d, const char *p)
{
    return p == d->end || *p == '\n' || (*p == '\r' && p[1] == '\n');
}

static bool separates(const struct sw_delimited *d, char c)
{
    return d->separator == SW_SEPARATOR_BLANKS ? c == ' ' || c == '\t' : c == d->separator;
}

static int add_field(struct sw_delimited *d, char *field, struct sw_err *err)
{
    if (d->count == MAX_FIELDS)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: line %lld: more than %d columns", d->what,
                          (long long)d->line, MAX_FIELDS);

    int rc = sw_grow(&d->field, sizeof *d->field, d->count, &d->capacity, FIRST_FIELDS,
                     "the columns of a table", err);
    if (rc)
        return rc;

    d->field[d->count++] = field;
    return rc;
}

/* Reads a quoted field. d->at is behind the opening quote. Sets *end to the position of the
 * terminating zero byte. */
static int read_quoted(struct sw_delimited *d, char **end, struct sw_err *err)
{
    char *to = d->at, *from = d->at;

    for (;; from++) {
        if (from == d->end || *from == '\0')
            return sw_err_set(err, SW_ERR_FORMAT,
                              from == d->end ? "%s: line %lld, column %d: unterminated quote"
                                             : ZERO_BYTE,
                              d->what, (long long)d->line, d->count + 1);

        if (*from == '"' && *++from != '"')
            break;

        d->next_line += *from == '\n';
        *to++ = *from;
    }

    d->at = from;
    *end = to;
    if (ends_line(d, from) || separates(d, *from))
        return SW_OK;

    return sw_err_set(err, SW_ERR_FORMAT, "%s: line %lld, column %d: text after the closing quote",
                      d->what, (long long)d->line, d->count + 1);
}

static int read_bare(struct sw_delimited *d, char **end, struct sw_err *err)
{
    char *p = d->at;

    for (; !ends_line(d, p) && !separates(d, *p); p++) {
        if (*p == '"' || *p == '\0')
            return sw_err_set(err, SW_ERR_FORMAT,
                              *p ? "%s: line %lld, column %d: quote inside an unquoted field"
                                 : ZERO_BYTE,
                              d->what, (long long)d->line, d->count + 1);
    }

    d->at = *end = p;
    return SW_OK;
}

static void skip_blanks(struct sw_delimited *d)
{
    while (d->separator == SW_SEPARATOR_BLANKS && d->at < d->end && separates(d, *d->at))
        d->at++;
}

static int read_field(struct sw_delimited *d, bool *last, struct sw_err *err)
{
    char *end = NULL, *field = d->at;
    int rc;

    if (*field == '"' && d->at < d->end) {
        field = ++d->at;
        rc = read_quoted(d, &end, err);
    } else {
        rc = read_bare(d, &end, err);
    }

    if (!rc)
        rc = add_field(d, field, err);
    if (rc)
        return rc;

    const bool separated = !ends_line(d, d->at);
    d->at += separated;
    skip_blanks(d);

    *last = !separated || (d->separator == SW_SEPARATOR_BLANKS && ends_line(d, d->at));
    if (*last) {
        d->at += d->at < d->end && *d->at == '\r';
        d->at += d->at < d->end;
        d->next_line++;
    }

    *end = '\0';
    return SW_OK;
}

int sw_delimited_next(struct sw_delimited *d, struct sw_err *err)
{
    bool last = false;
    int rc = sw_stop_check(err);

    d->count = 0;
    if (rc)
        return rc;

    for (skip_blanks(d); d->at < d->end && ends_line(d, d->at); skip_blanks(d)) {
        d->at += *d->at == '\r' ? 2 : 1;
        d->next_line++;
    }

    d->line = d->next_line;
    while (d->at < d->end && !last) {
        rc = read_field(d, &last, err);
        if (rc)
            return rc;
    }

    /* The text ends with a separator: an empty field follows. */
    return d->count && !last ? add_field(d, d->end, err) : SW_OK;
}
