/* Workers on GPUs. The workers of a group communicate in every step, so a group gets GPUs that are
 * close: starting from each GPU in turn, the one nearest to those chosen is added, and the best
 * start wins. A worker's threads run on the NUMA node nearest its GPU, on separate cores: one core
 * if servers are unbound (it drives the device, and the remaining cores are for servers and
 * decoding), else an equal number of the node's cores, since its server updates parameters there.
 */
#include "base/os.h"
#include "plan/core_split.h"
#include "plan/place.h"
#include <stdio.h>

/* ---- which GPU --------------------------------------------------------------------------------
 */

enum { WITHOUT_NVLINK = 10, WITHOUT_NODE = 1000 };

/* Distance between two GPUs; for a single one, whether cores near it may be used. */
static int distance(const struct sw_machine *m, int a, int b)
{
    if (a == b)
        return sw_machine_gpu(m, a)->node < 0 ? WITHOUT_NODE : 0;
    return (int)sw_gpu_path(m, a, b) + (sw_gpu_nvlink(m, a, b) > 0 ? 0 : WITHOUT_NVLINK);
}

static int distance_to_all(const struct sw_machine *m, int gpu, const int *others, int count)
{
    int sum = distance(m, gpu, gpu);
    for (int i = 0; i < count; i++)
        sum += distance(m, gpu, others[i]);
    return sum;
}

/* Chooses `count` free GPUs, beginning with `first`, and marks them as taken; returns their total
 * distance. */
static int grow_group(const struct sw_machine *m, bool *taken, int first, int count, int *out)
{
    int total = distance(m, first, first);

    taken[out[0] = first] = true;
    for (int n = 1; n < count; n++) {
        int best = -1, best_distance = 0;

        for (int gpu = 0; gpu < m->gpu_count; gpu++) {
            int d = taken[gpu] ? 0 : distance_to_all(m, gpu, out, n);
            if (!taken[gpu] && (best < 0 || d < best_distance))
                best = gpu, best_distance = d;
        }

        total += best_distance;
        taken[out[n] = best] = true;
    }

    return total;
}

static void sort(int *numbers, int count)
{
    for (int i = 1; i < count; i++) {
        int number = numbers[i], at = i;
        for (; at > 0 && numbers[at - 1] > number; at--)
            numbers[at] = numbers[at - 1];
        numbers[at] = number;
    }
}

/* Chooses a group's GPUs from the free ones, in ascending order; candidate is work memory. */
static void choose_group(const struct sw_machine *m, bool *taken, int count, int *candidate,
                         int *out)
{
    int best_first = -1, best_distance = 0;

    for (int first = 0; first < m->gpu_count; first++) {
        if (taken[first])
            continue;

        int d = grow_group(m, taken, first, count, candidate);
        if (best_first < 0 || d < best_distance)
            best_first = first, best_distance = d;
        for (int i = 0; i < count; i++)
            taken[candidate[i]] = false;
    }

    (void)grow_group(m, taken, best_first, count, out);
    sort(out, count);
}

static int check_named(const struct sw_machine *m, const struct sw_cluster_shape *s, int workers,
                       struct sw_err *err)
{
    const char *name = s->driver->name;
    int count = s->gpu_count ? s->gpu_count : m->gpu_count;
    if (m->gpu_count == 0)
        return sw_err_set(err, SW_ERR_NOTFOUND, "no %s; use --device %s", s->driver->label,
                          sw_driver_host()->name);

    for (int i = 0; i < s->gpu_count; i++)
        if (s->gpus[i] < 0 || s->gpus[i] >= m->gpu_count)
            return sw_err_set(
                err, SW_ERR_NOTFOUND, "%s:%d: there are %d %ss, the last is %s:%d; try --device %s",
                name, s->gpus[i], m->gpu_count, s->driver->label, name, m->gpu_count - 1, name);

    if (workers > count)
        return sw_err_set(err, SW_ERR_INVALID,
                          "%d workers need a %s each, but there are %d: at most %d, or name one "
                          "several times, as in %s:0,0",
                          workers, s->driver->label, count, count, name);

    return SW_OK;
}

