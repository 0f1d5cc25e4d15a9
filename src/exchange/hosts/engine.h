/* What moves the chunks of a fabric between hosts. An engine connects, moves chunks, and lets go;
 * order, limits, loss, clocks and silence are the fabric's (fabric.h), and the same for all
 * engines. tests/unit/exchange/test_fabric.c takes every engine through the same cases.
 *
 * An engine delivers the chunks of one urgency between two hosts in the order in which they were
 * pushed, each once. A connection that breaks ends for good. */
#pragma once

#include "base/log.h"
#include "exchange/hosts/frame.h"
#include "exchange/hosts/hosts.h"
#include <stdbool.h>

enum { SW_FABRIC_ABI = 2, SW_FABRIC_KEY_BYTES = 32 };

/* The fabric, as its engine sees it. The functions never wait. They are called without any lock
 * that push or drop takes, even from within push. */
struct sw_fabric_wire {
    const struct sw_hosts *hosts; /* borrowed */
    const unsigned char *key;     /* borrowed [SW_FABRIC_KEY_BYTES]; NULL: the network is trusted */
    const void *conf;             /* borrowed: sw_fabric_args.conf */
    struct sw_log *log;           /* borrowed during open: is told of strangers; may be NULL */
    int connect_ms, beat_ms, silence_ms;
    void *user; /* the first argument of all below */

    /* The head of a chunk of `from` has arrived: sets where its *bytes go (0: *to is not used). An
     * error: nothing more of that host is read; drop has been called if it was necessary. */
    int (*begin)(void *user, int from, const unsigned char head[SW_FRAME_HEAD], void **to,
                 size_t *bytes) SW_MUST_CHECK;
    /* And now the bytes have. An error: as above. For one `from`, begin and end are called in
     * turns, by one thread at a time. */
    int (*end)(void *user, int from) SW_MUST_CHECK;
    /* The engine does not need the oldest chunk that was pushed to the host any more, and has room
     * for another. */
    void (*sent)(void *user, int to);
    /* The connection to the host is broken. Called after all that it sent before was delivered, or
     * cannot be. */
    void (*failed)(void *user, int host, const struct sw_err *why);
    /* For engines with a clock of their own (sw_fabric_args.clock): call once per beat_ms. */
    void (*tick)(void *user);
    /* Does somebody wait for a message? Then an engine that polls does so without naps. */
    bool (*awaited)(void *user);
    /* For engines with a clock of their own: call pace when the clock shows paced_ns, which takes
     * no lock; INT64_MAX: never. */
    int64_t (*paced_ns)(void *user);
    void (*pace)(void *user);
};

struct sw_fabric_engine {
    uint32_t abi;  /* SW_FABRIC_ABI; first, because an engine may be in a module */
    bool ends_all; /* the end of one process ends those of all hosts */
    /* "tcp, TLS 1.3", "Open MPI 4.1.4". Returns out. */
    const char *(*name)(char *out, size_t bytes);
    /* Connects to all hosts, within connect_ms; `up` is borrowed until close. up->begin may be
     * called before open returns. Errors: SW_ERR_NOTFOUND (names who did not come, or had another
     * key), SW_ERR_IO, SW_ERR_LIBRARY, SW_ERR_NOMEM. */
    int (*open)(const struct sw_fabric_wire *up, void **link, struct sw_err *err) SW_MUST_CHECK;
    /* Takes one chunk, whose data it borrows until up->sent or drop. Never waits. SW_ERR_BUSY:
     * there is no room, and up->sent will be called when there is; any other error: the host is
     * lost, and up->failed is called or was. One thread at a time for each host. */
    int (*push)(void *link, int to, const struct sw_fabric_frame *head,
                const void *data) SW_MUST_CHECK;
    /* Ends the connection to a host. When drop returns, nothing of the host is read any more, no
     * data for it is needed, and none of the functions of the wire runs or will run for it, except
     * for the one that called drop. push to it is an error. */
    void (*drop)(void *link, int host);
    /* Ends everything; the same holds for all hosts. Not called from a function of the wire. */
    void (*close)(void *link);
};
