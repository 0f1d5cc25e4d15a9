/* Lanes and clocks of the race detector; race.h has the rules. Operations that the host has waited
 * for are dropped from clocks, so a clock has no more entries than there are streams with
 * operations in flight. */
#include "base/os.h"
#include "device/sim/sim_private.h"
#include <stdio.h>

struct sw_sim_lane *sw_sim_lane_new(const char *device)
{
    struct sw_sim_lane *lane = sw_calloc(1, sizeof *lane);
    if (!lane)
        return NULL;

    lane->owners = 1;
    snprintf(lane->device, sizeof lane->device, "%s", device);
    return lane;
}

static struct sw_sim_lane *retain(struct sw_sim_lane *lane)
{
    __atomic_add_fetch(&lane->owners, 1, __ATOMIC_RELAXED);
    return lane;
}

void sw_sim_lane_drop(struct sw_sim_lane *lane)
{
    if (lane && __atomic_sub_fetch(&lane->owners, 1, __ATOMIC_ACQ_REL) == 0)
        sw_free(lane);
}

void sw_sim_lane_name(struct sw_sim_lane *lane, const char *name)
{
    snprintf(lane->name, sizeof lane->name, "%s", name);
}

uint64_t sw_sim_lane_known(const struct sw_sim_lane *lane)
{
    return __atomic_load_n(&lane->known, __ATOMIC_ACQUIRE);
}

void sw_sim_lane_know(struct sw_sim_lane *lane, uint64_t upto)
{
    uint64_t known = __atomic_load_n(&lane->known, __ATOMIC_RELAXED);
    while (known < upto && !__atomic_compare_exchange_n(&lane->known, &known, upto, true,
                                                        __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
}

void sw_sim_use_set(struct sw_sim_use *u, const struct sw_sim_use *from)
{
    struct sw_sim_lane *old = u->lane;

    *u = *from;
    if (u->lane)
        retain(u->lane);
    sw_sim_lane_drop(old);
}

/* ---- Clocks ---- */

uint64_t sw_sim_clock_of(const struct sw_sim_clock *c, const struct sw_sim_lane *lane)
{
    uint64_t known = sw_sim_lane_known(lane);

    for (int i = 0; i < c->count; i++)
        if (c->ticks[i].lane == lane)
            return c->ticks[i].upto > known ? c->ticks[i].upto : known;

    return known;
}

/* Removes entries that the host has waited for. */
static void prune(struct sw_sim_clock *c)
{
    int kept = 0;

    for (int i = 0; i < c->count; i++) {
        struct sw_sim_tick t = c->ticks[i];
        if (t.upto > sw_sim_lane_known(t.lane))
            c->ticks[kept++] = t;
        else
            sw_sim_lane_drop(t.lane);
    }

    c->count = kept;
}

int sw_sim_clock_add(struct sw_sim_clock *c, struct sw_sim_lane *lane, uint64_t upto,
                     struct sw_err *err)
{
    if (upto <= sw_sim_lane_known(lane))
        return SW_OK;

    for (int i = 0; i < c->count; i++) {
        if (c->ticks[i].lane != lane)
            continue;
        c->ticks[i].upto = upto > c->ticks[i].upto ? upto : c->ticks[i].upto;
        return SW_OK;
    }

    if (c->count == c->room)
        prune(c);

    int rc = sw_grow(&c->ticks, sizeof *c->ticks, c->count, &c->room, 4,
                     "clock of a simulated stream", err);
    if (rc != SW_OK)
        return rc;

    c->ticks[c->count++] = (struct sw_sim_tick){retain(lane), upto};
    return SW_OK;
}

int sw_sim_clock_merge(struct sw_sim_clock *c, const struct sw_sim_clock *other, struct sw_err *err)
{
    for (int i = 0; i < other->count; i++) {
        int rc = sw_sim_clock_add(c, other->ticks[i].lane, other->ticks[i].upto, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

void sw_sim_clock_clear(struct sw_sim_clock *c)
{
    for (int i = 0; i < c->count; i++)
        sw_sim_lane_drop(c->ticks[i].lane);
    c->count = 0;
}

void sw_sim_clock_fini(struct sw_sim_clock *c)
{
    sw_sim_clock_clear(c);
    sw_free(c->ticks);
}

void sw_sim_clock_know(const struct sw_sim_clock *c)
{
    for (int i = 0; i < c->count; i++)
        sw_sim_lane_know(c->ticks[i].lane, c->ticks[i].upto);
}