/* Marks the GPUs of other runs as taken, if enough are left for the workers. */
static void leave_used(const struct sw_machine *m, const struct sw_cluster_shape *s, int workers,
                       bool *taken)
{
    int free = 0;

    for (int i = 0; i < m->gpu_count; i++)
        free += i >= 64 || !(s->used_gpus >> i & 1);
    for (int i = 0; i < m->gpu_count && free >= workers; i++)
        taken[i] = i < 64 && (s->used_gpus >> i & 1);
}

static int choose(const struct sw_machine *m, const struct sw_cluster_shape *s,
                  struct sw_placement *p, struct sw_err *err)
{
    size_t gpus = (size_t)m->gpu_count, size = (size_t)s->workers_per_group;
    int *group = sw_calloc(2 * size, sizeof *group), rc = SW_OK;
    bool *taken = sw_calloc(gpus, sizeof *taken);

    if (!group || !taken)
        rc = sw_err_nomem(err, "the placement", gpus + 2 * size * sizeof *group);
    else
        leave_used(m, s, p->worker_count, taken);

    for (int g = 0; g < s->worker_groups && rc == SW_OK; g++) {
        int first = g * s->workers_per_group, own = p->worker_count - first;

        own = own < s->workers_per_group ? own : s->workers_per_group; /* the others have none */
        if (!s->gpu_count && own > 0)
            choose_group(m, taken, own, group + size, group);

        for (int i = 0; i < own; i++) {
            int worker = first + i;
            p->rows[worker].gpu = s->gpu_count ? s->gpus[worker] : group[i];
        }
    }

    sw_free(group);
    sw_free(taken);
    return rc;
}

/* ---- cores ------------------------------------------------------------------------------------
 */

static int node_of(const struct sw_machine *m, const struct sw_placement_row *row)
{
    return sw_machine_gpu(m, row->gpu)->node;
}

/* Number of cores of each worker: equal, and on the nodes of their GPUs if these have any. */
static int share_size(const struct sw_machine *m, const struct sw_placement *p, bool bound)
{
    int size = bound ? sw_machine_threads(m) / p->worker_count : 1;

    for (int n = 0; n < m->node_count; n++) {
        int workers = 0, cores = sw_core_set_count(&m->nodes[n].cores);
        for (int i = 0; i < p->worker_count; i++)
            workers += node_of(m, &p->rows[i]) == n;
        if (workers > 0 && cores / workers < size)
            size = cores / workers;
    }

    return size > 0 ? size : 1;
}

static int spare_on(const struct sw_machine *m, const struct sw_placement *p, int node)
{
    struct sw_core_split share = sw_core_split_of(m, &p->spare);
    return share.cores[node];
}

/* The fallback node: of the GPU's package if that has spare cores, the one with the most. */
static int second_best(const struct sw_machine *m, const struct sw_placement *p, int package)
{
    int best = 0, best_score = -1;

    for (int n = 0; n < m->node_count; n++) {
        int spare = spare_on(m, p, n);
        int score = spare + (spare > 0 && m->nodes[n].package == package ? SW_MAX_CORES : 0);
        if (score > best_score)
            best = n, best_score = score;
    }

    return best;
}

/* "; farthest peer in its group: NVLink", or nothing. */
static const char *reach_text(const struct sw_machine *m, const struct sw_cluster_shape *s,
                              const struct sw_placement *p, int worker, char *out, size_t bytes)
{
    int first = worker / s->workers_per_group * s->workers_per_group, far = worker;

    for (int i = first; i < first + s->workers_per_group && i < p->worker_count; i++) {
        int gpu = p->rows[worker].gpu;
        bool same = p->rows[i].gpu == gpu;
        if (!same && (p->rows[far].gpu == gpu ||
                      distance(m, gpu, p->rows[i].gpu) > distance(m, gpu, p->rows[far].gpu)))
            far = i;
    }

    out[0] = '\0';
    if (far == worker)
        return out;

    int a = p->rows[worker].gpu, b = p->rows[far].gpu;
    snprintf(out, bytes, "; farthest peer in its group: %s",
             sw_gpu_nvlink(m, a, b) > 0 ? "NVLink" : sw_gpu_path_text(sw_gpu_path(m, a, b)));

    return out;
}

/* "GPU 3 (0000:3b:00.0)" */
static const char *gpu_text(const struct sw_machine *m, const struct sw_placement_row *row,
                            char *out, size_t bytes)
{
    snprintf(out, bytes, "GPU %d (%s)", row->gpu, sw_machine_gpu(m, row->gpu)->bus);
    return out;
}

