/* Servers: bound ones share the cores of a worker; the others get cores that no worker has, spread
 * over the NUMA nodes. Servers own equal bytes of parameters, so they get equal numbers of spare
 * cores. */
#include "plan/core_split.h"
#include "plan/place.h"
#include <stdio.h>

int sw_cluster_server_group(const struct sw_cluster_shape *s, int worker_group)
{
    return (int)((int64_t)worker_group * s->server_groups / s->worker_groups);
}

/* Item i of `items` among `hosts`: evenly, or in turn when there are more items. */
static int spread(int i, int items, int hosts)
{
    return items <= hosts ? (int)((int64_t)i * hosts / items) : i % hosts;
}

/* The worker whose cores server i shares: one that its server group serves, if any. */
static const struct sw_placement_row *host_of(const struct sw_placement *p,
                                              const struct sw_cluster_shape *s, int i)
{
    int group = i / s->servers_per_group, index = i % s->servers_per_group;
    int first = 0, groups = 0;

    for (int g = s->worker_groups - 1; g >= 0; g--) {
        if (sw_cluster_server_group(s, g) == group)
            first = g, groups++;
    }

    if (groups == 0)
        return &p->rows[spread(i, p->server_count, p->worker_count)];

    return &p->rows[first * s->workers_per_group +
                    spread(index, s->servers_per_group, groups * s->workers_per_group)];
}

static void place_with_worker(struct sw_placement *p, const struct sw_cluster_shape *s, int i)
{
    struct sw_placement_row *row = &p->rows[p->worker_count + i];
    const struct sw_placement_row *host = host_of(p, s, i);

    row->cores = host->cores;
    row->threads = host->threads;
    row->node_mask = host->node_mask;
    row->numa = host->numa;
    snprintf(row->reason, sizeof row->reason, "shares the cores of %s (%s)", host->role,
             s->bind_servers ? "bound to it" : "no spare core");
}

/* Splits the spare cores equally, within the quota; returns the number of servers that got cores.
 */
static int place_on_spare_cores(const struct sw_machine *m, struct sw_placement *p)
{
    struct sw_core_split share = sw_core_split_of(m, &p->spare);
    int left = sw_core_set_count(&p->spare), i = 0;
    int own = left < p->server_count ? left : p->server_count;
    int idle = sw_machine_threads(m) - (m->core_count - left);
    int limit = own > 0 && idle / own > 1 ? idle / own : 1;
    char node[48];

    if (own == 0 || !sw_core_split_fit(&share, own, limit))
        return 0;

    for (int n = 0; n < share.nodes; n++) {
        for (int role = 0; role < share.sets[n]; role++, i++) {
            struct sw_placement_row *row = &p->rows[p->worker_count + i];
            struct sw_core_set cores =
                sw_core_split_take(m, &p->spare, UINT64_C(1) << n, share.size);

            sw_row_set_cores(m, row, &cores);
            snprintf(row->reason, sizeof row->reason, "%d core%s of %s not used by a worker",
                     row->threads, row->threads == 1 ? "" : "s",
                     sw_node_text(row, node, sizeof node));
        }
    }

    return i;
}

void sw_place_servers(const struct sw_machine *m, const struct sw_cluster_shape *shape,
                      struct sw_placement *p)
{
    for (int i = shape->bind_servers ? 0 : place_on_spare_cores(m, p); i < p->server_count; i++)
        place_with_worker(p, shape, i);
}
