#include "cli/terminal/columns.h"

#include "base/os.h"
#include "base/text.h"
#include <stdarg.h>

void sw_columns_fini(struct sw_columns *t)
{
    for (int i = 0; i < t->count; i++)
        sw_free(t->cells[i]);
    sw_free(t->cells);
    *t = (struct sw_columns){0};
}

/* Takes the text over. */
static void add(struct sw_columns *t, char *text)
{
    if (t->count == t->capacity) {
        int capacity = t->capacity ? 2 * t->capacity : 64;
        char **cells = sw_realloc_array(t->cells, (size_t)capacity, sizeof *cells);
        if (!cells) {
            sw_free(text);
            t->failed = true;
            return;
        }
        t->cells = cells;
        t->capacity = capacity;
    }
    t->cells[t->count++] = text;
    t->failed |= !text;
}

static void add_shown(struct sw_columns *t, const char *text)
{
    struct sw_buf shown = {0};
    sw_text_add(&shown, text);
    add(t, sw_buf_take(&shown));
}

void sw_columns_add(struct sw_columns *t, const char *title)
{
    bool right = *title == '>';
    t->right[t->columns++] = right;
    add_shown(t, title + right);
}

void sw_columns_cell(struct sw_columns *t, const char *fmt, ...)
{
    struct sw_buf text = {0};
    va_list ap;
    va_start(ap, fmt);
    sw_buf_vprintf(&text, fmt, ap);
    va_end(ap);
    t->failed |= text.failed;
    add_shown(t, sw_buf_text(&text));
    sw_buf_fini(&text);
}

static void blanks(struct sw_buf *out, int count)
{
    sw_buf_printf(out, "%*s", count, "");
}

void sw_columns_print(const struct sw_columns *t, struct sw_buf *out)
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
    int owed = 0; /* blanks that are only written when something follows */
    for (int i = 0; i < t->count; i++) {
        int column = i % t->columns;
        int room = width[column] - sw_text_columns(t->cells[i]);
        if (*t->cells[i]) {
            blanks(out, owed + (t->right[column] ? room : 0));
            sw_buf_add(out, t->cells[i]);
            owed = t->right[column] ? 0 : room;
        } else {
            owed += room;
        }
        owed += 2;
        if (column + 1 == t->columns) {
            sw_buf_add(out, "\n");
            owed = 0;
        }
    }
}
