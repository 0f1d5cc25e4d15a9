/* A build without OpenSSL: hosts can only be connected without a key. */
#include "exchange/hosts/tcp.h"
#include "exchange/hosts/tcp_tls.h"

#include <errno.h>

bool sw_tcp_has_tls(void)
{
    return false;
}

int sw_tls_context_new(const unsigned char *key, size_t bytes, struct sw_tls_context **out,
                       struct sw_err *err)
{
    return sw_err_set(
        err, SW_ERR_UNSUPPORTED,
        "this program was built without OpenSSL and cannot encrypt what hosts send to "
        "each other: install it (Debian: libssl-dev) and build again, or set "
        "network = trusted where nobody else can reach the network");
}

void sw_tls_context_free(struct sw_tls_context *c)
{
}

int sw_tls_new(struct sw_tls_context *c, int fd, bool connects, struct sw_tls **out,
               struct sw_err *err)
{
    return sw_err_set(err, SW_ERR_UNSUPPORTED, "a build without TLS");
}

void sw_tls_free(struct sw_tls *s)
{
}

int sw_tls_handshake(struct sw_tls *s, short *events, struct sw_err *err)
{
    return sw_err_set(err, SW_ERR_UNSUPPORTED, "a build without TLS");
}

ssize_t sw_tls_read(struct sw_tls *s, void *to, size_t bytes)
{
    errno = ENOTSUP;
    return -1;
}

ssize_t sw_tls_write(struct sw_tls *s, const void *from, size_t bytes)
{
    errno = ENOTSUP;
    return -1;
}
