/* The ways between the devices of a machine: copies from one straight to another, copies by way of
 * the host, and sums by their library. Which of them are sound is tried before they are used
 * (boards exist on which bytes arrive damaged, or never), by bytes and numbers that are compared
 * (device/trial.h), in a process of its own that is killed when it hangs. What was found is kept in
 * the state directory, file ways, and holds for these devices at these places with this driver.
 *
 * One owner; the main thread. Frozen once they are found. */
#pragma once

#include "base/err.h"
#include "base/log.h"
#include "machine/machine.h"

enum { SW_WAYS_DEVICES = 64 };

enum sw_way_state {
    SW_WAY_UNKNOWN, /* not tried */
    SW_WAY_SOUND,
    SW_WAY_NONE,    /* there is no such way */
    SW_WAY_DAMAGED, /* what arrives, or comes out, is wrong */
    SW_WAY_HANGS,
    SW_WAY_FAILS,
};

struct sw_way {
    enum sw_way_state state;
    double gb_per_s, latency_us; /* of a sound one */
    double tried_at;             /* seconds since 1970 */
    char why[160];               /* it is not sound */
};

struct sw_ways {
    int count;             /* of the devices */
    char (*name)[16];      /* owned [count]: "cuda:0" */
    struct sw_way *direct; /* owned [count][count]: from, to */
    struct sw_way *staged; /* likewise, by way of the host: tried where direct is not sound */
    struct sw_way sum;     /* by the library of all of them */
};

struct sw_driver;
struct sw_ways_args {
    const struct sw_driver *driver; /* of the devices */
    const char *options;            /* of the device request */
    const struct sw_machine
        *machine;       /* devices on the bus: the driver's list was matched with it */
    const int *indices; /* [count]: the devices' numbers, each once; NULL: the first */
    int count;          /* 1 to SW_WAYS_DEVICES */
    bool sums;          /* try those, too */
    bool look;          /* only what is kept: nothing is tried, nothing written */
    bool anew;          /* tries all, whatever is kept */
    int timeout_ms;     /* of a trial; 0: a default */
};

/* Errors: SW_ERR_NOMEM. What could not be tried is unknown, and says why. */
int sw_ways_find(const struct sw_ways_args *args, struct sw_ways **out,
                 struct sw_err *err) SW_MUST_CHECK;
void sw_ways_free(struct sw_ways *w); /* NULL is accepted */

static inline const struct sw_way *sw_ways_direct(const struct sw_ways *w, int from, int to)
{
    return &w->direct[from * w->count + to];
}
static inline const struct sw_way *sw_ways_staged(const struct sw_ways *w, int from, int to)
{
    return &w->staged[from * w->count + to];
}
/* Are both directions between the two sound, without the host? */
bool sw_ways_reach(const struct sw_ways *w, int a, int b);
/* The first way that is not as it should be (direct copies that are not sound though there are
 * some; staged ones; sums), NULL: there is none. */
const struct sw_way *sw_ways_worst(const struct sw_ways *w);
/* "sound", "none", "damaged" ... */
const char *sw_way_state_name(enum sw_way_state s);
