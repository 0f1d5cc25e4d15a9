/* Places a job: checks the shape, then assigns cores to workers (place_workers.c, place_gpus.c),
 * servers (place_servers.c) and helper threads in that order, each from the remaining cores, and
 * names the rows. */
#include "plan/placement.h"
#include "base/os.h"
#include "base/tree.h"
#include "plan/place.h"
#include <stdio.h>

/* ---- rows -------------------------------------------------------------------------------------
 */

/* The device name of a worker on a GPU is set when the GPU is chosen. */
static void name_rows(struct sw_placement *p, const struct sw_cluster_shape *s)
{
    for (int i = 0; i < p->worker_count + p->server_count; i++) {
        struct sw_placement_row *row = &p->rows[i];
        bool worker = i < p->worker_count;
        int index = worker ? i : i - p->worker_count;
        int size = worker ? s->workers_per_group : s->servers_per_group;

        snprintf(row->role, sizeof row->role, "%s%d.%d", worker ? "worker" : "server", index / size,
                 index % size);
        row->gpu = -1;

        bool own = s->device_workers == 0 || index < s->device_workers;
        if (worker && own && s->driver)
            snprintf(row->device, sizeof row->device, "%s:%d", s->driver->name, index);
        else
            snprintf(row->device, sizeof row->device, "%s", sw_driver_host()->name);
    }
}

/* ---- life -------------------------------------------------------------------------------------
 */

static int check_shape(const struct sw_cluster_shape *s, struct sw_err *err)
{
    enum { MOST = SW_TREE_LEAVES }; /* the reduction tree has a leaf for each worker */

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

static int check_crowd(const struct sw_machine *m, int workers, struct sw_err *err)
{
    int threads = sw_machine_threads(m);
    if (workers <= threads)
        return SW_OK;

    return sw_err_set(err, SW_ERR_INVALID,
                      "%d workers need a core each, but %d may be used%s%s; start at most %d, "
                      "or add --oversubscribe",
                      workers, threads,
                      threads < m->core_count ? " within the cgroup's CPU quota" : "",
                      m->hidden_pus > 0 ? " (a cpuset or taskset hides others)" : "", threads);
}

/* Workers on cores have the number of threads that is asked for. */
static int check_threads(const struct sw_cluster_shape *s, const struct sw_placement *p,
                         struct sw_err *err)
{
    const struct sw_placement_row *last = &p->rows[p->worker_count - 1];

    if (s->threads_per_worker <= 0 || last->threads >= s->threads_per_worker ||
        (s->driver && s->device_workers == 0))
        return SW_OK;

    return sw_err_set(err, SW_ERR_INVALID,
                      "threads_per_worker = %d, but there are only %d core%s for each of %d "
                      "worker%s: use at most %d, or fewer workers",
                      s->threads_per_worker, last->threads, last->threads == 1 ? "" : "s",
                      p->worker_count, p->worker_count == 1 ? "" : "s", last->threads);
}

static void place_helpers(const struct sw_machine *m, struct sw_placement *p)
{
    static const char *const names[] = {[SW_PLACE_MAIN] = "main", [SW_PLACE_HISTORY] = "history"};
    bool spare = sw_core_set_count(&p->spare) > 0;
    struct sw_core_set cores = spare ? p->spare : sw_machine_cores(m);

    for (int i = 0; i < SW_PLACE_HELPERS; i++) {
        struct sw_placement_row *row = &p->rows[p->worker_count + p->server_count + i];

        snprintf(row->role, sizeof row->role, "%s", names[i]);
        snprintf(row->device, sizeof row->device, "%s", sw_driver_host()->name);
        row->gpu = row->numa = -1;
        sw_row_set_cores(m, row, &cores);
        row->threads = 1;
        snprintf(row->reason, sizeof row->reason, "%s",
                 spare ? "spare cores, not used by a worker or server"
                       : "shares the job's cores: no spare core");
    }
}

/* Workers on GPUs first, on cores near these; the others share the remaining cores. */
static int place_workers(const struct sw_machine *m, const struct sw_cluster_shape *shape,
                         struct sw_placement *p, struct sw_err *err)
{
    struct sw_placement rest = *p;

    if (!shape->driver || !shape->driver->caps.on_bus) {
        sw_place_workers(m, p);
        return SW_OK;
    }

    int on_gpus = shape->device_workers ? shape->device_workers : p->worker_count;
    p->worker_count = on_gpus;

    int rc = sw_place_gpu_workers(m, shape, p, err);
    p->worker_count = rest.worker_count;
    if (rc != SW_OK || on_gpus == p->worker_count)
        return rc;

    rest.rows += on_gpus;
    rest.worker_count -= on_gpus;
    rest.spare = p->spare;
    if (sw_core_set_count(&rest.spare) == 0) /* no core is left: time-share with the others */
        rest.spare = sw_machine_cores(m);
    sw_place_workers(m, &rest);
    if (sw_core_set_count(&p->spare) > 0)
        p->spare = rest.spare;

    return SW_OK;
}

static int place_all(const struct sw_machine *m, const struct sw_cluster_shape *shape,
                     bool oversubscribe, struct sw_placement *p, struct sw_err *err)
{
    int rc = oversubscribe ? SW_OK : check_crowd(m, p->worker_count, err);
    if (rc != SW_OK)
        return rc;

    p->oversubscribed = p->worker_count > sw_machine_threads(m);
    name_rows(p, shape);

    rc = place_workers(m, shape, p, err);
    if (rc == SW_OK && !oversubscribe)
        rc = check_threads(shape, p, err);
    if (rc != SW_OK)
        return rc;

    sw_place_servers(m, shape, p);
    place_helpers(m, p);
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
    p->most_threads = shape->threads_per_worker;
    p->spare = sw_machine_cores(m);
    p->row_count = p->worker_count + p->server_count + SW_PLACE_HELPERS;

    size_t rows = (size_t)p->row_count;
    p->rows = sw_calloc(rows, sizeof *p->rows);
    rc = p->rows ? place_all(m, shape, oversubscribe, p, err)
                 : sw_err_nomem(err, "the placement", rows * sizeof *p->rows);
    if (rc != SW_OK) {
        sw_placement_free(p);
        return rc;
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

const struct sw_placement_row *sw_placement_worker(const struct sw_placement *p, int rank)
{
    return &p->rows[rank];
}

const struct sw_placement_row *sw_placement_server(const struct sw_placement *p, int rank)
{
    return &p->rows[p->worker_count + rank];
}

const struct sw_placement_row *sw_placement_helper(const struct sw_placement *p,
                                                   enum sw_placement_helper which)
{
    return &p->rows[p->worker_count + p->server_count + (int)which];
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
