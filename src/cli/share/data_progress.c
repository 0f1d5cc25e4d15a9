#include "cli/share/data_progress.h"

#include "base/os.h"
#include "base/str.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { TELL_NS = 100 * 1000 * 1000 };

/* A handler has no argument, so the wish to stop is a variable of this file. */
static volatile sig_atomic_t stop_asked;

static void on_signal(int number)
{
    (void)number;
    stop_asked = 1;
}

static const int handled[SW_DATA_SIGNALS] = {SIGINT, SIGTERM};

static bool on_smart_terminal(void)
{
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) == 1 && term && *term && !sw_str_eq(term, "dumb");
}

void sw_data_progress_begin(struct sw_data_progress *p, bool quiet)
{
    *p = (struct sw_data_progress){.line = !quiet && on_smart_terminal(),
                                   .began_ns = sw_os()->monotonic_ns()};
    stop_asked = 0;
    for (int i = 0; i < SW_DATA_SIGNALS; i++) {
        struct sigaction action = {.sa_flags = SA_RESTART | (int)SA_RESETHAND};
        action.sa_handler = on_signal;
        sigemptyset(&action.sa_mask);
        sigaction(handled[i], &action, &p->old[i]);
    }
}

void sw_data_progress_end(struct sw_data_progress *p)
{
    sw_data_progress_wipe(p);
    for (int i = 0; i < SW_DATA_SIGNALS; i++)
        sigaction(handled[i], &p->old[i], NULL);
}

double sw_data_progress_seconds(const struct sw_data_progress *p)
{
    return (double)(sw_os()->monotonic_ns() - p->began_ns) * 1e-9;
}

void sw_data_progress_wipe(const struct sw_data_progress *p)
{
    if (p->line)
        fputs("\r\033[K", stderr);
}

bool sw_data_progress_tell(struct sw_data_progress *p, int64_t done, int64_t total,
                           const char *what)
{
    char left[32];
    const int64_t now = sw_os()->monotonic_ns();
    if (p->line && done > 0 && now - p->told_ns >= TELL_NS) {
        const double s = sw_data_progress_seconds(p);
        p->told_ns = now;
        sw_data_progress_wipe(p);
        fprintf(stderr, "%lld of %lld records (%.0f %%)%s%s, %s left", (long long)done,
                (long long)total, 100 * (double)done / (double)total, *what ? ", " : "", what,
                sw_human_seconds(left, s * (double)(total - done) / (double)done));
    }
    return !stop_asked;
}
