/* How hosts of engine `tcp` find and connect to each other (tcp.h). One thread serves all
 * connections meanwhile, none of which blocks it. */
#pragma once

#include "exchange/hosts/engine.h"
#include "exchange/hosts/tcp_socket.h"

/* The two connections with a host. */
struct sw_tcp_pair {
    struct sw_tcp_stream in, out;
};

/* Fills pair [hosts], but not that of the own host, with streams that block, which the caller then
 * owns. *listener: owned by the caller; -1: none yet; -1 again when it is closed. context: NULL for
 * connections that are not encrypted. Errors: those of sw_fabric_engine.open, and SW_ERR_INVALID
 * for hosts of different jobs, SW_ERR_CANCELLED (stop.h). */
int sw_tcp_meet(const struct sw_fabric_wire *up, struct sw_tls_context *context, int *listener,
                struct sw_tcp_pair *pair, struct sw_err *err) SW_MUST_CHECK;
