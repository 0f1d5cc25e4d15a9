/* Diagnostics about a recipe in the form of a compiler's: position, message, the source line with
 * a caret, and a hint. A list collects all errors of a recipe so that they are shown together,
 * sorted by position regardless of the order of the checks. It copies all text and may outlive the
 * recipe. At most SW_DIAG_KEPT are kept; the rest are counted. One owner, no lock. */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include <stdbool.h>
#include <stddef.h>

enum {
    SW_DIAG_KEPT = 100,
    SW_DIAG_TEXT = 1000, /* bytes of a message or a hint that are shown */
};

/* The position that a message points to. Lines and columns count from 1, columns in UTF-8
 * characters (a tab is one). line 0: the file as a whole or a command-line argument; only `origin`
 * is printed. */
struct sw_place {
    const char *origin; /* file name, or "--set layer.fc1.outputs=-1" */
    int rank;           /* order among origins: the recipe 0, files it includes, then options */
    int line, column;
    int span;           /* characters under the caret line, at least 1 */
    const char *source; /* the line itself, not zero-terminated; NULL: no line is shown */
    size_t source_bytes;
};

struct sw_diag {
    char *where;             /* owned: "recipes/x.ini:41:11" */
    char *text;              /* owned: "layer fc6: outputs = -3: must be 1 or more" */
    char *line;              /* owned: the source line, control characters replaced; or NULL */
    char *hint;              /* owned: "did you mean 'kernel'?"; or NULL */
    int rank, order, column; /* sorted by these; order is the line */
    int caret, span;         /* in characters of `line`, caret from 0 */
};

/* Zero-initialise; free with sw_diags_fini. */
struct sw_diags {
    struct sw_diag *items; /* owned, sorted by rank, line, column */
    int count;
    int beyond; /* errors that were not kept */
    int latest; /* index of the message added last; -1 when it was not kept */
    bool nomem; /* a message was lost because memory is exhausted */
};

void sw_diags_fini(struct sw_diags *d);
/* Adds a message, unless the list has it; always returns SW_ERR_INVALID so that a check can return
 * it. */
int sw_diags_add(struct sw_diags *d, struct sw_place at, const char *fmt, ...) SW_PRINTF(3, 4);
/* Moves all messages of `from`, which is empty afterwards, to `to`. */
void sw_diags_move(struct sw_diags *to, struct sw_diags *from);
/* Whether the message added last was kept and has no hint yet; check it before computing a hint. */
bool sw_diags_needs_hint(const struct sw_diags *d);
/* Adds a hint to the message added last, unless it has one. */
void sw_diags_hint(struct sw_diags *d, const char *fmt, ...) SW_PRINTF(2, 3);
void sw_diags_vhint(struct sw_diags *d, const char *fmt, va_list ap);
/* SW_OK without errors, else SW_ERR_INVALID with the first message and how many more there are, or
 * SW_ERR_NOMEM when one was lost. */
int sw_diags_status(const struct sw_diags *d, struct sw_err *err) SW_MUST_CHECK;
/* Appends all messages, each as
 *     recipes/x.ini:41:11: layer fc6: outputs = -3: must be 1 or more
 *       outputs = -3
 *                 ^~
 *     hint: ... */
void sw_diags_print(const struct sw_diags *d, struct sw_bytes *out);
