/* Detects stalls from the roles' slots and threads, and finds the culprit and its victim. Each
 * check is compared with the previous one. */
#include "monitor/watchdog.h"

#include "base/os.h"

enum { TIMES_LONGEST = 4, TIMES_STOP = 12 };
static const int64_t second_ns = 1000000000, least_ns = 4 * second_ns, start_ns = 60 * second_ns,
                     stopped_ns = 2 * second_ns, /* until a stopped thread is reported */
    most_ns = second_ns / 2;                     /* counted per check */

/* Certainty of a culprit, ascending: a more certain stall replaces a reported one. */
enum certainty {
    CERTAINTY_NONE,    /* no stall */
    CERTAINTY_WAITER,  /* it waits, and no other culprit is found */
    CERTAINTY_SILENT,  /* it works, without a heartbeat */
    CERTAINTY_ENDED,   /* its thread has ended */
    CERTAINTY_OTHER,   /* a thread that belongs to no role is stopped: training may continue */
    CERTAINTY_STOPPED, /* its thread is stopped */
};

/* State of a role at the last check. */
struct role {
    int64_t heartbeat_ns, since_ns;
    int64_t quiet_ns;  /* counted time since the last heartbeat */
    bool raises_limit; /* its silence raises the limit of its phase */
    enum sw_phase phase;
};

struct sw_watchdog {
    struct sw_watchdog_args args;
    struct role *role_count;       /* owned */
    int64_t checked_ns;            /* 0: never */
    int64_t longest_ns[SW_PHASES]; /* longest silence that ended, by phase */
    enum certainty reported;       /* certainty of the reported stall; CERTAINTY_NONE: none */
    bool stopping;                 /* the run is being stopped because of it */
    struct sw_stall stall;
    int64_t stop_ns; /* when the stall must end the run */
};

/* Inputs of one check. */
struct view {
    const struct sw_watchdog *d;
    const struct sw_slot_state *slots;
    const struct sw_thread_state *threads;
};

int sw_watchdog_new(const struct sw_watchdog_args *args, struct sw_watchdog **out,
                    struct sw_err *err)
{
    struct sw_watchdog *d = sw_calloc(1, sizeof *d);
    struct role *role_count = sw_calloc((size_t)args->role_count, sizeof *role_count);
    if (!d || !role_count) {
        sw_free(d);
        sw_free(role_count);
        return sw_err_nomem(err, "the watchdog", (size_t)args->role_count * sizeof *role_count);
    }

    d->args = *args;
    d->role_count = role_count;
    *out = d;

    return SW_OK;
}

void sw_watchdog_free(struct sw_watchdog *d)
{
    if (!d)
        return;
    sw_free(d->role_count);
    sw_free(d);
}

/* ---- One role ---- */

static bool is_idle(const struct sw_slot_state *s)
{
    return s->wait.kind == SW_WAIT_TURN ||
           (s->wait.kind == SW_WAIT_NONE &&
            (s->phase == SW_PHASE_IDLE || s->phase == SW_PHASE_PAUSED));
}

/* Working, or waiting for its own device, and not for another role. */
static bool works(const struct sw_slot_state *s)
{
    return !is_idle(s) && (s->wait.kind == SW_WAIT_NONE || s->wait.kind == SW_WAIT_DEVICE);
}

