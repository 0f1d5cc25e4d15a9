/* Compares what two hosts say about themselves, and names the field in which they differ. */
#include "exchange/hosts/hello.h"

#include <stdio.h>
#include <string.h>

enum { SHOWN = 64 };

/* A line, without its newline. */
struct field {
    const char *name, *value;
    size_t name_bytes, value_bytes;
};

/* Takes the line at *at and advances it. False at the end. A line without '=' is a name without a
 * value. */
static bool next_field(const char **at, const char *end, struct field *out)
{
    const char *line = *at;

    if (line == end)
        return false;

    size_t left = (size_t)(end - line);
    const char *newline = memchr(line, '\n', left);
    size_t bytes = newline ? (size_t)(newline - line) : left;
    const char *equals = memchr(line, '=', bytes);

    *at = newline ? newline + 1 : end;
    *out = (struct field){.name = line, .name_bytes = bytes, .value = line + bytes};
    if (equals) {
        out->name_bytes = (size_t)(equals - line);
        out->value = equals + 1;
        out->value_bytes = bytes - out->name_bytes - 1;
    }

    return true;
}

static bool find_field(const struct sw_hello *h, const struct field *wanted, struct field *out)
{
    const char *at = h->text, *end = h->text + h->bytes;

    while (next_field(&at, end, out))
        if (out->name_bytes == wanted->name_bytes &&
            memcmp(out->name, wanted->name, wanted->name_bytes) == 0)
            return true;

    return false;
}

static bool is_printable(char c)
{
    return c >= ' ' && c <= '~';
}

bool sw_hello_is_valid(const char *text, size_t bytes)
{
    const char *at = text, *end = text + bytes;
    struct field f;

    if (bytes > 0 && text[bytes - 1] != '\n')
        return false;

    for (size_t i = 0; i < bytes; i++)
        if (!is_printable(text[i]) && text[i] != '\n')
            return false;

    while (next_field(&at, end, &f))
        if (f.name_bytes == 0 || f.value == f.name + f.name_bytes)
            return false;

    return true;
}

/* Copies text of any origin for a message: printable characters only, and not many. */
static const char *shown(char out[SHOWN + 4], const char *s, size_t bytes)
{
    size_t n = bytes < SHOWN ? bytes : SHOWN;

    for (size_t i = 0; i < n; i++)
        out[i] = is_printable(s[i]) ? s[i] : '?';
    strcpy(out + n, bytes > n ? "..." : "");
    return out;
}

static int differ(const struct sw_hello *own, const struct sw_hello *other, const struct field *a,
                  const struct field *b, struct sw_err *err)
{
    char name[SHOWN + 4], left[SHOWN + 4], right[SHOWN + 4];

    return sw_err_set(
        err, SW_ERR_INVALID, "hosts %s and %s differ in %s: \"%s\" on %s, \"%s\" on %s", own->host,
        other->host, shown(name, a->name, a->name_bytes), shown(left, a->value, a->value_bytes),
        own->host, shown(right, b->value, b->value_bytes), other->host);
}

static int missing(const struct sw_hello *has, const struct sw_hello *lacks, const struct field *f,
                   struct sw_err *err)
{
    char name[SHOWN + 4], value[SHOWN + 4];

    return sw_err_set(err, SW_ERR_INVALID,
                      "hosts %s and %s differ in %s: \"%s\" on %s, missing on %s", has->host,
                      lacks->host, shown(name, f->name, f->name_bytes),
                      shown(value, f->value, f->value_bytes), has->host, lacks->host);
}

/* Looks up all fields of one host in the text of the other. */
static int compare_to(const struct sw_hello *one, const struct sw_hello *two, struct sw_err *err)
{
    const char *at = one->text, *end = one->text + one->bytes;
    struct field a, b;

    while (next_field(&at, end, &a)) {
        if (!find_field(two, &a, &b))
            return missing(one, two, &a, err);
        if (a.value_bytes != b.value_bytes || memcmp(a.value, b.value, a.value_bytes) != 0)
            return differ(one, two, &a, &b, err);
    }

    return SW_OK;
}

int sw_hello_compare(const struct sw_hello *own, const struct sw_hello *other, struct sw_err *err)
{
    if (own->bytes == other->bytes && memcmp(own->text, other->text, own->bytes) == 0)
        return SW_OK;

    int rc = compare_to(own, other, err);
    return rc == SW_OK ? compare_to(other, own, err) : rc;
}
