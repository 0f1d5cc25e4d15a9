/* A row to write into the history. It is applied to the database (store.c), or becomes a line of
 * metrics.jsonl, or was parsed from such a line (spool.c). The kind of a row gives its table,
 * columns and their types; the SQL is in store.c. Internal to this folder; one owner. */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include <stdint.h>

enum sw_row_kind {
    SW_ROW_RUN,
    SW_ROW_SEGMENT,
    SW_ROW_STAGE,
    SW_ROW_POINT,
    SW_ROW_STEP_TIME,
    SW_ROW_LAYER_TIME,
    SW_ROW_TRAFFIC,
    SW_ROW_PLACEMENT,
    SW_ROW_PLACEMENT_REMOVED,
    SW_ROW_CHECKPOINT,
    SW_ROW_CHECKPOINT_REMOVED,
    SW_ROW_CHECKPOINT_BEST,
    SW_ROW_HARDWARE,
    SW_ROW_EVENT,
    SW_ROW_TAG,
    SW_ROW_PLAN,
    SW_ROW_PLAN_MEASURED,
    SW_ROW_CHANGED,
    SW_ROW_HOST,
    SW_ROW_FINISH,
    SW_ROW_KINDS,
};

enum sw_cell_type { SW_CELL_NULL, SW_CELL_INT, SW_CELL_REAL, SW_CELL_TEXT };

struct sw_cell {
    enum sw_cell_type type;
    union {
        int64_t i;
        double r;
        const char *t; /* owned by rows of sw_row_copy and sw_row_parse, else borrowed */
    };
};

#define SW_INT(x) ((struct sw_cell){SW_CELL_INT, {.i = (x)}})
#define SW_REAL(x) ((struct sw_cell){SW_CELL_REAL, {.r = (x)}})
#define SW_NULL ((struct sw_cell){0})
static inline struct sw_cell SW_TEXT(const char *t) {
    return (struct sw_cell){t ? SW_CELL_TEXT : SW_CELL_NULL, {.t = t}};
} static inline struct sw_cell SW_COUNT(int64_t n) /* 0: unknown */
{
    return n > 0 ? SW_INT(n) : SW_NULL;
}

enum {
    SW_ROW_CELLS = 28,
    SW_UID_TEXT = 17
};

/* The cells are in the order of the columns of the kind. */
struct sw_row {
    enum sw_row_kind kind;
    int series;          /* the handle of the series, which saves the store a look-up; -1: none */
    size_t taken_bytes;  /* memory of a row of another host (part.h); else 0 */
    struct sw_row *next; /* in a list of the writer */
    struct sw_cell cells[SW_ROW_CELLS];
};

/* Makes a row from cells in the order of the columns of its kind. */
#define SW_ROW(kind_, ...) ((struct sw_row){.kind = kind_, .series = -1, .cells = {__VA_ARGS__}})

struct sw_row_spec {
    const char *name;
    const char *types; /* of the columns: i integer, r real, t text */
    const char *columns[SW_ROW_CELLS];
};
/* Indices of columns of SW_ROW_RUN that are filled in later. */
enum { SW_RUN_CELL_ID = 0, SW_RUN_CELL_UID = 18, SW_RUN_CELL_OUT_DIR = 21 };
/* Indices of columns of SW_ROW_HOST. */
enum { SW_HOST_CELL_NUMBER = 0, SW_HOST_CELL_CPU = 3, SW_HOST_CELL_GPUS = 4 };
extern const struct sw_row_spec sw_row_specs[SW_ROW_KINDS];

/* A copy on the heap that owns its texts; NULL when memory is exhausted. */
struct sw_row *sw_row_copy(const struct sw_row *row);
void sw_row_free(
    struct sw_row *row); /* for rows of sw_row_copy and sw_row_parse; NULL is accepted */

/* Appends the row as one line with its newline: {"run":UID,"row":KIND,column:value,...}. */
void sw_row_print(const struct sw_row *row, const char *uid, struct sw_bytes *out);
/* Parses a line of sw_row_print. Free *row with sw_row_free. Errors: SW_ERR_FORMAT (not such a
 * line), SW_ERR_NOMEM. */
int sw_row_parse(const char *line, size_t bytes, struct sw_row **row, char uid[SW_UID_TEXT],
                 struct sw_err *err) SW_MUST_CHECK;
