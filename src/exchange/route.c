/* The registry of routes (routes/routes.h) and the choice of one. */
#include "exchange/routes/routes.h"

#define ROUTE(name) &sw_route_##name,
static const struct sw_route *const routes[] = {SW_ROUTES(ROUTE) NULL};
_Static_assert(sizeof routes / sizeof *routes <= SW_MOST_ROUTES, "every route has room for state");

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
