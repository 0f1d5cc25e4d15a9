/* Writes the rows of a query as tab-separated text, CSV or JSON, and texts as SQL literals. Escapes
 * follow the format that is written, not the terminal. The contract is in cli/history/cells.h. */
#include "cli/history/cells.h"

#include "base/os.h"
#include <string.h>

enum { FLUSH_BYTES = 1 << 16 };

static void free_names(struct sw_cells *c)
{
    for (int i = 0; i < c->count; i++)
        sw_free(c->names[i]);
    sw_free(c->names);
    c->names = NULL;
    c->count = 0;
}

static int take_names(struct sw_cells *c, int columns, const struct sw_history_cell *cells)
{
    free_names(c);
    c->names = sw_calloc((size_t)columns + 1, sizeof *c->names);
    for (; c->names && c->count < columns; c->count++) {
        c->names[c->count] = sw_strdup(cells[c->count].text);
        if (!c->names[c->count])
            break;
    }

    return c->names && c->count == columns ? SW_OK
                                           : sw_err_nomem(&c->view->err, "names of columns", 0);
}

static void add_tab_cell(struct sw_bytes *out, const char *cell)
{
    for (const char *c = cell ? cell : ""; *c;) {
        size_t plain = strcspn(c, "\t\n\\");

        sw_bytes_append(out, c, plain);
        c += plain;
        if (*c)
            sw_bytes_add(out, *c == '\t' ? "\\t" : *c == '\n' ? "\\n" : "\\\\");
        c += *c != 0;
    }
}

void sw_cells_tabs(struct sw_bytes *out, int columns, const struct sw_history_cell *cells)
{
    for (int i = 0; i < columns; i++) {
        sw_bytes_add(out, i ? "\t" : "");
        add_tab_cell(out, cells[i].text);
    }

    sw_bytes_add(out, "\n");
}

/* Writes a cell, quoted only if necessary; quotes within are doubled. */
static void add_csv_cell(struct sw_bytes *out, const char *cell)
{
    if (!cell)
        return;
    if (!cell[strcspn(cell, ",\"\r\n")]) {
        sw_bytes_add(out, cell);
        return;
    }

    sw_bytes_add(out, "\"");
    for (const char *c = cell; *c; c++)
        sw_bytes_append(out, *c == '"' ? "\"\"" : c, *c == '"' ? 2 : 1);
    sw_bytes_add(out, "\"");
}

void sw_cells_csv(struct sw_bytes *out, int columns, const struct sw_history_cell *cells)
{
    for (int i = 0; i < columns; i++) {
        sw_bytes_add(out, i ? "," : "");
        add_csv_cell(out, cells[i].text);
    }

    sw_bytes_add(out, "\n");
}

/* JSON has no infinity: it stays a string. */
static void json_cell(struct sw_json_writer *w, const char *key, const struct sw_history_cell *cell)
{
    int64_t i;
    double r;

    if (cell->is_number && sw_parse_int(cell->text, &i))
        sw_json_int(w, key, i);
    else if (cell->is_number && sw_parse_real(cell->text, &r))
        sw_json_real(w, key, r);
    else
        sw_json_string(w, key, cell->text);
}

static void add_object(const struct sw_cells *c, const struct sw_history_cell *cells)
{
    sw_json_open_object(&c->view->json, NULL);
    for (int i = 0; i < c->count; i++)
        json_cell(&c->view->json, c->names[i], &cells[i]);
    sw_json_close_object(&c->view->json);
}

static int add_row(void *user, int64_t row, int columns, const struct sw_history_cell *cells)
{
    struct sw_cells *c = user;

    if (row < 0) {
        bool header = c->header && !c->view->as_json;
        int code = take_names(c, columns, cells);
        c->header = false;
        if (code || !header)
            return code;
    }

    if (c->view->as_json)
        add_object(c, cells);
    else
        c->form(&c->view->out, columns, cells);

    return sw_history_view_flush(c->view, FLUSH_BYTES);
}

void sw_cells_begin(struct sw_cells *c, struct sw_history_view *v, sw_cells_form *form, bool header)
{
    *c = (struct sw_cells){.view = v, .form = form, .header = header};
    if (v->as_json)
        sw_json_open_array(&v->json, NULL);
}

int sw_cells_query(struct sw_cells *c, const struct sw_bytes *sql)
{
    if (sql->failed)
        return sw_err_nomem(&c->view->err, "query", 0);
    return sw_history_sql(c->view->reader, sw_bytes_text(sql), add_row, c, &c->view->err);
}

void sw_cells_end(struct sw_cells *c)
{
    if (c->view->as_json) {
        sw_json_close_array(&c->view->json);
        sw_bytes_add(&c->view->out, "\n");
    }
    free_names(c);
}

void sw_sql_literal(struct sw_bytes *sql, const char *text)
{
    sw_bytes_add(sql, "'");
    for (; *text; text++)
        sw_bytes_append(sql, *text == '\'' ? "''" : text, *text == '\'' ? 2 : 1);
    sw_bytes_add(sql, "'");
}
