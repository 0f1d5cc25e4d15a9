#include "train/watchdog.h"

#include "base/os.h"

enum { TIMES_LONGEST = 4, TIMES_STOP = 12 };
static const int64_t second_ns = 1000000000, least_ns = 5 * second_ns, start_ns = 60 * second_ns,
                     most_ns = second_ns / 2; /* that one look counts for */

/* What the last look saw of a unit. */
struct unit {
    int64_t heartbeat_ns, since_ns;
    int64_t quiet_ns; /* since the last sign of life, as counted here */
    bool works;       /* and waits for no other */
};

struct sw_watchdog {
    struct sw_watchdog_args args;
    struct unit *units;  /* owned */
    int64_t looked_ns;   /* 0: never */
    int64_t longest_ns;  /* that a unit has worked in silence, and then went on */
    bool told, stopping; /* of the stall that lasts */
    struct sw_stall stall;
    int64_t stop_ns; /* when that one lasts too long */
};

int sw_watchdog_new(const struct sw_watchdog_args *args, struct sw_watchdog **out,
                    struct sw_err *err)
{
    struct sw_watchdog *d = sw_calloc(1, sizeof *d);
    struct unit *units = sw_calloc((size_t)args->units, sizeof *units);
    if (!d || !units) {
        sw_free(d);
        sw_free(units);
        return sw_err_nomem(err, "the watchdog", (size_t)args->units * sizeof *units);
    }
    d->args = *args;
    d->units = units;
    *out = d;
    return SW_OK;
}

void sw_watchdog_free(struct sw_watchdog *d)
{
    if (!d)
        return;
    sw_free(d->units);
    sw_free(d);
}

static bool is_idle(const struct sw_slot_state *s)
{
    return s->wait.kind == SW_WAIT_TURN ||
           (s->wait.kind == SW_WAIT_NONE &&
            (s->phase == SW_PHASE_IDLE || s->phase == SW_PHASE_PAUSED));
}

/* Does its silence say how long work may take? That of one that waits for others does not. */
static bool works(const struct sw_slot_state *s)
{
    return !is_idle(s) && (s->wait.kind == SW_WAIT_NONE || s->wait.kind == SW_WAIT_DEVICE);
}

static int64_t limit_of(const struct sw_watchdog *d, const struct sw_slot_state *s)
{
    int64_t limit_ns = TIMES_LONGEST * d->longest_ns;
    if (d->args.stall_ns > 0)
        return d->args.stall_ns;
    limit_ns = limit_ns > least_ns ? limit_ns : least_ns;
    return s->phase == SW_PHASE_START && limit_ns < start_ns ? start_ns : limit_ns;
}

/* A disk may take its time over a checkpoint: that is told as soon as anything, but is no reason to
 * throw the run away. */
static int64_t stop_limit_of(const struct sw_watchdog *d, const struct sw_slot_state *s)
{
    int64_t limit_ns = limit_of(d, s);
    if (s->phase == SW_PHASE_CHECKPOINT && d->args.stall_ns == 0 && limit_ns < start_ns)
        limit_ns = start_ns;
    return TIMES_STOP * limit_ns;
}

static bool stands(const struct sw_watchdog *d, const struct sw_slot_state *slots, int u)
{
    return !is_idle(&slots[u]) && d->units[u].quiet_ns >= limit_of(d, &slots[u]);
}

static void learn(struct sw_watchdog *d, int64_t quiet_ns)
{
    if (quiet_ns > d->longest_ns)
        d->longest_ns = quiet_ns;
}

/* True when it has given a sign of life since the last look. */
static bool count_silence(struct sw_watchdog *d, const struct sw_slot_state *s, struct unit *u,
                          int64_t passed_ns)
{
    bool alive = s->heartbeat_ns != u->heartbeat_ns || s->since_ns != u->since_ns;
    if (alive && u->works)
        learn(d, u->quiet_ns);
    u->heartbeat_ns = s->heartbeat_ns;
    u->since_ns = s->since_ns;
    u->works = works(s);
    u->quiet_ns = alive || is_idle(s) ? 0 : u->quiet_ns + passed_ns;
    return alive;
}

/* The end of the waits that begin with unit u. In a circle it is the last one before the first
 * comes again, or so: whoever it is, nobody in it will ever go on. */
static int follow(const struct sw_watchdog *d, const struct sw_slot_state *slots, int u)
{
    for (int hops = 0; hops < d->args.units; hops++) {
        int next = d->args.blocker(d->args.user, slots, u);
        if (next < 0 || next == u)
            break;
        u = next;
    }
    return u;
}

/* The culprit that stands longest, and who has waited longest for it. */
static bool find_stall(const struct sw_watchdog *d, const struct sw_slot_state *slots,
                       struct sw_stall *out)
{
    bool found = false;
    for (int u = 0; u < d->args.units; u++) {
        if (!stands(d, slots, u))
            continue;
        int culprit = follow(d, slots, u);
        int64_t quiet_ns = d->units[culprit].quiet_ns;
        if (!stands(d, slots, culprit))
            continue;
        bool other = !found || culprit != out->culprit;
        if (other && found && quiet_ns <= out->quiet_ns)
            continue;
        bool nobody = other || out->victim == culprit;
        if (nobody || (u != culprit && d->units[u].quiet_ns > d->units[out->victim].quiet_ns))
            *out = (struct sw_stall){.culprit = culprit, .victim = u, .quiet_ns = quiet_ns};
        found = true;
    }
    return found;
}

/* A stall that was told: is it over, or too long by now? */
static enum sw_stall_news look_again(struct sw_watchdog *d, const struct sw_slot_state *slots,
                                     bool alive)
{
    struct sw_stall *s = &d->stall;
    if (alive || is_idle(&slots[s->culprit])) {
        learn(d, s->quiet_ns);
        d->told = d->stopping = false;
        s->stop = false;
        return SW_STALL_ENDS;
    }
    s->quiet_ns = d->units[s->culprit].quiet_ns;
    if (d->args.on_stall == SW_ON_STALL_WARN || d->stopping || s->quiet_ns < d->stop_ns)
        return SW_STALL_NONE;
    d->stopping = s->stop = true;
    return SW_STALL_LASTS;
}

enum sw_stall_news sw_watchdog_look(struct sw_watchdog *d, const struct sw_slot_state *slots,
                                    int64_t now_ns, struct sw_stall *stall)
{
    int64_t passed_ns = d->looked_ns ? now_ns - d->looked_ns : 0;
    enum sw_stall_news news = SW_STALL_NONE;
    bool alive = false;
    d->looked_ns = now_ns;
    if (passed_ns > most_ns)
        passed_ns = most_ns;
    for (int u = 0; u < d->args.units; u++)
        if (count_silence(d, &slots[u], &d->units[u], passed_ns) && u == d->stall.culprit)
            alive = true;
    if (d->told) {
        news = look_again(d, slots, alive);
    } else if (find_stall(d, slots, &d->stall)) {
        d->told = true;
        d->stop_ns = stop_limit_of(d, &slots[d->stall.culprit]);
        d->stopping = d->stall.stop = d->args.on_stall == SW_ON_STALL_STOP;
        news = SW_STALL_BEGINS;
    }
    *stall = d->stall;
    return news;
}
