/* Prints a table: cells are collected first, so that each column is as wide as its widest cell.
 * Blanks at the end of a line are never written. The contract is in cli/terminal/columns.h. */
#include "cli/terminal/columns.h"

#include "base/os.h"
#include "base/text.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void sw_columns_fini(struct sw_columns *t)
{
    for (int i = 0; i < t->count; i++)
        sw_free(t->cells[i]);
    sw_free(t->cells);
    *t = (struct sw_columns){0};
}

/* Takes ownership of the text. */
static void add(struct sw_columns *t, char *text)
{
    char **cell = sw_array_add(&t->cells, &t->count, sizeof *cell);

    t->failed |= !cell || !text;

    if (cell)
        *cell = text;
    else
        sw_free(text);
}

static void add_shown(struct sw_columns *t, const char *text)
{
    struct sw_bytes shown = {0};
    sw_text_add(&shown, text);
    add(t, sw_bytes_take(&shown));
}

void sw_columns_add(struct sw_columns *t, const char *title)
{
    bool right = *title == '>';
    t->right[t->columns++] = right;
    add_shown(t, title + right);
}

void sw_columns_begin(struct sw_columns *t, const char *titles)
{
    char title[64];

    for (;;) {
        size_t n = strcspn(titles, "|");

        snprintf(title, sizeof title, "%.*s", (int)n, titles);
        sw_columns_add(t, title);
        if (!titles[n])
            return;

        titles += n + 1;
    }
}

void sw_columns_cell(struct sw_columns *t, const char *fmt, ...)
{
    struct sw_bytes text = {0};
    va_list ap;

    va_start(ap, fmt);
    sw_bytes_vprintf(&text, fmt, ap);
    va_end(ap);
    t->failed |= text.failed;
    add_shown(t, sw_bytes_text(&text));
    sw_bytes_fini(&text);
}

static void blanks(struct sw_bytes *out, int count)
{
    sw_bytes_printf(out, "%*s", count, "");
}

void sw_columns_print(const struct sw_columns *t, struct sw_bytes *out)
{
    int width[SW_COLUMNS_MOST] = {0};

    if (t->failed) {
        out->failed = true;
        return;
    }

    for (int i = 0; i < t->count; i++) {
        int cell = sw_text_columns(t->cells[i]);
        if (cell > width[i % t->columns])
            width[i % t->columns] = cell;
    }

    int owed = 0; /* pending blanks, written before the next text */
    for (int i = 0; i < t->count; i++) {
        int column = i % t->columns;
        int room = width[column] - sw_text_columns(t->cells[i]);

        if (*t->cells[i]) {
            blanks(out, owed + (t->right[column] ? room : 0));
            sw_bytes_add(out, t->cells[i]);
            owed = t->right[column] ? 0 : room;
        } else {
            owed += room;
        }

        owed += 2;

        if (column + 1 == t->columns) {
            sw_bytes_add(out, "\n");
            owed = 0;
        }
    }
}
