/* All routes, in order: the first one that takes a parameter carries it. `table` takes every
 * parameter of a worker in host memory; `factors` must precede `local`, each -factors route the one
 * without; `mirror` takes the rest. Each is in the file of its name, but for the two that send
 * factors to servers: server_factors.c. */
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
