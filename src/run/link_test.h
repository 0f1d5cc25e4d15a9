/* Measures the network between the hosts of a job before it trains: a fabric of its own, over which
 * every host sends to every other one. In a round each host sends to one and receives from one, as
 * the exchange of gradients does; rounds begin together. One call per process, by any thread. */
#pragma once

#include "exchange/hosts/fabric.h"

enum {
    SW_LINK_TEST_BYTES = 64 << 20, /* in one direction */
    SW_LINK_FIGURES = 2,
};

struct sw_link {
    double bytes_per_s;
    double round_trip_s; /* of an empty message and its answer, the shortest of several */
};

struct sw_link_test_args {
    const struct sw_hosts *hosts; /* borrowed, like all below */
    const struct sw_fabric_engine *engine;
    const void *conf;                    /* of the engine */
    const unsigned char *key;            /* struct sw_fabric_args */
    const struct sw_fabric_clock *clock; /* of tests; NULL: the system's */
    size_t bytes; /* to send in one direction, at most; rounded up to messages */
    /* 0: all of `bytes` are sent. Else loads grow until the next one would take the whole test
     * longer than this. */
    double seconds;
    int64_t bytes_per_s; /* struct sw_fabric_args, like the next three */
    int connect_ms;
    struct sw_log *log;
    const char *hello; /* more of what all must agree on; NULL: nothing */
    /* [hosts][SW_LINK_FIGURES] of any meaning: those of the own host are told to all, and those of
     * the others are set; NULL: none, on all hosts. */
    double (*figures)[SW_LINK_FIGURES];
};

/* Fills links [hosts * hosts] on every host: the link from host i to host j is i * hosts + j; those
 * from a host to itself are zero. offset_ns and error_ns [hosts] are those of sw_fabric_clock, with
 * error_ns < 0 where they did not become known; they may be NULL. Errors: those of sw_fabric_open;
 * SW_ERR_LOST (names the host), SW_ERR_NOMEM. */
int sw_link_test(const struct sw_link_test_args *args, struct sw_link *links, int64_t *offset_ns,
                 int64_t *error_ns, struct sw_err *err) SW_MUST_CHECK;

/* Seconds that the sum of `parameters` floats over all hosts takes: each sends 2 (K-1)/K times
 * their bytes over the slowest link, in two hops (exchange/hosts/hosts_sum.h). */
double sw_link_exchange_s(const struct sw_link *links, int hosts, int64_t parameters);
