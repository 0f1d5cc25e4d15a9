/* The INI parser: converts bytes to sections and entries, each with its position. Kinds, keys and
 * types are checked later, in bind.c. The complete syntax:
 *   - one thing per line: `[kind]`, `[kind name]`, `key = value`, a comment, or nothing;
 *   - `;` and `#` start a comment at the start of a line and after a blank inside a line, so
 *     `a#b` is a value and `a #b` is the value `a` with a comment; there are no quotes;
 *   - blanks (space, tab) around kind, name, key and value do not count; names and keys hold none,
 *     and names hold none of , = [ ] either;
 *   - lines end in LF or CRLF, the last one may end without; a UTF-8 byte order mark is skipped;
 *   - the text is UTF-8 without control characters, at most SW_INI_MAX_BYTES; lines of any length;
 *   - `include = FILE` is allowed before the first section, any number of times. The text of the
 *     file may be embedded after such a line, between `;| the next N lines are FILE` and `;| end of
 *     FILE`, so that one text holds the whole recipe (include.c). These lines are attributed to
 *     FILE.
 * Every violation produces one message with line and column; parsing continues with the next line.
 * Sections and keys are unique. One owner; frozen after sw_ini_parse. */
#pragma once

#include "base/err.h"
#include "recipe/diag.h"
#include "recipe/pool.h"
#include <stdbool.h>
#include <stddef.h>

enum {
    SW_INI_MAX_BYTES = 4 << 20,
    SW_INI_MAX_SECTIONS = 10000,
    SW_INI_MAX_KEYS = 512, /* in one section */
    SW_INI_MAX_FILES = 64, /* of one recipe */
};

/* Prefixes of the lines before and after the embedded text of an included file. */
#define SW_INI_HELD ";| the next "
#define SW_INI_HELD_END ";| end of"

/* One file. */
struct sw_ini_file {
    const char *path; /* for messages */
    const char *text; /* all of it as it was */
    size_t bytes;
    int rank;  /* order of messages: the recipe itself 0, then what it includes */
    int order; /* precedence from 1; the recipe itself has the highest */
};

/* A line of a file. */
struct sw_ini_line {
    const struct sw_ini_file *file;
    const char *source; /* where it begins in the text; NULL: none */
    int line;           /* from 1; 0: the file as a whole */
};

struct sw_ini_entry {
    struct sw_ini_entry *next;  /* file order */
    struct sw_ini_entry *below; /* what it replaced in an included file, or NULL */
    struct sw_ini_line at;
    const char *key;
    const char *value; /* trimmed, may be empty */
    int key_column, value_column;
};

struct sw_ini_section {
    struct sw_ini_section *next; /* file order */
    struct sw_ini_line at;
    const char *kind;
    const char *name; /* NULL in [kind] */
    int kind_column;
    struct sw_ini_entry *first, *last;
};

/* A line `include = FILE`. */
struct sw_ini_include {
    struct sw_ini_include *next; /* file order */
    struct sw_ini_entry entry;   /* value: FILE */
    const char *embedded;        /* the embedded text of the file, or NULL */
    size_t embedded_bytes;
    size_t line_end,
        end; /* offsets in the including file: after the line; after the embedded text */
};

/* All strings and structs live in the pool given to sw_ini_parse. */
struct sw_ini {
    struct sw_ini_file *file;
    struct sw_ini_section *first, *last;
    struct sw_ini_include *includes, *last_include;
};

/* Parses the text of `from`, which is copied with its path. Syntax errors go to diags and do not
 * make this function fail; *ini has all valid lines. Included files are not read. Errors:
 * SW_ERR_NOMEM, SW_ERR_INVALID when the text is too large. */
int sw_ini_parse(const struct sw_ini_file *from, struct sw_pool *pool, struct sw_diags *diags,
                 struct sw_ini *ini, struct sw_err *err) SW_MUST_CHECK;

/* A part of a text. */
struct sw_span {
    const char *at;
    size_t bytes;
};
/* The text between two pointers, without the blanks at its ends. */
struct sw_span sw_span_trim(const char *from, const char *to);
/* The next item of a list with commas, trimmed; *at moves behind the comma, to NULL after the last.
 */
struct sw_span sw_span_next(const char **at);
/* The number of UTF-8 characters; an invalid byte counts as one. */
int sw_count_characters(const char *s, size_t bytes);

/* Whether the text may be the name of a section. */
bool sw_ini_is_name(const char *s, size_t bytes);

/* A position in the line; span in characters. */
struct sw_place sw_ini_place(const struct sw_ini_line *line, int column, int span);
