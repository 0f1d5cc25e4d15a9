/* Workers on CPUs: equal, whole, disjoint core sets inside one NUMA node where they fit. */
#include "plan/core_split.h"
#include "plan/place.h"
#include <stdio.h>

/* More workers than cores: each gets one core, round robin. */
static void place_time_shared(const struct sw_machine *m, struct sw_placement *p)
{
    for (int i = 0; i < p->worker_count; i++) {
        struct sw_placement_row *row = &p->rows[i];
        struct sw_core_set cores = {0};
        int number = m->cores[i % m->core_count].number;

        sw_core_set_add(&cores, number);
        sw_core_set_remove(&p->spare, number);
        sw_row_set_cores(m, row, &cores);
        snprintf(row->reason, sizeof row->reason,
                 "core %d, time-shared: %d workers share %d cores (oversubscribe)", number,
                 p->worker_count, m->core_count);
    }
}

/* The smallest number of cores of a worker if each gets several whole nodes; 0 if there are not
 * enough nodes. */
static int fewest_of_whole_nodes(const struct sw_machine *m, int workers)
{
    int fewest = SW_MAX_CORES, per = m->node_count / workers;
    if (per < 2)
        return 0;

    for (int i = 0; i < workers; i++) {
        int cores = 0;
        for (int n = i * per; n < (i + 1) * per; n++)
            cores += sw_core_set_count(&m->nodes[n].cores);
        fewest = cores < fewest ? cores : fewest;
    }

    return fewest;
}

/* Several nodes per worker: all cores of these nodes, or as many as the quota allows. */
static void place_whole_nodes(const struct sw_machine *m, struct sw_placement *p, int size)
{
    int per = m->node_count / p->worker_count;
    char quota[96];

    for (int i = 0; i < p->worker_count; i++) {
        struct sw_placement_row *row = &p->rows[i];
        uint64_t mask = (per < 64 ? (UINT64_C(1) << per) - 1 : ~UINT64_C(0)) << (i * per);
        struct sw_core_set cores = sw_core_split_take(m, &p->spare, mask, size);

        sw_row_set_cores(m, row, &cores);
        snprintf(row->reason, sizeof row->reason,
                 "%d cores of %d NUMA nodes: %d nodes for %d worker%s%s", row->threads,
                 __builtin_popcountll(row->node_mask), m->node_count, p->worker_count,
                 p->worker_count == 1 ? "" : "s", sw_quota_text(m, quota, sizeof quota));
    }
}

static void place_in_nodes(const struct sw_machine *m, struct sw_placement *p,
                           const struct sw_core_split *share)
{
    char quota[96], node[48];
    int i = 0;

    for (int n = 0; n < share->nodes; n++) {
        for (int role = 0; role < share->sets[n]; role++, i++) {
            struct sw_placement_row *row = &p->rows[i];
            struct sw_core_set cores =
                sw_core_split_take(m, &p->spare, UINT64_C(1) << n, share->size);

            sw_row_set_cores(m, row, &cores);
            sw_node_text(row, node, sizeof node);

            if (row->threads == share->cores[n])
                snprintf(row->reason, sizeof row->reason, "all %d core%s of %s", row->threads,
                         row->threads == 1 ? "" : "s", node);
            else
                snprintf(row->reason, sizeof row->reason, "%d of the %d cores of %s%s%s",
                         row->threads, share->cores[n], node,
                         row->threads == p->most_threads ? ", as threads_per_worker says"
                         : p->worker_count > 1           ? ", an equal share for each worker"
                                                         : "",
                         sw_quota_text(m, quota, sizeof quota));
        }
    }
}

void sw_place_workers(const struct sw_machine *m, struct sw_placement *p)
{
    int threads = sw_machine_threads(m), workers = p->worker_count;
    int limit = threads / workers > 0 ? threads / workers : 1;
    int whole = fewest_of_whole_nodes(m, workers);
    struct sw_core_split share = sw_core_split_of(m, &p->spare);

    if (p->most_threads > 0 && p->most_threads < limit)
        limit = p->most_threads;

    if (!sw_core_split_fit(&share, workers, limit))
        place_time_shared(m, p);
    else if (share.size < limit && share.size < whole)
        place_whole_nodes(m, p, whole < limit ? whole : limit);
    else
        place_in_nodes(m, p, &share);
}
