/* The JSON writer. It stores the nesting as a depth and one bit per level, which says whether a
 * comma is due; a call that would produce invalid JSON sets out->failed. The parser is
 * json_parse.c. The contract is in base/json.h. */
#include "base/json.h"
#include "base/text.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LEVEL = 63 };

void sw_json_begin(struct sw_json_writer *w, struct sw_bytes *out)
{
    *w = (struct sw_json_writer){.out = out};
}

/* Appends an escape; a character above U+FFFF becomes a surrogate pair (RFC 8259 section 7). */
static void add_escape(struct sw_bytes *out, uint32_t rune)
{
    if (rune > 0xffff)
        sw_bytes_printf(out, "\\u%04x\\u%04x", (unsigned)(0xd7c0 + (rune >> 10)),
                        (unsigned)(0xdc00 + (rune & 0x3ff)));
    else
        sw_bytes_printf(out, "\\u%04x", (unsigned)rune);
}

static void add_string(struct sw_bytes *out, const char *s)
{
    size_t left = strlen(s);

    sw_bytes_append(out, "\"", 1);

    while (left) {
        const char *at = s;
        uint32_t rune = sw_utf8_next(&s, &left);

        if (rune == SW_UTF8_BAD)
            sw_bytes_add(out, "\xEF\xBF\xBD"); /* U+FFFD, the replacement character */
        else if (rune == '"' || rune == '\\')
            sw_bytes_printf(out, "\\%c", *at);
        else if (rune == '\n')
            sw_bytes_add(out, "\\n");
        else if (sw_rune_is_unsafe(rune))
            add_escape(out, rune);
        else
            sw_bytes_append(out, at, (size_t)(s - at));
    }

    sw_bytes_append(out, "\"", 1);
}

/* Writes what comes before a value: a comma unless it is the first, and its key. */
static void lead(struct sw_json_writer *w, const char *key)
{
    uint64_t bit = 1ull << w->depth;

    if (w->has_item & bit && w->depth == 0)
        w->out->failed = true; /* a JSON text is a single value */
    if (w->has_item & bit)
        sw_bytes_append(w->out, ",", 1);
    w->has_item |= bit;

    if (key) {
        add_string(w->out, key);
        sw_bytes_append(w->out, ":", 1);
    }
}

static void open_level(struct sw_json_writer *w, const char *key, const char *bracket)
{
    lead(w, key);
    sw_bytes_add(w->out, bracket);
    if (w->depth == MAX_LEVEL) {
        w->out->failed = true;
        return;
    }

    w->depth++;
    w->has_item &= ~(1ull << w->depth);
}

static void close_level(struct sw_json_writer *w, const char *bracket)
{
    if (w->depth == 0) {
        w->out->failed = true;
        return;
    }

    w->depth--;
    sw_bytes_add(w->out, bracket);
}

void sw_json_open_object(struct sw_json_writer *w, const char *key)
{
    open_level(w, key, "{");
}

void sw_json_close_object(struct sw_json_writer *w)
{
    close_level(w, "}");
}

void sw_json_open_array(struct sw_json_writer *w, const char *key)
{
    open_level(w, key, "[");
}

void sw_json_close_array(struct sw_json_writer *w)
{
    close_level(w, "]");
}

void sw_json_string(struct sw_json_writer *w, const char *key, const char *value)
{
    lead(w, key);

    if (value)
        add_string(w->out, value);
    else
        sw_bytes_add(w->out, "null");
}

void sw_json_int(struct sw_json_writer *w, const char *key, int64_t value)
{
    lead(w, key);
    sw_bytes_printf(w->out, "%" PRId64, value);
}

/* The shortest of 15, 16 and 17 digits that reads back as the same double. */
void sw_json_real(struct sw_json_writer *w, const char *key, double value)
{
    char text[32];

    lead(w, key);
    if (!isfinite(value)) {
        sw_bytes_add(w->out, "null");
        return;
    }

    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }

    sw_bytes_add(w->out, text);
}

void sw_json_bool(struct sw_json_writer *w, const char *key, bool value)
{
    lead(w, key);
    sw_bytes_add(w->out, value ? "true" : "false");
}
