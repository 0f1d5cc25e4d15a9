/* The growing string buffer, and helpers for strings: UTF-8, patterns with * and ?, and the nearest
 * word for "did you mean". A failed allocation sets buf.failed and makes later calls do nothing, so
 * that a caller checks once at the end. The contract is in base/str.h. */
#include "base/str.h"
#include "base/os.h"
#include <stdio.h>
#include <string.h>

void sw_bytes_fini(struct sw_bytes *b)
{
    sw_free(b->text);
    *b = (struct sw_bytes){0};
}

void sw_bytes_clear(struct sw_bytes *b)
{
    b->length = 0;
    b->failed = false;
    if (b->text)
        b->text[0] = '\0';
}

/* Makes room for n more bytes and the zero. */
static bool reserve(struct sw_bytes *b, size_t n)
{
    size_t need;
    if (b->failed || __builtin_add_overflow(b->length + 1, n, &need) || need > SIZE_MAX / 2) {
        b->failed = true;
        return false;
    }
    if (need <= b->capacity)
        return true;

    size_t capacity = b->capacity < 32 ? 64 : 2 * b->capacity;
    if (capacity < need)
        capacity = need;

    char *text = sw_realloc_array(b->text, capacity, 1);
    if (!text) {
        b->failed = true;
        return false;
    }

    b->text = text;
    b->capacity = capacity;
    return true;
}

void sw_bytes_append(struct sw_bytes *b, const void *bytes, size_t n)
{
    if (!reserve(b, n))
        return;

    if (n)
        memcpy(b->text + b->length, bytes, n);
    b->length += n;
    b->text[b->length] = '\0';
}

void sw_bytes_add(struct sw_bytes *b, const char *s)
{
    sw_bytes_append(b, s, strlen(s));
}

enum { FIRST_MESSAGE = 127 };

void sw_bytes_vprintf(struct sw_bytes *b, const char *fmt, va_list ap)
{
    va_list again;

    /* Most messages fit at the first try. */
    if (!reserve(b, b->text ? 0 : FIRST_MESSAGE))
        return;

    va_copy(again, ap);

    size_t room = b->capacity - b->length;
    int n = vsnprintf(b->text + b->length, room, fmt, ap);
    if (n < 0)
        b->failed = true;
    else if ((size_t)n < room)
        b->length += (size_t)n;
    else if (reserve(b, (size_t)n)) {
        vsnprintf(b->text + b->length, (size_t)n + 1, fmt, again);
        b->length += (size_t)n;
    } else {
        b->text[b->length] = '\0';
    }

    va_end(again);
}

void sw_bytes_printf(struct sw_bytes *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    sw_bytes_vprintf(b, fmt, ap);
    va_end(ap);
}

const char *sw_bytes_text(const struct sw_bytes *b)
{
    return b->text ? b->text : "";
}

char *sw_bytes_take(struct sw_bytes *b)
{
    sw_bytes_append(b, NULL, 0); /* so that an empty text is not NULL */

    char *text = NULL;
    if (!b->failed) {
        text = b->text;
        b->text = NULL;
    }

    sw_bytes_fini(b);
    return text;
}

char *sw_format(const char *fmt, ...)
{
    struct sw_bytes b = {0};
    va_list ap;

    va_start(ap, fmt);
    sw_bytes_vprintf(&b, fmt, ap);
    va_end(ap);

    return sw_bytes_take(&b);
}

bool sw_utf8_is_valid(const char *s)
{
    size_t left = strlen(s);

    for (size_t n; left > 0; s += n, left -= n)
        if (!(n = sw_utf8_length(s, left)))
            return false;

    return true;
}

