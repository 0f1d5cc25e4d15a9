/* Peer links between the devices of a machine: direct copies, copies through the host, and the
 * all-reduce of their library. Each is tested before use, because on some boards bytes arrive
 * damaged or never: a child process (device/probe.h) transfers known data and compares it, and is
 * killed if it hangs. The results are saved in the state directory, file `ways`, and are valid for
 * these devices at these bus addresses with this driver; a link that hung is tested again when it
 * would be given more time.
 *
 * One owner: the main thread. Frozen after sw_peer_links_find. */
#pragma once

#include "base/err.h"
#include "base/log.h"
#include "machine/machine.h"

enum { SW_PEER_LINKS_DEVICES = 64 };

enum sw_peer_link_state {
    SW_PEER_LINK_UNKNOWN, /* not tested */
    SW_PEER_LINK_SOUND,
    SW_PEER_LINK_NONE,    /* the hardware does not support it */
    SW_PEER_LINK_DAMAGED, /* the received data or the result is wrong */
    SW_PEER_LINK_HANGS,
    SW_PEER_LINK_FAILS,
};

struct sw_peer_link {
    enum sw_peer_link_state state;
    double gb_per_s, latency_us; /* if sound */
    double tried_at;             /* seconds since 1970 */
    char why[160];               /* why it is not sound */
};

struct sw_peer_links {
    int count;                   /* number of devices */
    char (*name)[16];            /* owned [count]: "cuda:0" */
    struct sw_peer_link *direct; /* owned [count][count]: from, to */
    struct sw_peer_link
        *staged; /* same shape, copies through the host: tested if direct ones are not sound */
    struct sw_peer_link sum;  /* all-reduce of all devices by their library */
    struct sw_peer_link self; /* does the device itself compute correctly? */
};

struct sw_driver;
struct sw_peer_links_args {
    const struct sw_driver *driver;   /* of the devices */
    const char *options;              /* of the device request */
    const struct sw_machine *machine; /* devices on the bus are matched with its GPUs */
    const int *indices; /* [count]: device numbers without duplicates; NULL: the first `count` */
    int count;          /* 1 to SW_PEER_LINKS_DEVICES */
    bool self;       /* test the only device itself: a call each, so that none waits for another */
    bool sums;       /* also test the all-reduce */
    bool saved_only; /* use saved results only: test nothing and write nothing */
    bool retest;     /* test everything, ignoring saved results */
    int timeout_ms;  /* of one test; 0: the default */
};

/* Finds the state of all links. Errors: SW_ERR_NOMEM. A link that could not be tested is UNKNOWN,
 * with the reason in why. */
int sw_peer_links_find(const struct sw_peer_links_args *args, struct sw_peer_links **out,
                       struct sw_err *err) SW_MUST_CHECK;
void sw_peer_links_free(struct sw_peer_links *w); /* NULL is accepted */

static inline const struct sw_peer_link *sw_peer_links_direct(const struct sw_peer_links *w,
                                                              int from, int to)
{
    return &w->direct[from * w->count + to];
}
static inline const struct sw_peer_link *sw_peer_links_staged(const struct sw_peer_links *w,
                                                              int from, int to)
{
    return &w->staged[from * w->count + to];
}
/* Are direct copies between the two sound in both directions? */
bool sw_peer_links_reach(const struct sw_peer_links *w, int a, int b);
/* The first faulty link (staged copies first, then direct ones, then the all-reduce), or NULL. */
const struct sw_peer_link *sw_peer_links_worst(const struct sw_peer_links *w);
/* "sound", "none", "damaged" ... */
const char *sw_peer_link_state_name(enum sw_peer_link_state s);
