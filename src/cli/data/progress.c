/* The progress line of the data verbs, rewritten at most ten times a second and only on a terminal
 * that can move its cursor. Main thread; the contract is in cli/data/progress.h. */
#include "cli/data/progress.h"

#include "base/os.h"
#include "base/str.h"
#include "cli/cli.h"
#include <stdlib.h>
#include <unistd.h>

enum { SHOW_NS = 100 * 1000 * 1000 };

static bool on_smart_terminal(void)
{
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) == 1 && term && *term && !sw_str_eq(term, "dumb");
}

void sw_data_progress_begin(struct sw_data_progress *p, bool quiet)
{
    *p = (struct sw_data_progress){.line = !quiet && on_smart_terminal(),
                                   .began_ns = sw_os()->monotonic_ns()};
}

double sw_data_progress_seconds(const struct sw_data_progress *p)
{
    return (double)(sw_os()->monotonic_ns() - p->began_ns) * 1e-9;
}

void sw_data_progress_wipe(const struct sw_data_progress *p)
{
    if (p->line)
        sw_cli_lines_raw("\r\033[K");
}

void sw_data_progress_show(struct sw_data_progress *p, int64_t done, int64_t total,
                           const char *what)
{
    char left[32];
    const int64_t now = sw_os()->monotonic_ns();

    if (p->line && done > 0 && now - p->shown_ns >= SHOW_NS) {
        const double s = sw_data_progress_seconds(p);

        p->shown_ns = now;
        sw_data_progress_wipe(p);

        struct sw_bytes text = {0};
        sw_bytes_printf(&text, "%lld of %lld records (%.0f %%)%s%s, %s left", (long long)done,
                        (long long)total, 100 * (double)done / (double)total, *what ? ", " : "",
                        what, sw_human_seconds(left, s * (double)(total - done) / (double)done));
        sw_cli_lines(sw_bytes_text(&text));
        sw_bytes_fini(&text);
    }
}
