/* A progress line for verbs that read much data: one line of the terminal that is rewritten. Main
 * thread; one at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct sw_data_progress {
    bool line; /* stderr is a terminal that can rewrite a line */
    int64_t began_ns, shown_ns;
};

void sw_data_progress_begin(struct sw_data_progress *p, bool quiet);
/* Shows "done of total records (40 %), WHAT, 3 s left" at most ten times a second; what may be "".
 */
void sw_data_progress_show(struct sw_data_progress *p, int64_t done, int64_t total,
                           const char *what);
/* Erases the line, at the end or before other output. */
void sw_data_progress_wipe(const struct sw_data_progress *p);
double sw_data_progress_seconds(const struct sw_data_progress *p); /* since begin */