static bool place_near_gpu(const struct sw_machine *m, struct sw_placement *p, int worker, int size,
                           const char *reach)
{
    struct sw_placement_row *row = &p->rows[worker];
    char gpu[48], node[48];
    int home = node_of(m, row);
    if (home < 0 || spare_on(m, p, home) < size)
        return false;

    struct sw_core_set cores = sw_core_split_take(m, &p->spare, UINT64_C(1) << home, size);
    sw_row_set_cores(m, row, &cores);
    snprintf(row->reason, sizeof row->reason, "%d of the %d cores of %s, nearest to %s%s",
             row->threads, sw_core_set_count(&m->nodes[home].cores),
             sw_node_text(row, node, sizeof node), gpu_text(m, row, gpu, sizeof gpu), reach);

    return true;
}

/* Assigns cores elsewhere if no core near the GPU is free or may be used. */
static void place_elsewhere(const struct sw_machine *m, struct sw_placement *p, int worker,
                            int size, const char *reach)
{
    struct sw_placement_row *row = &p->rows[worker];
    char gpu[48], node[48];
    int to = second_best(m, p, sw_machine_gpu(m, row->gpu)->package);
    struct sw_core_set cores = sw_core_split_take(m, &p->spare, UINT64_C(1) << to, size);

    sw_row_set_cores(m, row, &cores);
    snprintf(row->reason, sizeof row->reason, "%d core%s of %s: %s %s%s", row->threads,
             row->threads == 1 ? "" : "s", sw_node_text(row, node, sizeof node),
             node_of(m, row) < 0 ? "no usable NUMA node is nearest to" : "no free core near",
             gpu_text(m, row, gpu, sizeof gpu), reach);
}

/* More workers than cores: each gets one core near its GPU, in turn. `turn` counts those of the
 * node before it. */
static void place_time_shared(const struct sw_machine *m, struct sw_placement *p, int worker,
                              int turn)
{
    struct sw_placement_row *row = &p->rows[worker];
    int home = node_of(m, row), at = -1;
    struct sw_core_set near = home < 0 ? sw_machine_cores(m) : m->nodes[home].cores, one = {0};
    char gpu[48];

    for (int i = 0; i <= turn % sw_core_set_count(&near); i++)
        at = sw_core_set_next(&near, at);
    sw_core_set_add(&one, at);
    sw_core_set_remove(&p->spare, at);
    sw_row_set_cores(m, row, &one);
    snprintf(row->reason, sizeof row->reason,
             "core %d%s %s, time-shared: %d workers share %d cores (oversubscribe)", at,
             home < 0 ? " for" : ", near", gpu_text(m, row, gpu, sizeof gpu), p->worker_count,
             m->core_count);
}

static int turn_of(const struct sw_machine *m, const struct sw_placement *p, int worker)
{
    int turn = 0;
    for (int i = 0; i < worker; i++)
        turn += node_of(m, &p->rows[i]) == node_of(m, &p->rows[worker]);
    return turn;
}

int sw_place_gpu_workers(const struct sw_machine *m, const struct sw_cluster_shape *shape,
                         struct sw_placement *p, struct sw_err *err)
{
    int rc = check_named(m, shape, p->worker_count, err);

    if (rc == SW_OK)
        rc = choose(m, shape, p, err);
    if (rc != SW_OK)
        return rc;

    /* If other workers compute on cores, one core drives a GPU. */
    int size = share_size(m, p, shape->bind_servers && shape->device_workers == 0);
    char reach[96];

    /* First the workers with free cores near their GPU, then the others from the remaining cores.
     */
    for (int i = 0; i < p->worker_count; i++) {
        snprintf(p->rows[i].device, sizeof p->rows[i].device, "%s:%d", shape->driver->name,
                 p->rows[i].gpu);
        reach_text(m, shape, p, i, reach, sizeof reach);
        if (!place_near_gpu(m, p, i, size, reach) && p->oversubscribed)
            place_time_shared(m, p, i, turn_of(m, p, i));
    }

    for (int i = 0; i < p->worker_count; i++)
        if (p->rows[i].threads == 0)
            place_elsewhere(m, p, i, size, reach_text(m, shape, p, i, reach, sizeof reach));

    return SW_OK;
}
