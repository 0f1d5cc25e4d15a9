/* JSON (RFC 8259): a writer over struct sw_bytes that cannot produce invalid text, and a strict
 * small parser for headers and tests. One owner per object. */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include <stdbool.h>
#include <stdint.h>

struct sw_json_writer {
    struct sw_bytes *out; /* borrowed */
    int depth;
    uint64_t has_item; /* bit d: something was written at depth d */
};

void sw_json_begin(struct sw_json_writer *w, struct sw_bytes *out);
/* Nesting goes down to 63 levels; deeper, or a second outermost value, marks the buffer as failed.
 * Bytes that are not UTF-8 become U+FFFD, and characters that must not reach a terminal (text.h)
 * are written as escapes. key is NULL inside arrays and for the outermost value.
 * Non-finite reals become null. */
void sw_json_open_object(struct sw_json_writer *w, const char *key);
void sw_json_close_object(struct sw_json_writer *w);
void sw_json_open_array(struct sw_json_writer *w, const char *key);
void sw_json_close_array(struct sw_json_writer *w);
void sw_json_string(struct sw_json_writer *w, const char *key,
                    const char *value); /* NULL becomes null */
void sw_json_int(struct sw_json_writer *w, const char *key, int64_t value);
void sw_json_real(struct sw_json_writer *w, const char *key, double value);
void sw_json_bool(struct sw_json_writer *w, const char *key, bool value);

enum sw_json_type {
    SW_JSON_NULL,
    SW_JSON_BOOL,
    SW_JSON_NUMBER,
    SW_JSON_STRING,
    SW_JSON_ARRAY,
    SW_JSON_OBJECT
};

/* A parsed value. Children are a linked list; the root owns everything. */
struct sw_json {
    enum sw_json_type type;
    char *key;    /* inside an object; owned */
    char *string; /* STRING: text; NUMBER: its spelling; owned */
    double number;
    bool boolean;
    struct sw_json *first, *next;
};

/* Parses exactly one value. Depth is limited to 64 and the number of values to a million; duplicate
 * keys, text that is not UTF-8 and U+0000 are refused.
 * Errors: SW_ERR_FORMAT with the byte offset, SW_ERR_NOMEM. Free with sw_json_free. */
int sw_json_parse(const char *text, size_t bytes, struct sw_json **root,
                  struct sw_err *err) SW_MUST_CHECK;
void sw_json_free(struct sw_json *root);
const struct sw_json *sw_json_get(const struct sw_json *object,
                                  const char *key); /* NULL when absent */
/* True if both have the same values under the same keys in the same order. */
bool sw_json_equal(const struct sw_json *a, const struct sw_json *b);
/* An exact non-negative integer up to 2^53, or false. */
bool sw_json_as_size(const struct sw_json *v, uint64_t *value);
