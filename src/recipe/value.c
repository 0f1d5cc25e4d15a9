/* Converts between text and typed option fields: reading with range checks, lists, and writing.
 * Every option type needs a case in read_field and one in sw_opt_write. A problem names the bytes
 * of the text that are wrong, so that the message can point at them. The contract is in
 * recipe/value.h. */
#include "recipe/value.h"
#include "base/str.h"
#include "recipe/ini.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static bool limited(const struct sw_opt *row)
{
    return row->min != 0 || row->max != 0;
}

bool sw_opt_has_min(const struct sw_opt *row)
{
    return limited(row) && isfinite(row->min);
}

bool sw_opt_has_max(const struct sw_opt *row)
{
    return limited(row) && isfinite(row->max) && row->max >= row->min;
}

/* The format %.15g prints every limit as it was written: 1000000, 0.1. */
static bool check_range(const struct sw_opt *row, double v, struct sw_opt_problem *p)
{
    bool has_min = sw_opt_has_min(row), has_max = sw_opt_has_max(row);
    bool low = has_min && (v < row->min || (row->above_min && v <= row->min));
    bool high = has_max && (v > row->max || (row->below_max && v >= row->max));
    if (!low && !high)
        return true;

    size_t room = sizeof(p->reason);
    int n = snprintf(p->reason, room, "must be ");
    if (has_min && has_max && !row->above_min && !row->below_max)
        snprintf(p->reason + n, room - (size_t)n, "from %.15g to %.15g", row->min, row->max);
    else if (has_min && has_max)
        snprintf(p->reason + n, room - (size_t)n, "%s %.15g and %s %.15g",
                 row->above_min ? "above" : "at least", row->min,
                 row->below_max ? "below" : "at most", row->max);
    else if (has_min)
        snprintf(p->reason + n, room - (size_t)n, row->above_min ? "above %.15g" : "%.15g or more",
                 row->min);
    else
        snprintf(p->reason + n, room - (size_t)n, row->below_max ? "below %.15g" : "%.15g or less",
                 row->max);

    return false;
}

static bool fail(struct sw_opt_problem *p, const char *reason)
{
    snprintf(p->reason, sizeof(p->reason), "%s", reason);
    return false;
}

static bool read_int(const struct sw_opt *row, const char *text, int64_t *out,
                     struct sw_opt_problem *p)
{
    double real;

    for (int i = 0; row->choices && row->choices[i]; i++)
        if (sw_str_eq(text, row->choices[i])) {
            *out = 0;
            return true;
        }

    if (!sw_parse_int(text, out)) {
        if (sw_parse_real(text, &real) && fabs(real) < 1e15 && real == floor(real)) {
            snprintf(p->reason, sizeof(p->reason), "must be a whole number; write %.0f", real);
            return false;
        }
        return fail(p, row->choices ? "must be a whole number, or auto" : "must be a whole number");
    }
    return check_range(row, (double)*out, p);
}

static bool read_real(const struct sw_opt *row, const char *text, double *out,
                      struct sw_opt_problem *p)
{
    if (!sw_parse_real(text, out) || !isfinite(*out))
        return fail(p, "must be a number");
    return check_range(row, *out, p);
}

static bool read_bytes(const struct sw_opt *row, const char *text, int64_t *out,
                       struct sw_opt_problem *p)
{
    if (!sw_parse_bytes(text, out))
        return fail(p, "must be a size such as 4GB, 512MB or 1024");
    return check_range(row, (double)*out, p);
}

static bool read_enum(const struct sw_opt *row, const char *text, int *out,
                      struct sw_opt_problem *p)
{
    size_t count = 0;

    for (; row->choices[count]; count++)
        if (strcmp(row->choices[count], text) == 0) {
            *out = (int)count;
            return true;
        }

    size_t n = (size_t)snprintf(p->reason, sizeof(p->reason), "must be ");
    for (size_t i = 0; i < count && n < sizeof(p->reason); i++)
        n += (size_t)snprintf(p->reason + n, sizeof(p->reason) - n, "%s%s",
                              i == 0           ? ""
                              : i + 1 == count ? " or "
                                               : ", ",
                              row->choices[i]);

    return false;
}

/* ---- Lists ---- */

static size_t count_items(const char *text)
{
    size_t n = 1;
    for (; *text; text++)
        n += *text == ',';
    return n;
}

/* Splits text into pool copies; a problem names the item. */
static bool split(const char *text, struct sw_pool *pool, const char **items,
                  struct sw_opt_problem *p)
{
    const char *at = text;

    for (int i = 0; at; i++) {
        struct sw_span item = sw_span_next(&at);

        p->offset = (size_t)(item.at - text);
        p->bytes = item.bytes;
        if (!item.bytes) {
            snprintf(p->reason, sizeof(p->reason), "item %d is empty", i + 1);
            return false;
        }
        items[i] = sw_pool_copy(pool, item.at, item.bytes);
        if (!items[i])
            return false;
    }

    return true;
}

