/* Looks up the receiver of a message by its kind. */
#include "exchange/hosts/router.h"

static const struct sw_fabric_sink *find(const struct sw_fabric_router *r,
                                         const struct sw_fabric_tag *tag)
{
    int i = tag->kind < SW_FABRIC_KINDS ? r->of_kind[tag->kind] : 0;
    return i ? &r->sink[i - 1] : NULL;
}

static int place(void *router, int from, const struct sw_fabric_tag *tag, size_t bytes, void **to,
                 struct sw_err *err)
{
    const struct sw_fabric_sink *s = find(router, tag);

    return s ? s->place(s->user, from, tag, bytes, to, err)
             : sw_err_set(err, SW_ERR_INVALID, "it sent a message of kind %d, which nobody takes",
                          tag->kind);
}

static int arrived(void *router, int from, const struct sw_fabric_tag *tag, void *data,
                   size_t bytes, struct sw_err *err)
{
    const struct sw_fabric_sink *s = find(router, tag);
    return s->arrived(s->user, from, tag, data, bytes, err);
}

static void lost(void *router, int host, const struct sw_err *why)
{
    const struct sw_fabric_router *r = router;

    for (int i = 0; i < r->count; i++)
        if (r->sink[i].lost)
            r->sink[i].lost(r->sink[i].user, host, why);
}

void sw_fabric_router_add(struct sw_fabric_router *r, int first, int kinds,
                          struct sw_fabric_sink sink)
{
    r->sink[r->count++] = sink;
    for (int kind = first; kind < first + kinds; kind++)
        r->of_kind[kind] = (signed char)r->count;
}

struct sw_fabric_sink sw_fabric_router_sink(struct sw_fabric_router *r)
{
    return (struct sw_fabric_sink){.place = place, .arrived = arrived, .lost = lost, .user = r};
}
