/* The terminal through ncurses: opening and restoring it, drawing only the cells that changed, and
 * translating keys and mouse events. ncurses keeps global state, so there is one terminal at a
 * time, on the main thread. The contract is in ui/term.h. */
#define _XOPEN_SOURCE_EXTENDED 1
#include "ui/term.h"

#include "base/os.h"
#include "ui/caps.h"
#include "ui/guard.h"
#include <curses.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <term.h>
#include <unistd.h>

struct sw_term {
    SCREEN *screen;
    struct sw_guard *guard; /* owned */
    struct sw_ui_caps caps;
    const struct sw_theme *theme; /* the theme whose color pairs are set */
    struct sw_ui_cell *shown;     /* owned [w * h]; what the terminal shows */
    int w, h;
    int stderr_fd; /* the original stderr while it is redirected to /dev/null; -1 */
};

/* ---- Opening ----------------------------------------------------------------------------------
 */

static void add_capability(struct sw_bytes *out, const char *name)
{
    const char *bytes = tigetstr(name);
    if (bytes && bytes != (const char *)-1)
        sw_bytes_add(out, bytes);
}

/* Escapes that restore the terminal: colors, cursor, keypad, mouse, the normal screen. */
static void restore_escapes(struct sw_bytes *out)
{
    static const char *const names[] = {"sgr0", "op", "cnorm", "rmkx", "rmcup"};
    sw_bytes_add(out, "\033[?1006l\033[?1003l\033[?1002l\033[?1000l");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        add_capability(out, names[i]);
}

static void set_modes(struct sw_term *t)
{
    raw();
    noecho();
    nonl();
    intrflush(stdscr, FALSE);
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    set_escdelay(25);
    curs_set(0);
    mouseinterval(0);
    sw_term_mouse(t, true);

    if (t->caps.colours > 0 && has_colors()) {
        start_color();
        use_default_colors();
        t->caps.colours = COLORS >= 256 ? 256 : COLORS >= 8 ? 8 : 0;
    } else {
        t->caps.colours = 0;
    }
}

/* Redirects stderr to /dev/null, so that messages of libraries do not damage the screen. */
static void silence(struct sw_term *t)
{
    int null = isatty(STDERR_FILENO) ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;

    t->stderr_fd = null >= 0 ? fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3) : -1;
    if (t->stderr_fd >= 0)
        dup2(null, STDERR_FILENO);
    if (null >= 0)
        close(null);
}

static int start(struct sw_term *t, struct sw_err *err)
{
    struct termios before;
    struct sw_bytes bytes = {0};
    const char *term = getenv("TERM");

    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &before) != 0)
        return sw_err_set(err, SW_ERR_UNSUPPORTED, "standard input and output are not a terminal");

    t->caps = sw_ui_caps_here();
    t->screen = newterm(NULL, stdout, stdin);
    if (!t->screen)
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "TERM=%s: the terminal cannot position the cursor", term ? term : "");

    silence(t);
    set_modes(t);
    refresh();
    restore_escapes(&bytes);

    int rc = bytes.failed
                 ? sw_err_nomem(err, "terminal", 0)
                 : sw_guard_start(&t->guard, STDIN_FILENO, &before, sw_bytes_text(&bytes), err);
    sw_bytes_fini(&bytes);

    return rc;
}

int sw_term_open(struct sw_term **out, struct sw_err *err)
{
    struct sw_term *t = sw_calloc(1, sizeof *t);
    if (!t)
        return sw_err_nomem(err, "terminal", sizeof *t);

    t->stderr_fd = -1;

    int rc = start(t, err);
    if (rc == SW_OK)
        *out = t;
    else
        sw_term_close(t);

    return rc;
}

void sw_term_close(struct sw_term *t)
{
    if (!t)
        return;

    if (t->screen) {
        mousemask(0, NULL);
        endwin();
        delscreen(t->screen);
    }

    sw_guard_end(t->guard);

    if (t->stderr_fd >= 0) {
        dup2(t->stderr_fd, STDERR_FILENO);
        close(t->stderr_fd);
    }

    sw_free(t->shown);
    sw_free(t);
}

struct sw_ui_caps sw_term_caps(const struct sw_term *t)
{
    return t->caps;
}

void sw_term_size(const struct sw_term *t, int *w, int *h)
{
    getmaxyx(stdscr, *h, *w);
}

void sw_term_mouse(struct sw_term *t, bool on)
{
    mousemask(on ? BUTTON1_PRESSED | BUTTON1_CLICKED | BUTTON4_PRESSED | BUTTON5_PRESSED : 0, NULL);
}

/* ---- Showing ----------------------------------------------------------------------------------
 */

static void set_theme(struct sw_term *t, const struct sw_theme *theme)
{
    for (int role = 0; role < SW_ROLES && t->caps.colours > 0; role++) {
        const struct sw_style *style = &theme->style[role];
        init_pair((short)(role + 1), t->caps.colours >= 256 ? style->colour : style->basic, -1);
    }

    t->theme = theme;
}

