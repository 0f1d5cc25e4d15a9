/* A long look at data from the command line: a line on the terminal that changes, and Ctrl-C, which
 * asks for a stop; the second one ends the program. Main thread; one at a time. */
#ifndef SW_CLI_SHARE_DATA_PROGRESS_H
#define SW_CLI_SHARE_DATA_PROGRESS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

enum { SW_DATA_SIGNALS = 2 };

struct sw_data_progress {
    bool line; /* there is a terminal to write to */
    int64_t began_ns, told_ns;
    struct sigaction old[SW_DATA_SIGNALS];
};

void sw_data_progress_begin(struct sw_data_progress *p, bool quiet);
/* Shows "done of total records (40 %), WHAT, 3 s left" from time to time; what may be "". Answers
 * false when a stop was asked for. */
bool sw_data_progress_tell(struct sw_data_progress *p, int64_t done, int64_t total,
                           const char *what);
/* Takes the line away, so that something else can be said. */
void sw_data_progress_wipe(const struct sw_data_progress *p);
double sw_data_progress_seconds(const struct sw_data_progress *p); /* since begin */
void sw_data_progress_end(struct sw_data_progress *p);

#endif
