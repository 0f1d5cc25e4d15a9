#include "base/json.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LEVEL = 63 };

void sw_json_begin(struct sw_json_writer *w, struct sw_buf *out)
{
    *w = (struct sw_json_writer){.out = out};
}

static void add_string(struct sw_buf *out, const char *s)
{
    size_t left = strlen(s);
    sw_buf_add_bytes(out, "\"", 1);
    while (left) {
        size_t n = sw_utf8_length(s, left);
        unsigned char c = (unsigned char)*s;
        if (n == 0)
            sw_buf_add(out, "\xEF\xBF\xBD"); /* U+FFFD, the replacement character */
        else if (c == '"' || c == '\\')
            sw_buf_printf(out, "\\%c", c);
        else if (c == '\n')
            sw_buf_add(out, "\\n");
        else if (c < 0x20)
            sw_buf_printf(out, "\\u%04x", c);
        else
            sw_buf_add_bytes(out, s, n);
        s += n ? n : 1;
        left -= n ? n : 1;
    }
    sw_buf_add_bytes(out, "\"", 1);
}

/* What stands before a value: a comma unless it is the first, and its key. */
static void lead(struct sw_json_writer *w, const char *key)
{
    uint64_t bit = 1ull << w->depth;
    if (w->has_item & bit && w->depth == 0)
        w->out->failed = true; /* a text is one value */
    if (w->has_item & bit)
        sw_buf_add_bytes(w->out, ",", 1);
    w->has_item |= bit;
    if (key) {
        add_string(w->out, key);
        sw_buf_add_bytes(w->out, ":", 1);
    }
}

static void open_level(struct sw_json_writer *w, const char *key, const char *bracket)
{
    lead(w, key);
    sw_buf_add(w->out, bracket);
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
    sw_buf_add(w->out, bracket);
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
        sw_buf_add(w->out, "null");
}

void sw_json_int(struct sw_json_writer *w, const char *key, int64_t value)
{
    lead(w, key);
    sw_buf_printf(w->out, "%" PRId64, value);
}

/* The shortest of 15, 16 and 17 digits that reads back as the same double. */
void sw_json_real(struct sw_json_writer *w, const char *key, double value)
{
    char text[32];
    lead(w, key);
    if (!isfinite(value)) {
        sw_buf_add(w->out, "null");
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    sw_buf_add(w->out, text);
}

void sw_json_bool(struct sw_json_writer *w, const char *key, bool value)
{
    lead(w, key);
    sw_buf_add(w->out, value ? "true" : "false");
}
