/* Beats: every host sends every other one each beat_ms, over the same connection as everything
 * else. A host of which nothing has come for silence_ms is lost. The answer to a beat carries the
 * other host's wall clock: half a round trip ago it showed that time, give or take half a round
 * trip, and of the last SW_FABRIC_SAMPLES answers the one with the shortest trip counts. Only the
 * own monotonic clock measures silence. */
#include "exchange/hosts/fabric_private.h"

/* How long this process was itself stopped, or too busy for its own tick: nobody is blamed for that
 * time. */
static int64_t own_pause_ns(struct sw_fabric *f, int64_t now_ns)
{
    int64_t beat_ns = (int64_t)f->args.beat_ms * 1000000, passed = now_ns - f->ticked_ns;

    f->ticked_ns = now_ns;
    return passed > 2 * beat_ns ? passed - beat_ns : 0;
}

/* Sends the host a beat. Returns whether it has been silent for too long. */
static bool beat(struct sw_fabric *f, int host, int64_t now_ns, int64_t pause_ns)
{
    struct sw_peer *p = &f->peers[host];
    int64_t silence_ns = (int64_t)f->args.silence_ms * 1000000;

    if (p->lost)
        return false;

    p->heard_ns += pause_ns;
    p->heard_ns = p->heard_ns < now_ns ? p->heard_ns : now_ns;
    if (f->opened && !p->left && now_ns - p->heard_ns > silence_ns)
        return true;

    sw_fabric_want(f, host, SW_CONTROL_BEAT, 0);
    return false;
}

void sw_fabric_tick(void *fabric)
{
    struct sw_fabric *f = fabric;
    uint64_t silent = 0;

    sw_mutex_lock(&f->lock);

    int64_t now_ns = sw_fabric_now(f), pause_ns = own_pause_ns(f, now_ns);
    for (int i = 0; i < f->count; i++)
        if (i != f->own && beat(f, i, now_ns, pause_ns))
            silent |= (uint64_t)1 << i;

    sw_cond_broadcast(&f->changed); /* waits with a time limit look at the clock */
    sw_mutex_unlock(&f->lock);

    for (int i = 0; i < f->count; i++) {
        struct sw_err why;

        if (!(silent >> i & 1))
            continue;

        sw_err_set(&why, SW_ERR_LOST, "nothing was heard from it for %.1f s",
                   f->args.silence_ms / 1e3);
        sw_fabric_lose(f, i, &why);
    }
}

/* ---- Clocks ---- */

void sw_fabric_sample(struct sw_fabric *f, int host, int64_t sent_ns, int64_t wall_ns)
{
    struct sw_peer *p = &f->peers[host];
    int64_t now_ns = sw_fabric_now(f);

    /* The other host may send any numbers: those that can be true are far from an overflow. */
    if (sent_ns <= 0 || sent_ns > now_ns || wall_ns < 0 || wall_ns > INT64_MAX / 2)
        return;

    int64_t trip_ns = now_ns - sent_ns;
    p->sample[p->samples++ % SW_FABRIC_SAMPLES] =
        (struct sw_clock_sample){.known = true,
                                 .trip_ns = trip_ns,
                                 .offset_ns = wall_ns - (sw_fabric_wall(f) - trip_ns / 2)};
    p->samples = p->samples % SW_FABRIC_SAMPLES;
}

/* The wall clock of a host less the own one. */
static struct sw_clock_sample offset_of(const struct sw_fabric *f, int host)
{
    struct sw_clock_sample best = {.known = host == f->own};

    for (int i = 0; host != f->own && i < SW_FABRIC_SAMPLES; i++) {
        const struct sw_clock_sample *s = &f->peers[host].sample[i];
        if (s->known && (!best.known || s->trip_ns < best.trip_ns))
            best = *s;
    }

    return best;
}

void sw_fabric_clock(const struct sw_fabric *f, int host, int64_t *offset_ns, int64_t *error_ns)
{
    sw_mutex_lock(sw_fabric_lock(f));
    struct sw_clock_sample that = offset_of(f, host), first = offset_of(f, 0);
    sw_mutex_unlock(sw_fabric_lock(f));

    bool known = that.known && first.known;
    *offset_ns = host == 0 || !known ? 0 : that.offset_ns - first.offset_ns;
    *error_ns = host == 0 ? 0 : known ? (that.trip_ns + first.trip_ns + 1) / 2 : -1;
}
