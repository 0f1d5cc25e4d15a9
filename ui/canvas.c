/* The grid of cells that panels draw on: characters, text, boxes, bars, and output as text or with
 * ANSI escapes. Every character goes through sw_canvas_rune, which clips and replaces unsafe ones.
 * The contract is in ui/canvas.h. */
#include "ui/canvas.h"

#include "base/os.h"
#include "base/text.h"
#include "ui/theme.h"
#include <stdarg.h>
#include <stdio.h>

int sw_canvas_begin(struct sw_canvas *c, int w, int h, struct sw_ui_caps caps, struct sw_err *err)
{
    w = w < 0 ? 0 : w;
    h = h < 0 ? 0 : h;

    size_t count = (size_t)w * (size_t)h;
    struct sw_ui_cell *cells = sw_realloc_array(c->cells, count ? count : 1, sizeof *cells);
    if (!cells) {
        sw_canvas_fini(c);
        return sw_err_nomem(err, "screen", count * sizeof *cells);
    }

    *c = (struct sw_canvas){w, h, caps, cells};
    for (size_t i = 0; i < count; i++)
        cells[i] = (struct sw_ui_cell){' ', SW_ROLE_TEXT};

    return SW_OK;
}

void sw_canvas_fini(struct sw_canvas *c)
{
    sw_free(c->cells);
    *c = (struct sw_canvas){0};
}

/* ---- Characters -------------------------------------------------------------------------------
 */

int sw_utf8_put(uint32_t rune, char out[4])
{
    if (rune < 0x80) {
        out[0] = (char)rune;
        return 1;
    }

    int more = rune < 0x800 ? 1 : rune < 0x10000 ? 2 : 3;
    static const unsigned lead[] = {0, 0xc0, 0xe0, 0xf0};
    out[0] = (char)(lead[more] | (rune >> (6 * more)));
    for (int i = 1; i <= more; i++)
        out[i] = (char)(0x80 | ((rune >> (6 * (more - i))) & 0x3f));

    return more + 1;
}

/* The ASCII replacement of a character that we draw with. */
static uint32_t ascii_of_rune(uint32_t rune)
{
    static const struct {
        uint32_t rune;
        char ascii;
    } pairs[] = {{0x2500, '-'},      {0x2502, '|'}, {0x250c, '+'}, {0x2510, '+'}, {0x2514, '+'},
                 {0x2518, '+'},      {0x256d, '+'}, {0x256e, '+'}, {0x256f, '+'}, {0x2570, '+'},
                 {0x251c, '+'},      {0x2524, '+'}, {0x252c, '+'}, {0x2534, '+'}, {0x253c, '+'},
                 {SW_BAR_RUNE, '#'}, {0x2592, ':'}, {0x2591, '.'}, {0x2026, '~'}, {0x25b2, '^'},
                 {0x25bc, 'v'},      {0x25b6, '>'}, {0x2022, '*'}, {0x00b7, '.'}, {0x00b0, 'o'},
                 {0x2504, '.'},      {0x250a, ':'}, {0x2191, '^'}, {0x2193, 'v'}, {0x2192, '>'}};

    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i].rune == rune)
            return (uint32_t)pairs[i].ascii;

    return '?';
}

/* The character that is shown: never a control character, which would move the cursor. */
static uint32_t shown(const struct sw_canvas *c, uint32_t rune)
{
    if (sw_rune_is_unsafe(rune))
        return '?';
    return rune >= 0x80 && !c->caps.utf8 ? ascii_of_rune(rune) : rune;
}

int sw_canvas_columns(const struct sw_canvas *c, const char *text)
{
    struct sw_bytes plain = {0};
    int columns = 0;

    sw_text_add(&plain, text);

    const char *at = sw_bytes_text(&plain);
    for (size_t left = plain.length; left;)
        columns += sw_rune_columns(shown(c, sw_utf8_next(&at, &left)));
    sw_bytes_fini(&plain);

    return columns;
}