static attr_t attributes_of(const struct sw_term *t, enum sw_role role)
{
    unsigned a = sw_theme_attributes(t->theme, role, t->caps.colours);
    return (a & SW_ATTR_BOLD ? A_BOLD : 0) | (a & SW_ATTR_DIM ? A_DIM : 0) |
           (a & SW_ATTR_REVERSE ? A_REVERSE : 0) | (a & SW_ATTR_UNDERLINE ? A_UNDERLINE : 0);
}

static void put(const struct sw_term *t, int x, int y, const struct sw_ui_cell *cell)
{
    wchar_t text[2] = {(wchar_t)cell->rune, 0};
    cchar_t c;
    short pair = t->caps.colours > 0 ? (short)(cell->role + 1) : 0;

    if (cell->rune != 0 &&
        setcchar(&c, text, attributes_of(t, (enum sw_role)cell->role), pair, NULL) == OK)
        mvadd_wch(y, x, &c);
}

/* Gives the copy of the screen the size w x h; after a change of size everything is drawn again.
 * False: no memory. */
static bool match_size(struct sw_term *t, int w, int h)
{
    if (t->shown && t->w == w && t->h == h)
        return true;

    size_t count = (size_t)w * (size_t)h;
    struct sw_ui_cell *cells = sw_realloc_array(t->shown, count ? count : 1, sizeof *cells);
    if (!cells)
        return false;

    memset(cells, 0xff, count * sizeof *cells);
    t->shown = cells;
    t->w = w;
    t->h = h;
    erase();

    return true;
}

void sw_term_show(struct sw_term *t, const struct sw_canvas *c, const struct sw_theme *theme)
{
    if (!match_size(t, c->w, c->h))
        return;

    if (t->theme != theme) {
        set_theme(t, theme);
        sw_term_invalidate(t);
    }

    for (int y = 0; y < c->h; y++)
        for (int x = 0; x < c->w; x++) {
            size_t i = (size_t)y * (size_t)c->w + (size_t)x;
            if (t->shown[i].rune == c->cells[i].rune && t->shown[i].role == c->cells[i].role)
                continue;

            t->shown[i] = c->cells[i];
            put(t, x, y, &c->cells[i]);
        }

    refresh();
}

void sw_term_invalidate(struct sw_term *t)
{
    memset(t->shown, 0xff, (size_t)t->w * (size_t)t->h * sizeof *t->shown);
    clearok(curscr, TRUE);
}

/* ---- Keys -------------------------------------------------------------------------------------
 */

static int mouse_key(struct sw_ui_input *in)
{
    MEVENT e;
    if (getmouse(&e) != OK)
        return SW_KEY_NONE;

    in->x = e.x;
    in->y = e.y;
    return e.bstate & BUTTON4_PRESSED   ? SW_KEY_WHEEL_UP
           : e.bstate & BUTTON5_PRESSED ? SW_KEY_WHEEL_DOWN
                                        : SW_KEY_CLICK;
}

static int function_key(int code, struct sw_ui_input *in)
{
    static const struct {
        int curses, key;
    } pairs[] = {{KEY_UP, SW_KEY_UP},
                 {KEY_DOWN, SW_KEY_DOWN},
                 {KEY_LEFT, SW_KEY_LEFT},
                 {KEY_RIGHT, SW_KEY_RIGHT},
                 {KEY_PPAGE, SW_KEY_PAGE_UP},
                 {KEY_NPAGE, SW_KEY_PAGE_DOWN},
                 {KEY_HOME, SW_KEY_HOME},
                 {KEY_END, SW_KEY_END},
                 {KEY_BTAB, SW_KEY_BACK_TAB},
                 {KEY_F(1), SW_KEY_F1},
                 {KEY_F(10), SW_KEY_F10},
                 {KEY_ENTER, SW_KEY_ENTER},
                 {KEY_BACKSPACE, SW_KEY_BACKSPACE},
                 {KEY_RESIZE, SW_KEY_RESIZE}};

    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i].curses == code)
            return pairs[i].key;

    return code == KEY_MOUSE ? mouse_key(in) : SW_KEY_NONE;
}

static bool read_key(struct sw_ui_input *in)
{
    wint_t rune;
    int kind = get_wch(&rune);
    if (kind == ERR)
        return false;

    in->key = kind == KEY_CODE_YES ? function_key((int)rune, in)
              : rune == '\r'       ? SW_KEY_ENTER
                                   : (int)rune;
    return true;
}

bool sw_term_read(struct sw_term *t, int timeout_ms, struct sw_ui_input *in)
{
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};

    if (read_key(in)) /* ncurses may have buffered a key */
        return true;
    if (poll(&p, 1, timeout_ms) < 0)
        return read_key(in); /* a signal; ncurses reports a new size as a key */
    if (p.revents & (POLLHUP | POLLERR | POLLNVAL)) {
        in->key = SW_KEY_HANGUP;
        return true;
    }

    return read_key(in);
}
