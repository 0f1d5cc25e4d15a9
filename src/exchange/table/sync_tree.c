/* The trees along which deltas reach all server groups, by breadth-first search from their origin.
 */
#include "exchange/table/sync_private.h"

#include "base/os.h"

static bool is_in(uint64_t route, int group)
{
    return group >= SW_SYNC_GROUPS || (route >> group & 1);
}

/* Returns the number of groups reached; the parents of the others are -1. */
static int find_tree(const struct sw_sync *s, int origin, uint64_t route, int *parent, int *queue)
{
    int reached = 1;

    for (int i = 0; i < s->count; i++)
        parent[i] = -1;

    queue[0] = origin;
    for (int at = 0; at < reached; at++)
        for (int i = 0; i < s->count; i++)
            if (s->neighbours[queue[at] * s->count + i] && i != origin && parent[i] < 0 &&
                is_in(route, i)) {
                parent[i] = queue[at];
                queue[reached++] = i;
            }

    return reached;
}

const int *sw_sync_tree(const struct sw_sync *s, int origin, uint64_t route, int *scratch)
{
    int queue[SW_SYNC_GROUPS];

    if (route == s->all)
        return &s->parent[origin * s->count];

    find_tree(s, origin, route, scratch, queue);
    for (int i = 0; i < s->count; i++)
        if (i != origin && scratch[i] < 0)
            scratch[i] = origin;

    return scratch;
}

int sw_sync_find_trees(struct sw_sync *s, struct sw_err *err)
{
    int *queue = sw_calloc((size_t)s->count, sizeof *queue), rc = SW_OK;
    if (!queue)
        return sw_err_nomem(err, "the forwarding trees of deltas",
                            (size_t)s->count * sizeof *queue);

    for (int origin = 0; origin < s->count && rc == SW_OK; origin++)
        if (find_tree(s, origin, s->all, &s->parent[origin * s->count], queue) < s->count)
            rc = sw_err_set(err, SW_ERR_INVALID,
                            "deltas of server group %d do not reach all other groups", origin);

    sw_free(queue);
    return rc;
}