size_t sw_utf8_length(const char *s, size_t bytes)
{
    const unsigned char *p = (const unsigned char *)s;

    if (!bytes)
        return 0;
    if (p[0] < 0x80)
        return 1;

    size_t n = p[0] >= 0xC2 && p[0] < 0xE0 ? 2 : p[0] >= 0xE0 && p[0] < 0xF0 ? 3 : 4;
    if (p[0] < 0xC2 || p[0] > 0xF4 || bytes < n)
        return 0;

    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xC0) != 0x80)
            return 0;

    /* Overlong forms, surrogates and values above U+10FFFF can be recognized by the second byte. */
    if ((p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xED && p[1] > 0x9F) ||
        (p[0] == 0xF0 && p[1] < 0x90) || (p[0] == 0xF4 && p[1] > 0x8F))
        return 0;

    return n;
}

bool sw_str_eq(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

bool sw_str_starts(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool sw_str_ends(const char *s, const char *suffix)
{
    size_t n = strlen(s), m = strlen(suffix);
    return n >= m && memcmp(s + n - m, suffix, m) == 0;
}

/* On a mismatch only the last star takes one more character, so time is at most the product of both
 * lengths. */
bool sw_str_match(const char *pattern, const char *s)
{
    const char *star = NULL, *retry = NULL;

    while (*s) {
        if (*pattern == '*') {
            star = pattern++;
            retry = s;
        } else if (*pattern == '?' || *pattern == *s) {
            pattern++;
            s++;
        } else if (star) {
            pattern = star + 1;
            s = ++retry;
        } else {
            return false;
        }
    }

    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

enum { MAX_WORD = 64 };

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Optimal string alignment: three rows of the classical table. Only the first 63 bytes count. */
int sw_str_distance(const char *a, const char *b)
{
    int n = (int)strnlen(a, MAX_WORD - 1), m = (int)strnlen(b, MAX_WORD - 1);
    int rows[3][MAX_WORD];
    int *before = rows[0], *last = rows[1], *now = rows[2];

    for (int j = 0; j <= m; j++)
        last[j] = j;

    for (int i = 1; i <= n; i++) {
        now[0] = i;
        for (int j = 1; j <= m; j++) {
            int replace = last[j - 1] + (a[i - 1] != b[j - 1]);
            now[j] = least(replace, least(last[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = least(now[j], before[j - 2] + 1);
        }

        int *oldest = before;
        before = last;
        last = now;
        now = oldest;
    }

    return last[m];
}

/* The letters of a word: its length, and one bit for each class of byte values (64 classes). */
struct letters {
    int length;
    uint64_t set;
};

static struct letters letters_of(const char *word)
{
    struct letters l = {.length = (int)strnlen(word, MAX_WORD - 1)};
    for (int i = 0; i < l.length; i++)
        l.set |= UINT64_C(1) << ((unsigned char)word[i] & 63);
    return l;
}

/* A lower bound of the distance of two words, at a fraction of its cost: an edit changes the length
 * by at most one, and removes at most one letter that the other word lacks. */
static int least_distance(struct letters a, struct letters b)
{
    int longer = a.length > b.length ? a.length - b.length : b.length - a.length;
    int only_a = __builtin_popcountll(a.set & ~b.set),
        only_b = __builtin_popcountll(b.set & ~a.set);
    int foreign = only_a > only_b ? only_a : only_b;

    return longer > foreign ? longer : foreign;
}

const char *sw_str_nearest(const char *word, const char *const *candidates, size_t count)
{
    const struct letters letters = letters_of(word);
    int limit = (int)strnlen(word, MAX_WORD) / 3;

    limit = limit < 1 ? 1 : limit > 3 ? 3 : limit;

    const char *nearest = NULL;
    for (size_t i = 0; i < count; i++) {
        if (least_distance(letters, letters_of(candidates[i])) > limit)
            continue;

        int distance = sw_str_distance(word, candidates[i]);
        if (distance <= limit) {
            nearest = candidates[i];
            limit = distance - 1;
        }
    }

    return nearest;
}

void sw_shape_text(int ndim, const int64_t *dim, char *out, size_t bytes)
{
    size_t n = 0;

    out[0] = '\0';
    for (int i = 0; i < ndim && n < bytes; i++)
        n += (size_t)snprintf(out + n, bytes - n, "%s%lld", i ? "x" : "", (long long)dim[i]);
}
