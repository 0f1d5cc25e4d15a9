/* Assigns cores to a row of a placement, and texts for its reason. */
#include "plan/place.h"

#include <stdio.h>

void sw_row_set_cores(const struct sw_machine *m, struct sw_placement_row *row,
                      const struct sw_core_set *cores)
{
    row->cores = *cores;
    row->threads = sw_core_set_count(cores);

    row->node_mask = 0;
    for (int n = m->node_count - 1; n >= 0; n--) {
        if (sw_core_set_overlaps(&m->nodes[n].cores, cores)) {
            row->node_mask |= UINT64_C(1) << n;
            row->numa = m->nodes[n].number;
        }
    }
}

const char *sw_quota_text(const struct sw_machine *m, char *out, size_t bytes)
{
    int threads = sw_machine_threads(m);

    out[0] = '\0';

    if (threads < m->core_count)
        snprintf(out, bytes, "; the cgroup quota of %.3g CPUs allows %d thread%s", m->cpu_quota,
                 threads, threads == 1 ? "" : "s");

    return out;
}

const char *sw_node_text(const struct sw_placement_row *row, char *out, size_t bytes)
{
    if (row->numa >= 0)
        snprintf(out, bytes, "NUMA node %d", row->numa);
    else
        snprintf(out, bytes, "cores without local memory");

    return out;
}