/* ---- Drawing ----------------------------------------------------------------------------------
 */

void sw_canvas_rune(struct sw_canvas *c, int x, int y, uint32_t rune, enum sw_role role)
{
    if (x < 0 || y < 0 || x >= c->w || y >= c->h)
        return;

    struct sw_ui_cell *cell = &c->cells[(size_t)y * (size_t)c->w + (size_t)x];

    /* Overwriting half a character of double width erases the other half. */
    if (cell->rune == 0 && x > 0)
        cell[-1].rune = ' ';
    if (x + 1 < c->w && cell[1].rune == 0)
        cell[1].rune = ' ';
    *cell = (struct sw_ui_cell){rune ? shown(c, rune) : 0, (uint8_t)role};
}

/* One character of `wide` columns. */
static void put(struct sw_canvas *c, int x, int y, uint32_t rune, int wide, enum sw_role role)
{
    bool fits = wide == 1 || (x >= 0 && x + 1 < c->w);

    sw_canvas_rune(c, x, y, fits ? rune : '?', role);

    if (wide == 2 && fits && y >= 0 && y < c->h) {
        sw_canvas_rune(c, x + 1, y, ' ', role);
        c->cells[(size_t)y * (size_t)c->w + (size_t)x + 1].rune = 0;
    }
}

int sw_canvas_text(struct sw_canvas *c, int x, int y, int columns, enum sw_role role,
                   const char *text)
{
    struct sw_bytes plain = {0};
    bool cut = sw_canvas_columns(c, text) > columns;
    int room = cut ? columns - 1 : columns, drawn = 0;
    if (columns <= 0)
        return 0;

    sw_text_add(&plain, text);

    const char *at = sw_bytes_text(&plain);
    for (size_t left = plain.length; left;) {
        uint32_t rune = shown(c, sw_utf8_next(&at, &left));
        int wide = sw_rune_columns(rune);
        if (drawn + wide > room)
            break;

        if (wide > 0)
            put(c, x + drawn, y, rune, wide, role);
        drawn += wide;
    }

    if (cut)
        sw_canvas_rune(c, x + drawn++, y, '~', role);
    sw_bytes_fini(&plain);

    return drawn;
}

int sw_canvas_printf(struct sw_canvas *c, int x, int y, int columns, enum sw_role role,
                     const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);

    return sw_canvas_text(c, x, y, columns, role, text);
}

void sw_canvas_right(struct sw_canvas *c, int x, int y, int columns, enum sw_role role,
                     const char *text)
{
    int n = sw_canvas_columns(c, text);
    int from = n < columns ? columns - n : 0;
    sw_canvas_text(c, x + from, y, columns - from, role, text);
}

void sw_canvas_fill(struct sw_canvas *c, struct sw_area r, uint32_t rune, enum sw_role role)
{
    for (int y = r.y; y < r.y + r.h; y++)
        for (int x = r.x; x < r.x + r.w; x++)
            sw_canvas_rune(c, x, y, rune, role);
}

void sw_canvas_recolour(struct sw_canvas *c, struct sw_area r, enum sw_role role)
{
    for (int y = r.y < 0 ? 0 : r.y; y < r.y + r.h && y < c->h; y++)
        for (int x = r.x < 0 ? 0 : r.x; x < r.x + r.w && x < c->w; x++)
            c->cells[(size_t)y * (size_t)c->w + (size_t)x].role = (uint8_t)role;
}

