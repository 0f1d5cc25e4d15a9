/* The parser of base/json.h: recursive descent over untrusted bytes. Depth and
 * number of values are limited, so time and memory are at most proportional to the text. */
#include "base/json.h"
#include "base/os.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 64, MAX_VALUES = 1000000 };

struct parser {
    const char *start, *at, *end;
    int depth, values;
    struct sw_err *err;
};

static int refuse(struct parser *p, const char *why)
{
    return sw_err_set(p->err, SW_ERR_FORMAT, "JSON at byte %zu: %s", (size_t)(p->at - p->start),
                      why);
}

static void skip_blanks(struct parser *p)
{
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r'))
        p->at++;
}

static bool next_is(const struct parser *p, char c)
{
    return p->at < p->end && *p->at == c;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The four digits after \u. */
static int parse_hex4(struct parser *p, uint32_t *value)
{
    *value = 0;
    for (int i = 0; i < 4; i++, p->at++) {
        int digit = p->at < p->end ? hex_digit(*p->at) : -1;
        if (digit < 0)
            return refuse(p, "\\u needs four hexadecimal digits");
        *value = *value * 16 + (uint32_t)digit;
    }

    return SW_OK;
}

static char *put_utf8(char *out, uint32_t c)
{
    if (c < 0x80) {
        *out++ = (char)c;
    } else if (c < 0x800) {
        *out++ = (char)(0xC0 | c >> 6);
        *out++ = (char)(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
        *out++ = (char)(0xE0 | c >> 12);
        *out++ = (char)(0x80 | (c >> 6 & 0x3F));
        *out++ = (char)(0x80 | (c & 0x3F));
    } else {
        *out++ = (char)(0xF0 | c >> 18);
        *out++ = (char)(0x80 | (c >> 12 & 0x3F));
        *out++ = (char)(0x80 | (c >> 6 & 0x3F));
        *out++ = (char)(0x80 | (c & 0x3F));
    }

    return out;
}

/* A \u escape; characters above U+FFFF come as two of them (RFC 8259 section 7). */
static int parse_unicode(struct parser *p, char **out)
{
    uint32_t c, low;

    int rc = parse_hex4(p, &c);
    if (rc != SW_OK)
        return rc;

    if (c >= 0xD800 && c < 0xDC00) {
        if (p->end - p->at < 2 || p->at[0] != '\\' || p->at[1] != 'u')
            return refuse(p, "unpaired surrogate");

        p->at += 2;
        rc = parse_hex4(p, &low);
        if (rc != SW_OK)
            return rc;
        if (low < 0xDC00 || low > 0xDFFF)
            return refuse(p, "unpaired surrogate");

        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
    } else if (c >= 0xDC00 && c < 0xE000) {
        return refuse(p, "unpaired surrogate");
    }

    if (c == 0)
        return refuse(p, "U+0000 in a string");

    *out = put_utf8(*out, c);
    return SW_OK;
}

static int parse_escape(struct parser *p, char **out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *found;

    p->at++;
    if (p->at == p->end)
        return refuse(p, "unterminated string");
    if (*p->at == 'u') {
        p->at++;
        return parse_unicode(p, out);
    }

    found = *p->at ? strchr(from, *p->at) : NULL;
    if (!found)
        return refuse(p, "an unknown escape");

    *(*out)++ = to[found - from];
    p->at++;
    return SW_OK;
}

/* Bytes until the closing quote: the decoded text is never longer. */
static size_t string_room(const struct parser *p)
{
    const char *s = p->at;
    while (s < p->end && *s != '"')
        s += *s == '\\' && s + 1 < p->end ? 2 : 1;
    return (size_t)(s - p->at);
}

static int parse_string(struct parser *p, char **string)
{
    int rc = SW_OK;

    p->at++;

    size_t room = string_room(p) + 1;
    char *text = sw_realloc_array(NULL, room, 1), *out = text;
    if (!text)
        return sw_err_nomem(p->err, "JSON string", room);

    while (rc == SW_OK && p->at < p->end && *p->at != '"') {
        size_t n = sw_utf8_length(p->at, (size_t)(p->end - p->at));

        if (n == 0)
            rc = refuse(p, "a string is not valid UTF-8");
        else if ((unsigned char)*p->at < 0x20)
            rc = refuse(p, "a control character in a string");
        else if (*p->at == '\\')
            rc = parse_escape(p, &out);
        else {
            memcpy(out, p->at, n);
            out += n;
            p->at += n;
        }
    }

    if (rc == SW_OK && p->at == p->end)
        rc = refuse(p, "unterminated string");
    if (rc != SW_OK) {
        sw_free(text);
        return rc;
    }

    p->at++;
    *out = '\0';
    *string = text;

    return SW_OK;
}

static const char *digits_end(const struct parser *p, const char *s)
{
    while (s < p->end && *s >= '0' && *s <= '9')
        s++;
    return s;
}

/* -? (0 | [1-9] digits) (. digits)? ([eE] [+-]? digits)? */
static int parse_number(struct parser *p, struct sw_json *v)
{
    const char *start = p->at, *s = start, *digits;

    s += *s == '-';
    digits = s;

    s = digits_end(p, s);
    if (s == digits || (*digits == '0' && s - digits > 1))
        return refuse(p, "not a value");

    if (s < p->end && *s == '.') {
        digits = ++s;
        s = digits_end(p, s);
        if (s == digits)
            return refuse(p, "a number ends with its decimal point");
    }

    if (s < p->end && (*s == 'e' || *s == 'E')) {
        s++;
        if (s < p->end && (*s == '+' || *s == '-'))
            s++;
        digits = s;
        s = digits_end(p, s);
        if (s == digits)
            return refuse(p, "a number has an empty exponent");
    }

    size_t length = (size_t)(s - start);
    v->string = sw_realloc_array(NULL, length + 1, 1);
    if (!v->string)
        return sw_err_nomem(p->err, "JSON number", length + 1);

    memcpy(v->string, start, length);
    v->string[length] = '\0';
    v->number = strtod(v->string, NULL);
    v->type = SW_JSON_NUMBER;
    p->at = s;

    return SW_OK;
}

static bool take_word(struct parser *p, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(p->end - p->at) < n || memcmp(p->at, word, n) != 0)
        return false;

    p->at += n;
    return true;
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Duplicate keys are found by sorting, which is fast enough for an object of a million keys. */
static int check_keys(struct parser *p, const struct sw_json *object, size_t count)
{
    if (count < 2)
        return SW_OK;

    const char **keys = sw_realloc_array(NULL, count, sizeof *keys);
    if (!keys)
        return sw_err_nomem(p->err, "JSON keys", count * sizeof *keys);

    size_t n = 0;
    for (const struct sw_json *v = object->first; v; v = v->next)
        keys[n++] = v->key;
    qsort(keys, n, sizeof *keys, compare_keys);

    int rc = SW_OK;
    for (size_t i = 1; i < n && rc == SW_OK; i++)
        if (strcmp(keys[i - 1], keys[i]) == 0)
            rc = sw_err_set(p->err, SW_ERR_FORMAT, "JSON before byte %zu: duplicate key \"%.100s\"",
                            (size_t)(p->at - p->start), keys[i]);

    sw_free(keys);
    return rc;
}

static int parse_value(struct parser *p, struct sw_json *v);

/* One `key: value` or value into a new last child. */
static int parse_child(struct parser *p, struct sw_json *parent, struct sw_json ***last)
{
    struct sw_json *child = sw_calloc(1, sizeof *child);
    if (!child)
        return sw_err_nomem(p->err, "JSON value", sizeof *child);

    **last = child;
    *last = &child->next;
    skip_blanks(p);

    if (parent->type == SW_JSON_OBJECT) {
        if (!next_is(p, '"'))
            return refuse(p, "expected a quoted key");

        int rc = parse_string(p, &child->key);
        if (rc != SW_OK)
            return rc;

        skip_blanks(p);
        if (!next_is(p, ':'))
            return refuse(p, "expected ':'");

        p->at++;
    }

    return parse_value(p, child);
}

static int parse_children(struct parser *p, struct sw_json *v, enum sw_json_type type, char closing)
{
    struct sw_json **last = &v->first;
    size_t count = 0;

    v->type = type;
    p->at++;
    if (++p->depth > MAX_DEPTH)
        return refuse(p, "nested deeper than 64 levels");

    skip_blanks(p);

    for (bool more = !next_is(p, closing); more; count++) {
        int rc = parse_child(p, v, &last);
        if (rc != SW_OK)
            return rc;

        skip_blanks(p);

        more = next_is(p, ',');
        if (more)
            p->at++;
        else if (!next_is(p, closing))
            return refuse(p,
                          type == SW_JSON_OBJECT ? "expected ',' or '}'" : "expected ',' or ']'");
    }

    p->at++;
    p->depth--;
    return type == SW_JSON_OBJECT ? check_keys(p, v, count) : SW_OK;
}

static int parse_value(struct parser *p, struct sw_json *v)
{
    if (++p->values > MAX_VALUES)
        return refuse(p, "more than a million values");

    skip_blanks(p);
    if (p->at == p->end)
        return refuse(p, "the text ends where a value is expected");

    switch (*p->at) {
    case '{':
        return parse_children(p, v, SW_JSON_OBJECT, '}');
    case '[':
        return parse_children(p, v, SW_JSON_ARRAY, ']');
    case '"':
        v->type = SW_JSON_STRING;
        return parse_string(p, &v->string);
    default:
        break;
    }

    if (take_word(p, "null")) {
        v->type = SW_JSON_NULL;
        return SW_OK;
    }

    v->boolean = take_word(p, "true");
    if (v->boolean || take_word(p, "false")) {
        v->type = SW_JSON_BOOL;
        return SW_OK;
    }

    return parse_number(p, v);
}

int sw_json_parse(const char *text, size_t bytes, struct sw_json **root, struct sw_err *err)
{
    struct parser p = {.start = text, .at = text, .end = text + bytes, .err = err};
    struct sw_json *v = sw_calloc(1, sizeof *v);
    if (!v)
        return sw_err_nomem(err, "JSON value", sizeof *v);

    int rc = parse_value(&p, v);
    if (rc == SW_OK) {
        skip_blanks(&p);
        if (p.at != p.end)
            rc = refuse(&p, "text after the value");
    }

    if (rc != SW_OK) {
        sw_json_free(v);
        return rc;
    }

    *root = v;
    return SW_OK;
}

/* Recursion follows nesting only, whose depth the parser has limited; siblings are a loop. */
void sw_json_free(struct sw_json *v)
{
    while (v) {
        struct sw_json *next = v->next;

        sw_json_free(v->first);
        sw_free(v->key);
        sw_free(v->string);
        sw_free(v);
        v = next;
    }
}

const struct sw_json *sw_json_get(const struct sw_json *object, const char *key)
{
    if (!object || object->type != SW_JSON_OBJECT)
        return NULL;

    for (const struct sw_json *v = object->first; v; v = v->next)
        if (strcmp(v->key, key) == 0)
            return v;

    return NULL;
}

bool sw_json_equal(const struct sw_json *a, const struct sw_json *b)
{
    const struct sw_json *x = a->first, *y = b->first;

    for (; x && y && sw_str_eq(x->key, y->key) && sw_json_equal(x, y); y = y->next)
        x = x->next;
    return !x && !y && a->type == b->type && sw_str_eq(a->string, b->string) &&
           a->boolean == b->boolean;
}

bool sw_json_as_size(const struct sw_json *v, uint64_t *value)
{
    if (!v || v->type != SW_JSON_NUMBER || v->string[0] == '-' || !(v->number <= 0x1p53))
        return false;

    uint64_t whole = (uint64_t)v->number;
    if ((double)whole != v->number)
        return false;

    *value = whole;
    return true;
}
