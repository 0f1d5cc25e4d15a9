/* Plans the memory of a step: blocks from the execution order (net/memory/blocks.h), their offsets,
 * and the host memory of offloaded activations. */
#include "net/memory/memory.h"

#include "base/os.h"
#include "net/memory/blocks.h"

int sw_net_memory_init(struct sw_net_memory *m, int nodes, struct sw_err *err)
{
    size_t n = (size_t)nodes + 1;

    *m = (struct sw_net_memory){.node = sw_calloc(n, sizeof *m->node),
                                .written_at = sw_calloc(n, sizeof *m->written_at)};
    if (m->node && m->written_at)
        return SW_OK;

    sw_net_memory_fini(m);
    return sw_err_nomem(err, "the memory plan", n * sizeof *m->node);
}

void sw_net_memory_fini(struct sw_net_memory *m)
{
    sw_free(m->node);
    sw_free(m->written_at);
    *m = (struct sw_net_memory){0};
}

static int first_write_over(const struct sw_blocks *b, const struct sw_net_places *root)
{
    const struct sw_block *mine = NULL;
    int first = -1;

    for (int i = 0; i < b->count; i++)
        if (b->block[i].offset == &root->data)
            mine = &b->block[i];

    for (int i = 0; i < b->count && mine; i++) {
        const struct sw_block *o = &b->block[i];
        bool overlap = *mine->offset < *o->offset + (int64_t)o->bytes &&
                       *o->offset < *mine->offset + (int64_t)mine->bytes;
        if (overlap && o->first > mine->last && (first < 0 || o->first < first))
            first = o->first;
    }

    return first;
}

/* Finds the first op that overwrites each offloaded activation, which must wait for the copy, and
 * assigns offsets in host memory. */
static void place_copies(struct sw_net_memory *m, const struct sw_exec_order *s,
                         const struct sw_blocks *b)
{
    m->offload_bytes = 0;
    for (int i = 0; i < s->aliases->graph->count; i++) {
        struct sw_net_places *places = &m->node[i];
        bool offloaded = s->node[i].offloaded_until >= 0;
        m->written_at[i] = offloaded ? first_write_over(b, places) : -1;
        places->host_at = offloaded ? (int64_t)m->offload_bytes : SW_NO_OFFSET;
        m->offload_bytes +=
            offloaded ? sw_block_bytes(s->aliases->shapes->node[i].output_bytes) : 0;
    }
}

int sw_net_memory_plan(struct sw_net_memory *m, const struct sw_exec_order *s,
                       const struct sw_branch_order *order, bool separate_scratch,
                       struct sw_err *err)
{
    struct sw_blocks b;

    int rc = sw_blocks_init(&b, s->aliases, order, separate_scratch, err);
    if (rc != SW_OK)
        return rc;

    sw_blocks_find(&b, s, m);
    m->arena_bytes = sw_blocks_place(&b, &m->scratch_bytes);
    place_copies(m, s, &b);
    sw_blocks_fini(&b);

    return SW_OK;
}
