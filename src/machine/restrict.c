/* Removes cores from a machine map, as if this process were not allowed to use them. */
#include "machine/machine.h"

#include "base/os.h"

/* Removes the nodes without cores; new_index has their new indices, -1 for the removed ones. */
static void drop_nodes(struct sw_machine *m, int new_index[SW_MAX_NODES])
{
    int kept = 0;

    for (int n = 0; n < m->node_count; n++) {
        bool keep = sw_core_set_count(&m->nodes[n].cores) > 0;
        new_index[n] = keep ? kept : -1;
        if (keep)
            m->nodes[kept++] = m->nodes[n];
    }

    m->node_count = kept;
}

static void drop_cores(struct sw_machine *m, const struct sw_core_set *keep)
{
    int kept = 0;

    m->pu_count = 0;
    for (int i = 0; i < m->core_count; i++) {
        if (!sw_core_set_has(keep, m->cores[i].number))
            continue;

        m->pu_count += m->cores[i].pus;
        m->cores[kept++] = m->cores[i];
    }

    m->core_count = kept;
}

static void drop_caches(struct sw_machine *m, const struct sw_core_set *gone)
{
    int kept = 0;

    for (int i = 0; i < m->cache_count; i++) {
        sw_core_set_remove_all(&m->caches[i].cores, gone);
        if (sw_core_set_count(&m->caches[i].cores) > 0)
            m->caches[kept++] = m->caches[i];
    }

    m->cache_count = kept;
}

void sw_machine_restrict(struct sw_machine *m, const struct sw_core_set *keep)
{
    struct sw_core_set gone = sw_machine_cores(m);
    int new_index[SW_MAX_NODES];

    sw_core_set_remove_all(&gone, keep);
    if (sw_core_set_count(&gone) == 0)
        return;

    for (int n = 0; n < m->node_count; n++)
        sw_core_set_remove_all(&m->nodes[n].cores, &gone);

    drop_nodes(m, new_index);
    drop_cores(m, keep);
    drop_caches(m, &gone);

    for (int i = 0; i < m->core_count; i++)
        m->cores[i].node = new_index[m->cores[i].node];
    for (int i = 0; i < m->io_count; i++)
        if (m->io[i].node >= 0)
            m->io[i].node = new_index[m->io[i].node];
}
