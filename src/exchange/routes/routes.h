/* All routes, one file each; the header of a file says what it does. */
#pragma once

#include "exchange/route.h"

extern const struct sw_route sw_route_table, sw_route_constant, sw_route_local, sw_route_all_reduce,
    sw_route_factors, sw_route_mirror, sw_route_mirror_factors, sw_route_server_sum,
    sw_route_server_sum_factors;
