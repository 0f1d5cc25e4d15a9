/* Hands the messages of a fabric to several receivers, each of which has some kinds. Filled by one
 * thread before the fabric is opened, then frozen. */
#pragma once

#include "exchange/hosts/fabric.h"
#include "exchange/hosts/kinds.h"

enum { SW_FABRIC_SINKS = 10 };

struct sw_fabric_router {
    struct sw_fabric_sink sink[SW_FABRIC_SINKS];
    int count;
    signed char of_kind[SW_FABRIC_KINDS]; /* index of a sink, plus one; 0: none */
};

/* Adds a receiver of the kinds [first, first + kinds). All receivers are told of lost hosts, in the
 * order in which they were added. */
void sw_fabric_router_add(struct sw_fabric_router *r, int first, int kinds,
                          struct sw_fabric_sink sink);
/* A message of a kind that nobody has loses its sender. */
struct sw_fabric_sink sw_fabric_router_sink(struct sw_fabric_router *r);
