/* The registry of routes: the first row whose `takes` is true wins, so order matters. `table` takes
 * every parameter of a host-memory worker; `factors` must precede `local`, and each -factors row
 * the row without; `mirror` takes the rest. */
#include "exchange/routes/routes.h"

static const struct sw_route *const routes[] = {
    &sw_route_table,      &sw_route_constant,
    &sw_route_factors,    &sw_route_local,
    &sw_route_all_reduce, &sw_route_server_sum_factors,
    &sw_route_server_sum, &sw_route_mirror_factors,
    &sw_route_mirror,     NULL,
};
_Static_assert(sizeof routes / sizeof *routes <= SW_ROUTES, "every route has a place for state");

const struct sw_route *sw_route_at(int i)
{
    return routes[i];
}

const struct sw_route *sw_route_choose(const struct sw_route_query *q)
{
    int i = 0;

    while (routes[i + 1] && !routes[i]->takes(q))
        i++;
    return routes[i];
}
