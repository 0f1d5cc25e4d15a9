/* Transfers over links whose throughput they share, on a virtual clock. Transfers are fluid: on
 * each link the most urgent ones progress first, and those of equal urgency share what is left
 * (max-min fairness); of these at most SW_PLANSIM_ADMITTED at a time, the others wait in the order
 * of their begin, as messages do in queues. An urgent transfer first waits for the chunk that is on
 * the link. Rates are computed again only where the set of transfers changes: from the link of the
 * change to the transfers that share a link with it, and down to less urgent ones as long as what
 * is left to them changes. One thread. */
#pragma once

#include "planner/simulate_events.h"

enum { SW_PLANSIM_ADMITTED = 8, SW_PLANSIM_CHUNK = 256 << 10 /* bytes */ };

/* What a transfer crosses. Links without a limit are left out. */
struct sw_plansim_path {
    struct sw_plansim_use {
        int link;
        double weight; /* bytes on the link per byte of the transfer, at most 1 */
    } * use;           /* owned [count] */
    int count;
    double bytes;     /* on the busiest link, for each unit of what is transferred */
    double latency_s; /* before the first byte; of a copy where `copies` are counted */
    double limit;     /* most bytes per second, where copies follow one another; INFINITY: none */
    double rate;      /* bytes per second of a transfer that has all links for itself */
    double copies;    /* that a device queues one after the other for a unit; 0: these are messages,
                         whose latencies overlap */
};

struct sw_plansim_links {
    struct sw_plansim_link *link; /* owned [links] */
    struct sw_plansim_cell *cell; /* owned [links][levels] */
    uint64_t *present;            /* owned [links][words]: bits of levels with transfers */
    uint64_t *active;             /* likewise of levels whose transfers use the link */
    int links, levels;
    int most;   /* transfers of a level that share a link at a time */
    int serial; /* the level whose transfers have a link one after the other; -1: none */
    struct sw_plansim_transfer *transfer; /* owned [count]; ended ones are used again */
    int64_t count, capacity;
    int first_unused; /* -1: none */
    int *first_dirty; /* owned [levels]: list of links; -1: none */
    int *found_link;  /* owned [links]: of the component whose rates are being computed */
    int *found;       /* owned [capacity]: its transfers */
    int found_links, found_count;
    uint64_t stamp; /* numbers components */
    double now_s;
};

/* capacity [links]: bytes per second, positive or INFINITY. Urgencies are 0 (first) to levels - 1;
 * all are shared until `serial` is set.
 * Free with sw_plansim_links_fini in every case. Errors: SW_ERR_NOMEM. */
int sw_plansim_links_init(struct sw_plansim_links *l, const double *capacity, int links, int levels,
                          struct sw_err *err) SW_MUST_CHECK;
void sw_plansim_links_fini(struct sw_plansim_links *l);

/* How long a transfer waits for the less urgent chunk that is now on one of its links. */
double sw_plansim_links_chunk_s(const struct sw_plansim_links *l,
                                const struct sw_plansim_path *path, int level, double now_s);
/* Begins a transfer over a path with links, which is borrowed; `owner` is returned at its end.
 * Errors: SW_ERR_NOMEM. */
struct sw_plansim_load {
    double bytes;    /* above 0 */
    double copies_s; /* the links are also occupied so long, without bytes */
    int level, owner;
};
int sw_plansim_links_begin(struct sw_plansim_links *l, const struct sw_plansim_path *path,
                           const struct sw_plansim_load *load, double now_s,
                           struct sw_err *err) SW_MUST_CHECK;
/* Takes an event SW_PLANSIM_TRANSFER: true, with the transfer's owner, if it has ended. */
bool sw_plansim_links_end(struct sw_plansim_links *l, const struct sw_plansim_event *event,
                          int *owner);
/* Computes the rates after all beginnings and ends of this moment, and adds events of the ends that
 * come next. Errors: SW_ERR_NOMEM. */
int sw_plansim_links_settle(struct sw_plansim_links *l, double now_s,
                            struct sw_plansim_events *events, struct sw_err *err) SW_MUST_CHECK;
/* Seconds for which the link was busy with transfers that have ended. */
double sw_plansim_links_busy_s(const struct sw_plansim_links *l, int link);