/* Work that cannot send heartbeats, though nothing is wrong. */
static bool may_be_silent(const struct sw_slot_state *s, const struct sw_thread_state *t)
{
    return works(s) && (t->activity == SW_THREAD_UNKNOWN || s->wait.kind == SW_WAIT_DEVICE ||
                        s->phase == SW_PHASE_READ || s->phase == SW_PHASE_CHECKPOINT ||
                        s->phase == SW_PHASE_START);
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t limit_of(const struct view *l, int u)
{
    const struct sw_slot_state *s = &l->slots[u];
    int64_t limit_ns = least_ns;

    if (l->d->args.stall_ns > 0)
        return l->d->args.stall_ns;

    if (may_be_silent(s, &l->threads[u]))
        limit_ns = larger(limit_ns, TIMES_LONGEST * l->d->longest_ns[s->phase]);
    return s->phase == SW_PHASE_START ? larger(limit_ns, start_ns) : limit_ns;
}

/* A checkpoint on a slow disk is reported as soon as any stall, but stops the run later. */
static int64_t stop_limit_of(const struct view *l, int u)
{
    int64_t limit_ns = limit_of(l, u);
    if (l->d->args.stall_ns > 0)
        return TIMES_STOP * limit_ns;

    if (l->slots[u].phase == SW_PHASE_CHECKPOINT)
        limit_ns = larger(limit_ns, start_ns);
    return larger(TIMES_STOP * limit_ns, start_ns);
}

static bool is_stalled(const struct view *l, int u)
{
    return !is_idle(&l->slots[u]) && l->d->role_count[u].quiet_ns >= limit_of(l, u);
}

static bool is_down(const struct sw_thread_state *t)
{
    return t->activity == SW_THREAD_STOPPED || t->activity == SW_THREAD_ENDED;
}

/* Returns true if it has sent a heartbeat since the last check. */
static bool count_silence(struct sw_watchdog *d, const struct view *l, int i, int64_t passed_ns)
{
    const struct sw_slot_state *s = &l->slots[i];
    const enum sw_activity activity = l->threads[i].activity;
    struct role *u = &d->role_count[i];
    bool moved = s->heartbeat_ns != u->heartbeat_ns || s->since_ns != u->since_ns;
    bool alive = moved || (activity == SW_THREAD_COMPUTES && works(s));

    if (alive && u->raises_limit)
        d->longest_ns[u->phase] = larger(d->longest_ns[u->phase], u->quiet_ns);

    u->heartbeat_ns = s->heartbeat_ns;
    u->since_ns = s->since_ns;
    u->phase = s->phase;
    u->raises_limit = may_be_silent(s, &l->threads[i]) && !is_down(&l->threads[i]);

    if (alive || is_idle(s))
        u->quiet_ns = 0;
    else if (activity != SW_THREAD_STARVED)
        u->quiet_ns += passed_ns;

    return alive;
}

/* ---- Finding the culprit ---- */

/* The end of the chain of waits from role u; a stopped or ended thread waits for no other. In a
 * cycle it is an arbitrary member: all of them are blocked. */
static int follow(const struct view *l, int u)
{
    const struct sw_watchdog_args *a = &l->d->args;

    for (int hops = 0; hops < a->role_count && !is_down(&l->threads[u]); hops++) {
        int next = a->blocker(a->user, l->slots, u);
        if (next < 0 || next == u)
            break;
        u = next;
    }

    return u;
}

/* A server or reader that sleeps and reports to be idle. */
static bool is_resting(const struct view *l, int u)
{
    const struct sw_slot_state *s = &l->slots[u];
    return u >= l->d->args.workers && s->phase == SW_PHASE_IDLE &&
           l->threads[u].activity == SW_THREAD_ASLEEP;
}

/* Certainty that role u, at the end of the waits of a stalled role, is the culprit. */
static enum certainty blame(const struct view *l, int u, int waiter)
{
    const struct role *role_count = l->d->role_count;

    if (l->threads[u].activity == SW_THREAD_ENDED)
        return CERTAINTY_ENDED;
    if (is_stalled(l, u) && works(&l->slots[u]))
        return CERTAINTY_SILENT;

    bool long_enough = is_stalled(l, u) ? role_count[u].quiet_ns >= 2 * limit_of(l, u)
                                        : role_count[waiter].quiet_ns >= 2 * limit_of(l, waiter);
    return (is_stalled(l, u) || is_resting(l, u)) && long_enough ? CERTAINTY_WAITER
                                                                 : CERTAINTY_NONE;
}

/* How long the culprit has been down or silent or, if it reports to be idle, has been waited for.
 */
static int64_t quiet_of(const struct view *l, int culprit, int waiter)
{
    if (is_down(&l->threads[culprit]))
        return l->threads[culprit].for_ns;
    return l->d->role_count[is_idle(&l->slots[culprit]) ? waiter : culprit].quiet_ns;
}

/* Finds a stopped thread: preferably a role's, and of these the one stopped for longest. */
static enum certainty find_stopped(const struct view *l, bool *any, struct sw_stall *out)
{
    enum certainty best = CERTAINTY_NONE;
    int64_t limit_ns = l->d->args.stall_ns;

    if (limit_ns == 0 || limit_ns > stopped_ns)
        limit_ns = stopped_ns;

    *any = false;
    for (int u = 0; u < l->d->args.role_count; u++) {
        const struct sw_thread_state *t = &l->threads[u];
        enum certainty sure =
            u < l->d->args.role_count - l->d->args.others ? CERTAINTY_STOPPED : CERTAINTY_OTHER;
        bool is_stopped = t->activity == SW_THREAD_STOPPED;

        *any = *any || is_stopped;
        if (!is_stopped || t->for_ns < limit_ns || sure < best ||
            (sure == best && t->for_ns <= out->quiet_ns))
            continue;

        best = sure;
        *out = (struct sw_stall){.culprit = u, .victim = u, .quiet_ns = t->for_ns};
    }

    return best;
}

/* The most certain culprit of the stalled roles, and of these the one silent for longest. */
static enum certainty find_silent(const struct view *l, struct sw_stall *out)
{
    enum certainty best = CERTAINTY_NONE;

    for (int u = 0; u < l->d->args.role_count; u++) {
        if (!is_stalled(l, u))
            continue;

        int culprit = follow(l, u);
        enum certainty sure = blame(l, culprit, u);
        int64_t quiet_ns = quiet_of(l, culprit, u);
        if (sure == CERTAINTY_NONE || sure < best || (sure == best && quiet_ns <= out->quiet_ns))
            continue;

        best = sure;
        *out = (struct sw_stall){.culprit = culprit, .victim = culprit, .quiet_ns = quiet_ns};
    }

    return best;
}

/* The role that has waited longest for the culprit or for another role of its thread; the culprit
 * if none waits. */
static int find_victim(const struct view *l, int culprit)
{
    const int thread = l->threads[culprit].id;
    int victim = culprit;
    int64_t most = 0;

    for (int u = 0; u < l->d->args.role_count; u++) {
        int64_t quiet_ns = l->d->role_count[u].quiet_ns;
        if (u == culprit || quiet_ns <= most)
            continue;

        int end = follow(l, u);
        if (end != culprit && (end == u || thread == 0 || l->threads[end].id != thread))
            continue;

        most = quiet_ns;
        victim = u;
    }

    return victim;
}

static enum certainty find_stall(const struct view *l, struct sw_stall *out)
{
    bool any_stopped;
    enum certainty sure = find_stopped(l, &any_stopped, out);

    if (!any_stopped)
        sure = find_silent(l, out);
    if (sure != CERTAINTY_NONE)
        out->victim = find_victim(l, out->culprit);

    return sure;
}

/* ---- Reporting ---- */

/* Does the stall block training? A thread that belongs to no role may not. */
static bool does_harm(const struct view *l, const struct sw_stall *s)
{
    bool harm = !is_idle(&l->slots[s->culprit]);
    for (int u = 0; u < l->d->args.role_count && !harm; u++)
        harm = is_stalled(l, u);
    return harm;
}

/* Is the reported stall over? alive: its culprit or its victim has sent a heartbeat. */
static bool is_over(const struct view *l, bool alive)
{
    const int culprit = l->d->stall.culprit;
    if (l->d->reported >= CERTAINTY_ENDED)
        return !is_down(&l->threads[culprit]);
    return alive || (l->d->reported == CERTAINTY_SILENT && is_idle(&l->slots[culprit]));
}

/* Restarts all clocks, because the waiting roles need time too. */
static void end_stall(struct sw_watchdog *d)
{
    for (int u = 0; u < d->args.role_count; u++)
        d->role_count[u].quiet_ns = 0;
    d->reported = CERTAINTY_NONE;
    d->stopping = d->stall.stop = false;
}

/* Must the reported stall end the run? */
static bool is_to_stop(const struct view *l)
{
    const struct sw_watchdog *d = l->d;

    if (d->args.shared && !works(&l->slots[d->stall.culprit]))
        return false;

    bool late = d->args.on_stall == SW_ON_STALL_STOP || d->stall.quiet_ns >= d->stop_ns;
    return d->args.on_stall != SW_ON_STALL_WARN && late && does_harm(l, &d->stall);
}

static enum sw_stall_news judge(struct sw_watchdog *d, const struct view *l, bool alive)
{
    struct sw_stall found = {0};

    if (d->reported != CERTAINTY_NONE && is_over(l, alive)) {
        end_stall(d);
        return SW_STALL_ENDS;
    }

    enum certainty sure = find_stall(l, &found);
    bool begins = sure > d->reported;
    if (begins) {
        d->stall = found;
        d->reported = sure;
        d->stopping = false;
        d->stop_ns = stop_limit_of(l, found.culprit);
    } else if (d->reported != CERTAINTY_NONE) {
        d->stall.quiet_ns = quiet_of(l, d->stall.culprit, d->stall.victim);
    }

    if (d->reported == CERTAINTY_NONE || d->stopping || !is_to_stop(l))
        return begins ? SW_STALL_BEGINS : SW_STALL_NONE;

    d->stopping = d->stall.stop = true;
    return begins ? SW_STALL_BEGINS : SW_STALL_LASTS;
}

enum sw_stall_news sw_watchdog_check(struct sw_watchdog *d, const struct sw_slot_state *slots,
                                     const struct sw_thread_state *threads, int64_t now_ns,
                                     struct sw_stall *stall)
{
    const struct view l = {d, slots, threads};
    int64_t passed_ns = d->checked_ns ? now_ns - d->checked_ns : 0;
    bool alive = false;

    d->checked_ns = now_ns;
    if (passed_ns > most_ns)
        passed_ns = most_ns;

    for (int u = 0; u < d->args.role_count; u++)
        if (count_silence(d, &l, u, passed_ns) &&
            (u == d->stall.culprit || (d->reported == CERTAINTY_WAITER && u == d->stall.victim)))
            alive = true;

    enum sw_stall_news news = judge(d, &l, alive);
    *stall = d->stall;
    return news;
}
