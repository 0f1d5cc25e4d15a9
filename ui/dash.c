/* The main loop of the dashboard: refresh the model, draw, wait for a key or a signal, act. It only
 * reads what the trainer publishes and sends commands through its control socket. Main thread; the
 * contract is in ui/dash.h. */
#include "ui/dash.h"

#include "base/os.h"
#include "base/str.h"
#include "history/control.h"
#include "ui/ending.h"
#include "ui/feed.h"
#include "ui/screen.h"
#include "ui/term.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { TICK_MS = 250, MESSAGE_MS = 6000, RUNS = 8 };

struct dash {
    struct sw_term *term;
    struct sw_feed *feed;
    struct sw_ui_model *model; /* owned */
    struct sw_ui_view view;
    struct sw_canvas canvas;
    int64_t message_ns; /* when the message was set */
    bool mouse_off;
};

/* ---- Signals ----------------------------------------------------------------------------------
 * A handler has no argument, so the signal is stored in a variable of this file. */

static volatile sig_atomic_t received_signal;
static const int handled[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
enum { HANDLED = sizeof handled / sizeof *handled };

static void on_signal(int number)
{
    received_signal = number;
}

static void install_handlers(struct sigaction old[HANDLED])
{
    received_signal = 0;

    for (int i = 0; i < HANDLED; i++) {
        struct sigaction action = {.sa_handler = on_signal};
        sigemptyset(&action.sa_mask);
        sigaction(handled[i], &action, &old[i]);
    }
}

static void remove_handlers(const struct sigaction old[HANDLED])
{
    for (int i = 0; i < HANDLED; i++)
        sigaction(handled[i], &old[i], NULL);
}

/* ---- Actions ------------------------------------------------------------------------
 */

static void show_message(struct dash *d, bool bad, const char *text)
{
    snprintf(d->view.message, sizeof d->view.message, "%.*s", (int)sizeof d->view.message - 1,
             text);
    d->view.message_bad = bad;
    d->message_ns = sw_os()->monotonic_ns();
}

static void send_request(struct dash *d, const char *line)
{
    char answer[SW_CONTROL_LINE];
    struct sw_err err;

    if (sw_feed_request(d->feed, line, answer, sizeof answer, &err) != SW_OK)
        show_message(d, true, err.text);
    else if (sw_str_starts(answer, "ok: "))
        show_message(d, false, answer + 4);
    else
        show_message(d, true, answer);
}

static void show_run(struct dash *d)
{
    const struct sw_ui_row *row = sw_ui_selected_run(d->model, &d->view);
    char id[24];
    struct sw_err err;

    if (!row)
        return;

    snprintf(id, sizeof id, "%lld", (long long)row->id);
    if (sw_feed_choose(d->feed, id, d->model, &err) != SW_OK) {
        show_message(d, true, err.text);
        return;
    }

    memset(d->view.scroll, 0, sizeof d->view.scroll);
    d->view.focus = 1;
    d->view.maximized = false;
    sw_feed_refresh(d->feed, d->model, SW_FEED_ALL);
}

static void overlay(struct dash *d)
{
    const struct sw_ui_row *row =
        d->view.focus == RUNS ? sw_ui_selected_run(d->model, &d->view) : NULL;
    int64_t run = row && row->id != d->model->run.id ? row->id : 0;
    struct sw_err err;

    if (run == 0 && d->model->overlay_run == 0)
        show_message(d, false, "select another run in the list first (r, arrow keys, o)");
    else if (sw_feed_overlay(d->feed, run, d->model, &err) != SW_OK)
        show_message(d, true, err.text);
    else
        show_message(d, false,
                     run ? "its curves are dashed; press o outside the list to remove them"
                         : "the curves of the other run were removed");
}

/* Performs an action; false when the user quits. */
static bool act(struct dash *d, enum sw_ui_action what)
{
    switch (what) {
    case SW_ACT_QUIT:
        return false;
    case SW_ACT_PAUSE:
        send_request(d, sw_ui_paused(d->model) ? "continue" : "pause");
        break;
    case SW_ACT_CHECKPOINT:
        send_request(d, "checkpoint");
        break;
    case SW_ACT_STOP:
        send_request(d, "stop");
        break;
    case SW_ACT_RUN:
        show_run(d);
        break;
    case SW_ACT_OVERLAY:
        overlay(d);
        break;
    case SW_ACT_MOUSE:
        d->mouse_off = !d->mouse_off;
        sw_term_mouse(d->term, !d->mouse_off);
        show_message(d, false, d->mouse_off ? "mouse off: the terminal selects text" : "mouse on");
        break;
    case SW_ACT_REDRAW:
        sw_term_invalidate(d->term);
        break;
    case SW_ACT_NONE:
        break;
    }

    return true;
}

/* ---- The loop ---------------------------------------------------------------------------------
 */

static int draw(struct dash *d, struct sw_err *err)
{
    int w, h;

    sw_term_size(d->term, &w, &h);

    int rc = sw_canvas_begin(&d->canvas, w, h, sw_term_caps(d->term), err);
    if (rc != SW_OK)
        return rc;

    sw_screen_draw(&d->canvas, d->model, &d->view);
    sw_term_show(d->term, &d->canvas, &sw_themes[d->view.theme]);
    return SW_OK;
}

/* Shows a message when the run ends, with what the user can do. */
static void report_end(struct dash *d, enum sw_run_status before, int64_t run)
{
    const struct sw_ui_run *r = &d->model->run;
    char text[SW_UI_PROMPT], hint[SW_RESUME_HINT];

    if (before != SW_RUN_RUNNING || r->status == SW_RUN_RUNNING || r->id != run)
        return;

    sw_resume_hint(hint, r->id, r->status, d->model->checkpoint_step);
    snprintf(text, sizeof text, "run %lld %s %s after step %lld; q quits%s%s", (long long)r->id,
             r->status == SW_RUN_CRASHED ? "has" : "is", sw_run_status_name(r->status),
             (long long)sw_ui_step(d->model), *hint ? "; " : "", hint);
    show_message(d, r->status == SW_RUN_CRASHED || r->status == SW_RUN_FAILED, text);
}

static void refresh_all(struct dash *d)
{
    enum sw_run_status before = d->model->run.status;
    int64_t run = d->model->run.id;
    int64_t now_ns = sw_os()->monotonic_ns();
    bool old = now_ns - d->message_ns > (int64_t)MESSAGE_MS * 1000000;

    if (old && d->view.mode != SW_UI_CONFIRMING)
        d->view.message[0] = 0;

    /* The list of all runs is read only while it is visible. */
    bool list = d->view.focus == RUNS || d->canvas.w >= 200;
    sw_feed_refresh(d->feed, d->model, SW_FEED_MACHINE | (list ? SW_FEED_ROWS : 0));
    report_end(d, before, run);
}

static int loop(struct dash *d, struct sw_err *err)
{
    int64_t next_ns = 0;

    for (;;) {
        int64_t now_ns = sw_os()->monotonic_ns();

        if (now_ns >= next_ns) {
            refresh_all(d);
            next_ns = now_ns + (int64_t)TICK_MS * 1000000;
        }

        int rc = draw(d, err);
        if (rc != SW_OK || received_signal)
            return rc;

        struct sw_ui_input in = {0};
        int64_t left_ms = (next_ns - sw_os()->monotonic_ns()) / 1000000 + 1;
        while (sw_term_read(d->term, left_ms > 0 ? (int)left_ms : 0, &in)) {
            left_ms = 0; /* handle all pending keys before drawing */
            if (in.key == SW_KEY_RESIZE || in.key == SW_KEY_NONE)
                continue;

            bool list = d->view.focus == RUNS;
            if (!act(d, sw_ui_press(&d->view, d->model, &in, d->canvas.w, d->canvas.h)))
                return SW_OK;

            if (!list && d->view.focus == RUNS)
                next_ns = 0; /* read the list at once */
        }

        if (received_signal)
            return SW_OK;
    }
}

static int open_all(struct dash *d, const struct sw_dash_args *args, struct sw_err *err)
{
    d->model = sw_calloc(1, sizeof *d->model);
    if (!d->model)
        return sw_err_nomem(err, "dashboard", sizeof *d->model);

    sw_ui_model_clear(d->model);
    d->view = sw_ui_first_view();

    d->view.of_run = args->of_run;
    for (int i = 0; args->theme && sw_themes[i].name; i++)
        if (sw_str_eq(sw_themes[i].name, args->theme))
            d->view.theme = i;

    int rc = sw_feed_new(&d->feed, args->db_path, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_feed_choose(d->feed, args->run, d->model, err);
    if (rc != SW_OK)
        return rc;

    return sw_term_open(&d->term, err);
}

int sw_dash_run(const struct sw_dash_args *args, int *ended_by, struct sw_err *err)
{
    struct dash d = {0};
    struct sigaction old[HANDLED];

    *ended_by = 0;

    int rc = open_all(&d, args, err);
    if (rc == SW_OK) {
        install_handlers(old);
        rc = loop(&d, err);
        sw_term_close(d.term);
        remove_handlers(old);
        *ended_by = received_signal;
    }

    sw_canvas_fini(&d.canvas);
    sw_feed_free(d.feed);
    if (d.model)
        sw_ui_model_fini(d.model);
    sw_free(d.model);

    return rc;
}
