/* Reads a text file line by line, parses the numbers of each line into one row, and checks the
 * lengths of rows and their number. The contract is in data/number_rows.h. */
#include "data/number_rows.h"
#include "base/os.h"
#include "data/lines.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_COLUMNS = 64 };

static const char blanks[] = " \t\r";

struct reading {
    struct sw_number_rows *to;
    float *value; /* owned: the row */
    int64_t capacity;
    int64_t rows;
    int64_t empty_line; /* the first of the empty lines before this one; 0: none */
};

/* Parses the word at *at and moves it behind the word; false: not a valid value. */
static bool read_value(bool bits, char **at, float *value)
{
    char *end = *at;

    if (bits) {
        *value = (float)(**at == '1');
        end += **at == '0' || **at == '1';
    } else {
        *value = strtof(*at, &end);
    }

    if (end == *at || !isfinite(*value) || (*end && !strchr(blanks, *end)))
        return false;

    *at = end;
    return true;
}

static int read_row(struct reading *in, const char *path, int64_t line, char *at, int64_t *columns,
                    struct sw_err *err)
{
    const bool bits = in->to->bits;

    for (*columns = 0; *at; at += strspn(at, blanks)) {
        int rc = sw_grow(&in->value, sizeof *in->value, *columns, &in->capacity, FIRST_COLUMNS,
                         "a row of numbers", err);
        if (rc)
            return rc;
        if (!read_value(bits, &at, &in->value[*columns])) {
            at[strcspn(at, blanks)] = '\0';
            return sw_err_set(err, SW_ERR_FORMAT, "%s:%lld: value %lld is '%.40s', expected %s",
                              path, (long long)line, (long long)*columns + 1, at,
                              bits ? "0 or 1" : "a finite number");
        }
        ++*columns;
    }

    return SW_OK;
}

static int take_line(void *user, const char *path, int64_t number, char *text, struct sw_err *err)
{
    struct reading *in = user;
    struct sw_number_rows *to = in->to;
    int64_t columns;

    text += strspn(text, blanks);
    if (!*text) {
        in->empty_line = in->empty_line ? in->empty_line : number;
        return SW_OK;
    }
    if (in->empty_line)
        return sw_err_set(err, SW_ERR_FORMAT, "%s:%lld: is empty, expected a row of numbers", path,
                          (long long)in->empty_line);

    int rc = read_row(in, path, number, text, &columns, err);
    if (rc)
        return rc;
    if (!to->columns)
        to->columns = columns;
    if (columns != to->columns)
        return sw_err_set(err, SW_ERR_FORMAT, "%s:%lld: %lld values, expected %lld", path,
                          (long long)number, (long long)columns, (long long)to->columns);
    if (in->rows == to->rows)
        return sw_err_set(err, SW_ERR_FORMAT, "%s:%lld: more rows than the %lld of %s", path,
                          (long long)number, (long long)to->rows, to->rows_of);

    return to->visit(to->user, in->rows++, in->value, columns, err);
}

int sw_number_rows_read(struct sw_number_rows *r, struct sw_err *err)
{
    struct reading in = {.to = r};

    int rc = sw_lines_visit(r->path, r->max_bytes, take_line, &in, err);
    sw_free(in.value);
    if (!rc && in.rows != r->rows)
        rc = sw_err_set(err, SW_ERR_FORMAT, "%s: has %lld rows, expected %lld, as many as %s",
                        r->path, (long long)in.rows, (long long)r->rows, r->rows_of);

    return rc;
}
