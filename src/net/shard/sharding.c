/* Makes the sharding of a net: spreads, then connections between them. */
#include "net/shard/sharding.h"

#include "base/os.h"

int sw_net_sharding_init(struct sw_net_sharding *s, struct sw_net_graph *g,
                         const struct sw_net_args *args, bool alone, struct sw_err *err)
{
    size_t n = (size_t)g->count + 1;

    *s = (struct sw_net_sharding){
        .workers = args->workers, .worker = args->worker, .node = sw_calloc(n, sizeof *s->node)};
    if (!s->node)
        return sw_err_nomem(err, "the sharding of a net", n * sizeof *s->node);

    int rc = sw_net_spread(s, g, args, alone, err);
    return rc == SW_OK && s->workers > 1 ? sw_net_connect(s, g, err) : rc;
}

void sw_net_sharding_fini(struct sw_net_sharding *s)
{
    sw_free(s->node);
    sw_bytes_fini(&s->notes);
    *s = (struct sw_net_sharding){0};
}
