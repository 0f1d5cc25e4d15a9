/* A bounded heap of neighbors. The contract is in search/nearest.h. */
#include "search/nearest.h"

#include <stdlib.h>

static void sift_down(struct sw_neighbor *at, int64_t count, struct sw_neighbor item)
{
    int64_t i = 0;

    for (;;) {
        int64_t child = 2 * i + 1;
        if (child >= count)
            break;
        if (child + 1 < count && sw_neighbor_before(at[child], at[child + 1]))
            child++;
        if (!sw_neighbor_before(item, at[child]))
            break;

        at[i] = at[child];
        i = child;
    }

    at[i] = item;
}

void sw_nearest_offer(struct sw_nearest *n, double distance, int64_t id)
{
    const struct sw_neighbor item = {distance, id};

    if (n->count == n->k) {
        if (n->k > 0 && sw_neighbor_before(item, n->at[0]))
            sift_down(n->at, n->count, item);
        return;
    }

    int64_t i = n->count++;
    for (int64_t parent; i > 0; i = parent) {
        parent = (i - 1) / 2;
        if (!sw_neighbor_before(n->at[parent], item))
            break;
        n->at[i] = n->at[parent];
    }

    n->at[i] = item;
}

static int compare(const void *a, const void *b)
{
    const struct sw_neighbor *x = a, *y = b;
    return sw_neighbor_before(*x, *y) ? -1 : sw_neighbor_before(*y, *x);
}

void sw_neighbors_sort(struct sw_neighbor *at, int64_t count)
{
    qsort(at, (size_t)count, sizeof *at, compare);
}

void sw_nearest_sort(struct sw_nearest *n)
{
    sw_neighbors_sort(n->at, n->count);
}

void sw_nearest_merge(const struct sw_neighbor *from, int64_t lists, int64_t queries, int64_t k,
                      struct sw_neighbor *out)
{
    for (int64_t q = 0; q < queries; q++) {
        struct sw_nearest n = sw_nearest_in(out + q * k, k);

        for (int64_t list = 0; list < lists; list++) {
            const struct sw_neighbor *part = from + (list * queries + q) * k;
            for (int64_t i = 0; i < k && part[i].id >= 0; i++)
                sw_nearest_offer(&n, part[i].distance, part[i].id);
        }

        sw_nearest_sort(&n);
    }
}
