/* Messages between the hosts of a job: one process on each, each knows all others.
 *
 * A message is a tag and bytes. The receiver says where they go before they are read, so a payload
 * is written once, where it belongs. Messages of one urgency between two hosts come in the order of
 * sending; a smaller urgency goes first, and waits for the chunks that the engine already has, one
 * with most engines. What is sent arrives once, or the host is lost: nothing is sent again, and
 * nobody reconnects. A host that says nothing for silence_ms is lost. Nothing is allocated after
 * sw_fabric_open.
 *
 * Thread rule: all but open and free may be called by any thread, also from a sink or a `done`;
 * these are called by threads of the engine, of the fabric and of senders, and never wait. */
#pragma once

#include "exchange/hosts/engine.h"

/* Kinds of messages: those of the fabric's users are below SW_FABRIC_KINDS; the rest is for the
 * fabric itself. */
enum { SW_FABRIC_KINDS = 32, SW_FABRIC_HELLO_BYTES = 4096 };

struct sw_fabric;

/* Who receives. Calls about one host come one at a time; no call about a host follows its `lost`.
 */
struct sw_fabric_sink {
    /* Sets *to to room for exactly `bytes`, looked up, never allocated. bytes 0: *to is not used.
     * An error loses the sender. */
    int (*place)(void *user, int from, const struct sw_fabric_tag *tag, size_t bytes, void **to,
                 struct sw_err *err);
    /* The message is complete. An error loses the sender. */
    int (*arrived)(void *user, int from, const struct sw_fabric_tag *tag, void *data, size_t bytes,
                   struct sw_err *err);
    /* The host is gone, by no leave of its own; once per host. `why` names it; its code is
     * SW_ERR_LOST, or that of the error with which the host ended (sw_fabric_abort). */
    void (*lost)(void *user, int host, const struct sw_err *why);
    void *user;
};

/* A clock other than the system's; whoever owns it must call the wire's tick (engine.h). */
struct sw_fabric_clock {
    int64_t (*monotonic_ns)(void *user);
    int64_t (*wall_ns)(void *user); /* since 1970 */
    void *user;
};

struct sw_fabric_args {
    const struct sw_hosts *hosts; /* borrowed for the life of the fabric */
    const unsigned char *key;     /* [SW_FABRIC_KEY_BYTES]; NULL: the network is trusted */
    /* What all must agree on, as lines "field=value" of printable characters (hello.h), at most
     * SW_FABRIC_HELLO_BYTES - 256 bytes; copied. */
    const void *hello;
    size_t hello_bytes;
    int connect_ms, beat_ms, silence_ms; /* 0: 30000, 500, 4000 */
    int room;                            /* messages to one host that can be under way; 0: 1024 */
    int64_t bytes_per_s; /* most that this host sends, to all others together; 0: no limit */
    /* Borrowed during open, may be NULL: is told of strangers who connected (SW_LOG_WARN), and
     * after a few seconds, and then every minute, which hosts are awaited (SW_LOG_INFO). */
    struct sw_log *log;
    struct sw_fabric_sink sink;
    const void *conf;                    /* borrowed by the engine, which says what it is */
    const struct sw_fabric_clock *clock; /* borrowed for the life of the fabric; NULL: the system's
                                            clocks, and a thread for the beats */
};

struct sw_traffic {
    uint64_t sent_messages, sent_bytes, received_messages, received_bytes; /* without heads */
};

/* Returns when all hosts are connected and agree. Sinks may be called before it returns. Errors:
 * SW_ERR_INVALID (names both hosts and the field in which they differ), SW_ERR_NOTFOUND (names who
 * did not come, or had another key), SW_ERR_LOST (who went away meanwhile), SW_ERR_IO,
 * SW_ERR_LIBRARY, SW_ERR_NOMEM, or that of another host that could not begin. */
int sw_fabric_open(const struct sw_fabric_engine *e, const struct sw_fabric_args *args,
                   struct sw_fabric **out, struct sw_err *err) SW_MUST_CHECK;
/* Never waits. data stays as it is until done(user, SW_OK or SW_ERR_CANCELLED), which may be called
 * before this returns; SW_OK says that the data is not needed any more, not that it arrived. done
 * may be NULL; it is not called when this returns an error. Errors: SW_ERR_LOST (that host is
 * gone), SW_ERR_CANCELLED (closed, or one of the two leaves), SW_ERR_INVALID (no such host or
 * kind), SW_ERR_BUSY (a bug of the caller: more is under way than args.room). */
int sw_fabric_send(struct sw_fabric *f, int to, const struct sw_fabric_tag *tag, const void *data,
                   size_t bytes, void (*done)(void *user, int rc), void *user,
                   struct sw_err *err) SW_MUST_CHECK;
/* Somebody waits (+1), no longer (-1): an engine that must poll polls without naps meanwhile. */
void sw_fabric_await(struct sw_fabric *f, int change);
/* Bit h: host h is neither lost nor has it left. The own host's is set. */
uint64_t sw_fabric_alive(const struct sw_fabric *f);
/* That host's wall clock less host 0's, and how far that may be wrong; *error_ns < 0: not known
 * yet. */
void sw_fabric_clock(const struct sw_fabric *f, int host, int64_t *offset_ns, int64_t *error_ns);
/* What went to a host and came from it so far; kind -1: all kinds. */
struct sw_traffic sw_fabric_traffic(const struct sw_fabric *f, int host, int kind);

/* Ends in order: nothing more is sent; returns when all that was sent is out, and all other hosts
 * have left as well or are lost. What they send meanwhile still arrives. Errors: SW_ERR_LOST after
 * timeout_ms, which names who did not leave; SW_ERR_CANCELLED (closed). */
int sw_fabric_leave(struct sw_fabric *f, int timeout_ms, struct sw_err *err) SW_MUST_CHECK;
/* Ends because of an error, which all other hosts get as the reason why this one is lost; without
 * that they would name this host and not the cause. Waits at most timeout_ms until it is out;
 * messages that are under way are not waited for. May follow sw_fabric_close_v. */
void sw_fabric_abort(struct sw_fabric *f, const struct sw_err *why, int timeout_ms);
/* Ends the wait of sw_fabric_leave; nothing is sent or received any more, and no loss is told. For
 * sw_fault_attach. */
void sw_fabric_close_v(void *fabric);
/* Closes, and calls done(SW_ERR_CANCELLED) for what is still under way. Not from a sink. NULL is
 * accepted. */
void sw_fabric_free(struct sw_fabric *f);