static bool read_strings(const char *text, struct sw_pool *pool, struct sw_strings *out,
                         struct sw_opt_problem *p)
{
    size_t count = count_items(text);
    const char **items = sw_pool_alloc(pool, count, sizeof(*items));
    if (!items || !split(text, pool, items, p))
        return false;

    *out = (struct sw_strings){items, (int)count};
    return true;
}

static bool read_reals(const struct sw_opt *row, const char *text, struct sw_pool *pool,
                       struct sw_reals *out, struct sw_opt_problem *p)
{
    struct sw_strings words;
    double *items = sw_pool_alloc(pool, count_items(text), sizeof(*items));
    if (!items || !read_strings(text, pool, &words, p))
        return false;

    const char *at = text;
    for (int i = 0; i < words.count; i++) {
        struct sw_span item = sw_span_next(&at);

        p->offset = (size_t)(item.at - text);
        p->bytes = item.bytes;
        if (!read_real(row, words.items[i], &items[i], p)) {
            char reason[sizeof(p->reason)];
            memcpy(reason, p->reason, sizeof(reason));
            snprintf(p->reason, sizeof(p->reason), "item %d %.150s", i + 1, reason);
            return false;
        }
    }

    *out = (struct sw_reals){items, words.count};
    return true;
}

/* ---- All types ---- */

static bool read_field(const struct sw_opt *row, const char *text, struct sw_pool *pool,
                       union sw_opt_field *v, size_t *size, struct sw_opt_problem *p)
{
    switch (row->type) {
    case SW_OPT_INT:
        *size = sizeof(v->integer);
        return read_int(row, text, &v->integer, p);
    case SW_OPT_REAL:
        *size = sizeof(v->real);
        return read_real(row, text, &v->real, p);
    case SW_OPT_BOOL:
        *size = sizeof(v->boolean);
        return sw_parse_bool(text, &v->boolean) || fail(p, "must be yes or no");
    case SW_OPT_STRING:
    case SW_OPT_PATH:
        *size = sizeof(v->string);
        v->string = text;
        return true;
    case SW_OPT_ENUM:
        *size = sizeof(v->choice);
        return read_enum(row, text, &v->choice, p);
    case SW_OPT_BYTES:
        *size = sizeof(v->integer);
        return read_bytes(row, text, &v->integer, p);
    case SW_OPT_STRINGS:
    case SW_OPT_PATHS:
        *size = sizeof(v->strings);
        return read_strings(text, pool, &v->strings, p);
    case SW_OPT_REALS:
        *size = sizeof(v->reals);
        return read_reals(row, text, pool, &v->reals, p);
    }

    return fail(p, "has an unknown option type");
}

bool sw_opt_read(const struct sw_opt *row, const char *text, struct sw_pool *pool, void *conf,
                 struct sw_opt_problem *problem)
{
    union sw_opt_field v = {0};
    size_t size = 0;

    *problem = (struct sw_opt_problem){.bytes = strlen(text)};
    if (!*text)
        return fail(problem, "missing value");
    if (!read_field(row, text, pool, &v, &size, problem))
        return false;

    memcpy((char *)conf + row->offset, &v, size);
    return true;
}

bool sw_opt_accepts(const struct sw_opt *row, const char *text, struct sw_pool *pool,
                    struct sw_opt_problem *problem)
{
    struct sw_opt alone = *row;
    union sw_opt_field field;

    alone.offset = 0;
    return sw_opt_read(&alone, text, pool, &field, problem);
}

/* ---- Writing ---- */

static bool write_reals(const struct sw_reals *list, struct sw_bytes *out)
{
    for (int i = 0; i < list->count; i++)
        sw_bytes_printf(out, "%s%.15g", i ? ", " : "", list->items[i]);
    return list->count > 0;
}

static bool write_strings(const struct sw_strings *list, struct sw_bytes *out)
{
    for (int i = 0; i < list->count; i++)
        sw_bytes_printf(out, "%s%s", i ? ", " : "", list->items[i]);
    return list->count > 0;
}

bool sw_opt_write(const struct sw_opt *row, const void *conf, struct sw_bytes *out)
{
    const void *field = (const char *)conf + row->offset;

    switch (row->type) {
    case SW_OPT_INT:
    case SW_OPT_BYTES:
        sw_bytes_printf(out, "%lld", (long long)*(const int64_t *)field);
        return true;
    case SW_OPT_REAL:
        sw_bytes_printf(out, "%.15g", *(const double *)field);
        return true;
    case SW_OPT_BOOL:
        sw_bytes_add(out, *(const bool *)field ? "yes" : "no");
        return true;
    case SW_OPT_STRING:
    case SW_OPT_PATH:
        if (*(const char *const *)field)
            sw_bytes_add(out, *(const char *const *)field);
        return *(const char *const *)field != NULL;
    case SW_OPT_ENUM:
        sw_bytes_add(out, row->choices[*(const int *)field]);
        return true;
    case SW_OPT_STRINGS:
    case SW_OPT_PATHS:
        return write_strings(field, out);
    case SW_OPT_REALS:
        return write_reals(field, out);
    }

    return false;
}