void sw_canvas_box(struct sw_canvas *c, struct sw_area r, enum sw_role role, const char *title,
                   const char *note)
{
    if (r.w < 2 || r.h < 2)
        return;

    int right = r.x + r.w - 1, bottom = r.y + r.h - 1;
    sw_canvas_fill(c, (struct sw_area){r.x, r.y, r.w, 1}, 0x2500, role);
    sw_canvas_fill(c, (struct sw_area){r.x, bottom, r.w, 1}, 0x2500, role);
    sw_canvas_fill(c, (struct sw_area){r.x, r.y, 1, r.h}, 0x2502, role);
    sw_canvas_fill(c, (struct sw_area){right, r.y, 1, r.h}, 0x2502, role);
    sw_canvas_rune(c, r.x, r.y, 0x256d, role);
    sw_canvas_rune(c, right, r.y, 0x256e, role);
    sw_canvas_rune(c, r.x, bottom, 0x2570, role);
    sw_canvas_rune(c, right, bottom, 0x256f, role);

    int used = 0;
    enum sw_role name = role == SW_ROLE_BORDER ? SW_ROLE_TITLE : role;
    if (title && r.w >= 6) {
        sw_canvas_rune(c, r.x + 1, r.y, ' ', role);
        used = sw_canvas_text(c, r.x + 2, r.y, r.w - 4, name, title) + 2;
        sw_canvas_rune(c, r.x + used, r.y, ' ', role);
    }

    int room = r.w - used - 5;
    if (note && *note && room >= sw_canvas_columns(c, note)) {
        int n = sw_canvas_columns(c, note);
        sw_canvas_rune(c, right - n - 2, r.y, ' ', role);
        sw_canvas_text(c, right - n - 1, r.y, n, SW_ROLE_DIM, note);
        sw_canvas_rune(c, right - 1, r.y, ' ', role);
    }
}

struct sw_area sw_area_inside(struct sw_area r)
{
    return (struct sw_area){r.x + 1, r.y + 1, r.w > 2 ? r.w - 2 : 0, r.h > 2 ? r.h - 2 : 0};
}

bool sw_area_holds(struct sw_area r, int x, int y)
{
    return x >= r.x && y >= r.y && x < r.x + r.w && y < r.y + r.h;
}

int sw_canvas_bar_columns(int columns, double fraction)
{
    return fraction > 0 ? (int)((fraction < 1 ? fraction : 1) * columns + 0.5) : 0;
}

void sw_canvas_bar(struct sw_canvas *c, int x, int y, int columns, double fraction,
                   enum sw_role role)
{
    int full = sw_canvas_bar_columns(columns, fraction);
    for (int i = 0; i < full; i++)
        sw_canvas_rune(c, x + i, y, SW_BAR_RUNE, role);
}

/* ---- Out --------------------------------------------------------------------------------------
 */

/* The columns of a row up to its last cell that is not blank. */
static int used_columns(const struct sw_canvas *c, int y)
{
    int n = c->w;
    while (n > 0 && c->cells[(size_t)y * (size_t)c->w + (size_t)n - 1].rune == ' ')
        n--;
    return n;
}

static void write_rows(const struct sw_canvas *c, bool escapes, struct sw_bytes *out)
{
    const struct sw_theme *theme = sw_theme_find(NULL);

    for (int y = 0; y < c->h; y++) {
        int n = used_columns(c, y), role = SW_ROLE_TEXT;

        for (int x = 0; x < n; x++) {
            const struct sw_ui_cell *cell = &c->cells[(size_t)y * (size_t)c->w + (size_t)x];
            char bytes[4];

            if (escapes && cell->role != role && cell->rune != ' ') {
                role = cell->role;
                sw_theme_escape(theme, (enum sw_role)role, c->caps.colours, out);
            }

            if (cell->rune)
                sw_bytes_append(out, bytes, (size_t)sw_utf8_put(cell->rune, bytes));
        }

        if (role != SW_ROLE_TEXT)
            sw_bytes_add(out, "\033[0m");
        sw_bytes_add(out, "\n");
    }
}

void sw_canvas_to_text(const struct sw_canvas *c, struct sw_bytes *out)
{
    write_rows(c, false, out);
}

void sw_canvas_to_ansi(const struct sw_canvas *c, struct sw_bytes *out)
{
    write_rows(c, true, out);
}
