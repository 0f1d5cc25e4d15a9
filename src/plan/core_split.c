/* Splits cores into equal sets inside NUMA nodes: the largest size with which all sets fit, each
 * set on the node with the most free cores. */
#include "plan/core_split.h"

struct sw_core_split sw_core_split_of(const struct sw_machine *m, const struct sw_core_set *cores)
{
    struct sw_core_split s = {.nodes = m->node_count};
    for (int i = 0; i < m->core_count; i++)
        s.cores[m->cores[i].node] += sw_core_set_has(cores, m->cores[i].number);
    return s;
}

static int parts(const struct sw_core_split *s, int size)
{
    int count = 0;
    for (int n = 0; n < s->nodes; n++)
        count += s->cores[n] / size;
    return count;
}

/* The node with room for the most further sets; the first one on ties. */
static int roomiest(const struct sw_core_split *s)
{
    int best = 0, best_room = -1;

    for (int n = 0; n < s->nodes; n++) {
        int room = s->cores[n] / s->size - s->sets[n];
        if (room > best_room)
            best = n, best_room = room;
    }

    return best;
}

bool sw_core_split_fit(struct sw_core_split *s, int sets, int limit)
{
    if (parts(s, 1) < sets)
        return false;

    s->size = limit;
    while (s->size > 1 && parts(s, s->size) < sets)
        s->size--;
    for (int n = 0; n < s->nodes; n++)
        s->sets[n] = 0;
    for (int role = 0; role < sets; role++)
        s->sets[roomiest(s)]++;

    return true;
}

struct sw_core_set sw_core_split_take(const struct sw_machine *m, struct sw_core_set *cores,
                                      uint64_t node_mask, int count)
{
    struct sw_core_set taken = {0};

    for (int i = 0; i < m->core_count && count > 0; i++) {
        const struct sw_core *core = &m->cores[i];
        if (!(node_mask >> core->node & 1) || !sw_core_set_has(cores, core->number))
            continue;

        sw_core_set_add(&taken, core->number);
        sw_core_set_remove(cores, core->number);
        count--;
    }

    return taken;
}
