/* All routes, in order of preference: a parameter takes the first one that accepts it. `table`
 * accepts every parameter of a worker in host memory; `factors` must precede `local`, and each
 * -factors route the one without; `mirror` accepts the rest. Each route is in the file of its name,
 * except for the two that send factors to servers: server_factors.c. */
#pragma once

#include "exchange/route.h"

#define SW_ROUTES(ROW)                                                                             \
    ROW(table)                                                                                     \
    ROW(constant)                                                                                  \
    ROW(factors)                                                                                   \
    ROW(local)                                                                                     \
    ROW(all_reduce)                                                                                \
    ROW(server_sum_factors)                                                                        \
    ROW(server_sum)                                                                                \
    ROW(mirror_factors)                                                                            \
    ROW(mirror)

#define SW_DECLARE_ROUTE(name) extern const struct sw_route sw_route_##name;
SW_ROUTES(SW_DECLARE_ROUTE)
#undef SW_DECLARE_ROUTE
