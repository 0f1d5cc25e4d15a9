#include "cluster/placement.h"
#include "base/os.h"
#include "cluster/share.h"
#include <stdio.h>

/* ---- rows -------------------------------------------------------------------------------------
 */

static void name_rows(struct sw_placement *p, const struct sw_cluster_shape *s)
{
    for (int i = 0; i < p->worker_count + p->server_count; i++) {
        struct sw_placement_row *row = &p->rows[i];
        bool worker = i < p->worker_count;
        int index = worker ? i : i - p->worker_count;
        int size = worker ? s->workers_per_group : s->servers_per_group;
        snprintf(row->unit, sizeof row->unit, "%s%d.%d", worker ? "worker" : "server", index / size,
                 index % size);
        snprintf(row->device, sizeof row->device, "cpu");
    }
}

/* Gives a row its cores; nodes and threads follow from them. */
static void seat(const struct sw_machine *m, struct sw_placement_row *row,
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

static void copy_seat(struct sw_placement_row *row, const struct sw_placement_row *from)
{
    row->cores = from->cores;
    row->threads = from->threads;
    row->node_mask = from->node_mask;
    row->numa = from->numa;
}

/* ---- workers ----------------------------------------------------------------------------------
 */

/* "; the cgroup's quota of 2.5 CPUs allows 2 threads", or nothing. */
static const char *quota_text(const struct sw_machine *m, char *out, size_t bytes)
{
    int threads = sw_machine_threads(m);
    out[0] = '\0';
    if (threads < m->core_count)
        snprintf(out, bytes, "; the cgroup's quota of %.3g CPUs allows %d thread%s", m->cpu_quota,
                 threads, threads == 1 ? "" : "s");
    return out;
}

static const char *node_text(const struct sw_placement_row *row, char *out, size_t bytes)
{
    if (row->numa >= 0)
        snprintf(out, bytes, "NUMA node %d", row->numa);
    else
        snprintf(out, bytes, "processors without memory of their own");
    return out;
}

/* More workers than cores: each gets one core, in turn. */
static void seat_crowded(const struct sw_machine *m, struct sw_placement *p)
{
    for (int i = 0; i < p->worker_count; i++) {
        struct sw_placement_row *row = &p->rows[i];
        struct sw_core_set cores = {0};
        int number = m->cores[i % m->core_count].number;
        sw_core_set_add(&cores, number);
        sw_core_set_remove(&p->spare, number);
        seat(m, row, &cores);
        snprintf(row->reason, sizeof row->reason,
                 "core %d in turn with other workers: %d workers share %d cores, as asked by "
                 "oversubscribe",
                 number, p->worker_count, m->core_count);
    }
}

/* How many cores the worker with fewest would get if several whole nodes went to each; 0 when there
 * are not that many nodes. */
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

/* Several nodes for each worker: it gets them whole, or as many cores of them as the quota allows.
 */
static void seat_whole_nodes(const struct sw_machine *m, struct sw_placement *p, int size)
{
    int per = m->node_count / p->worker_count;
    char quota[96];

    for (int i = 0; i < p->worker_count; i++) {
        struct sw_placement_row *row = &p->rows[i];
        uint64_t mask = (per < 64 ? (UINT64_C(1) << per) - 1 : ~UINT64_C(0)) << (i * per);
        struct sw_core_set cores = sw_share_take(m, &p->spare, mask, size);
        seat(m, row, &cores);
        snprintf(row->reason, sizeof row->reason,
                 "%d cores of %d NUMA nodes, since there are %d nodes for %d worker%s%s",
                 row->threads, __builtin_popcountll(row->node_mask), m->node_count, p->worker_count,
                 p->worker_count == 1 ? "" : "s", quota_text(m, quota, sizeof quota));
    }
}

static void seat_in_nodes(const struct sw_machine *m, struct sw_placement *p,
                          const struct sw_share *share)
{
    char quota[96], node[48];
    int i = 0;

    for (int n = 0; n < share->nodes; n++) {
        for (int unit = 0; unit < share->units[n]; unit++, i++) {
            struct sw_placement_row *row = &p->rows[i];
            struct sw_core_set cores = sw_share_take(m, &p->spare, UINT64_C(1) << n, share->size);
            seat(m, row, &cores);
            node_text(row, node, sizeof node);
            if (row->threads == share->cores[n])
                snprintf(row->reason, sizeof row->reason, "all %d core%s of %s", row->threads,
                         row->threads == 1 ? "" : "s", node);
            else
                snprintf(row->reason, sizeof row->reason, "%d of the %d cores of %s%s%s",
                         row->threads, share->cores[n], node,
                         p->worker_count > 1 ? ", an equal share for every worker" : "",
                         quota_text(m, quota, sizeof quota));
        }
    }
}

static int seat_workers(const struct sw_machine *m, struct sw_placement *p, bool oversubscribe,
                        struct sw_err *err)
{
    int threads = sw_machine_threads(m), workers = p->worker_count;
    int limit = threads / workers > 0 ? threads / workers : 1;
    int whole = fewest_of_whole_nodes(m, workers);
    struct sw_share share = sw_share_of(m, &p->spare);

    p->oversubscribed = workers > threads;
    if (p->oversubscribed && !oversubscribe)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%d workers need a core each, but %d may be used%s%s; start at most %d, "
                          "or add --oversubscribe",
                          workers, threads,
                          threads < m->core_count ? " within the cgroup's CPU quota" : "",
                          m->hidden_pus > 0 ? " (a cpuset or taskset hides others)" : "", threads);
    if (!sw_share_fit(&share, workers, limit))
        seat_crowded(m, p);
    else if (share.size < limit && share.size < whole)
        seat_whole_nodes(m, p, whole < limit ? whole : limit);
    else
        seat_in_nodes(m, p, &share);
    return SW_OK;
}

