/* Engine `tcp`: two connections per pair of hosts, one each way, each with a thread that blocks in
 * it. With a key every connection is TLS 1.3: the key is an external pre-shared key, beside an
 * exchange of elliptic-curve Diffie-Hellman keys, so that both sides prove the key and there are no
 * certificates. Without a key nothing is encrypted and nobody proves anything.
 *
 * Hosts meet at host 0, whose name or numeric address (IPv4 or IPv6) is sw_host.address of host 0;
 * those of others are not used. Each of them listens on a free port, connects to host 0 and tells
 * number and port; host 0 answers with the addresses of all, as it sees them. Sockets that listen
 * are closed when all are connected. Strangers who connect meanwhile are counted and closed.
 *
 * Thread rule: that of engine.h; sw_tcp_listen by any thread. */
#pragma once

#include "exchange/hosts/engine.h"

struct sw_tcp_conf { /* sw_fabric_args.conf */
    int listener;    /* host 0: a socket that listens, owned by the engine from open on, also when
                        it fails; -1: the engine opens one at `port`. Other hosts: not used */
    uint16_t port;   /* where host 0 listens */
    bool trusted;    /* without a key: hosts listen also on other addresses than loopback, namely
                        those by which they and host 0 reach each other */
};

/* Opens a socket that listens at a name or numeric address (NULL: all of this machine) and port (0:
 * a free one; *port says which). The caller owns *fd. Errors: SW_ERR_NOTFOUND (no such address),
 * SW_ERR_IO (in use, not an address of this machine). */
int sw_tcp_listen(const char *address, uint16_t *port, int *fd, struct sw_err *err) SW_MUST_CHECK;
/* Was this program built with TLS? Otherwise open with a key is SW_ERR_UNSUPPORTED. */
bool sw_tcp_has_tls(void);

extern const struct sw_fabric_engine sw_fabric_tcp;