/* ---- servers ----------------------------------------------------------------------------------
 */

/* The worker with which server i lives: evenly over the workers, or in turn when there are more
 * servers. */
static const struct sw_placement_row *host_of(const struct sw_placement *p, int i)
{
    int workers = p->worker_count, servers = p->server_count;
    return &p->rows[servers <= workers ? i * workers / servers : i % workers];
}

static void seat_with_worker(struct sw_placement *p, int i, bool bound)
{
    struct sw_placement_row *row = &p->rows[p->worker_count + i];
    const struct sw_placement_row *host = host_of(p, i);

    copy_seat(row, host);
    snprintf(row->reason, sizeof row->reason, "shares the cores of %s, %s", host->unit,
             bound ? "to which it is bound" : "since no core is left for servers");
}

/* Unbound servers: equal parts of the cores left over, within what the quota leaves; those for
 * which none is left live with workers. */
static void seat_unbound(const struct sw_machine *m, struct sw_placement *p)
{
    struct sw_share share = sw_share_of(m, &p->spare);
    int left = sw_core_set_count(&p->spare), i = 0;
    int own = left < p->server_count ? left : p->server_count;
    int idle = sw_machine_threads(m) - (m->core_count - left);
    int limit = own > 0 && idle / own > 1 ? idle / own : 1;
    char node[48];

    if (own > 0 && sw_share_fit(&share, own, limit)) {
        for (int n = 0; n < share.nodes; n++) {
            for (int unit = 0; unit < share.units[n]; unit++, i++) {
                struct sw_placement_row *row = &p->rows[p->worker_count + i];
                struct sw_core_set cores =
                    sw_share_take(m, &p->spare, UINT64_C(1) << n, share.size);
                seat(m, row, &cores);
                snprintf(row->reason, sizeof row->reason, "%d core%s of %s that no worker has",
                         row->threads, row->threads == 1 ? "" : "s",
                         node_text(row, node, sizeof node));
            }
        }
    }
    for (; i < p->server_count; i++)
        seat_with_worker(p, i, false);
}

/* ---- life -------------------------------------------------------------------------------------
 */

static int check_shape(const struct sw_cluster_shape *s, struct sw_err *err)
{
    enum { MOST = 4096 };
    int64_t workers = (int64_t)s->worker_groups * s->workers_per_group;
    int64_t servers = (int64_t)s->server_groups * s->servers_per_group;

    if (s->worker_groups < 1 || s->workers_per_group < 1 || workers > MOST)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%d worker groups of %d: there must be 1 to %d workers", s->worker_groups,
                          s->workers_per_group, MOST);
    if (s->server_groups < 1 || s->servers_per_group < 1 || servers > MOST)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%d server groups of %d: there must be 1 to %d servers", s->server_groups,
                          s->servers_per_group, MOST);
    return SW_OK;
}

int sw_placement_new(const struct sw_machine *m, const struct sw_cluster_shape *shape,
                     bool oversubscribe, struct sw_placement **out, struct sw_err *err)
{
    int rc = check_shape(shape, err);
    if (rc != SW_OK)
        return rc;
    struct sw_placement *p = sw_calloc(1, sizeof *p);
    if (!p)
        return sw_err_nomem(err, "the placement", sizeof *p);
    p->worker_count = shape->worker_groups * shape->workers_per_group;
    p->server_count = shape->server_groups * shape->servers_per_group;
    p->spare = sw_machine_cores(m);
    size_t rows = (size_t)p->worker_count + (size_t)p->server_count;
    p->rows = sw_calloc(rows, sizeof *p->rows);
    rc = p->rows ? seat_workers(m, p, oversubscribe, err)
                 : sw_err_nomem(err, "the placement", rows * sizeof *p->rows);
    if (rc != SW_OK) {
        sw_placement_free(p);
        return rc;
    }
    name_rows(p, shape);
    if (shape->bind_servers) {
        for (int i = 0; i < p->server_count; i++)
            seat_with_worker(p, i, true);
    } else {
        seat_unbound(m, p);
    }
    *out = p;
    return SW_OK;
}

void sw_placement_free(struct sw_placement *p)
{
    if (p)
        sw_free(p->rows);
    sw_free(p);
}

const struct sw_placement_row *sw_placement_worker(const struct sw_placement *p,
                                                   const struct sw_cluster_shape *shape, int group,
                                                   int index)
{
    return &p->rows[group * shape->workers_per_group + index];
}

const struct sw_placement_row *sw_placement_server(const struct sw_placement *p,
                                                   const struct sw_cluster_shape *shape, int group,
                                                   int index)
{
    return &p->rows[p->worker_count + group * shape->servers_per_group + index];
}

struct sw_core_set sw_placement_helper_cores(const struct sw_placement *p,
                                             const struct sw_machine *m,
                                             const struct sw_placement_row *row)
{
    struct sw_core_set near = p->spare, far = sw_machine_node_cores(m, ~row->node_mask);
    sw_core_set_remove_all(&near, &far);
    if (sw_core_set_count(&near) > 0)
        return near;
    return sw_core_set_count(&p->spare) > 0 ? p->spare : row->cores;
}
