/* Movements of activations and of their gradients inside a group: sent as soon as all senders have
 * their parts, and awaited by the layers that read them. */
#include "planner/simulate_private.h"

static int owner_of(const struct sw_plansim *s, const struct sw_plansim_move *m, int group,
                    int direction)
{
    return s->exchanges + ((int)(m - s->move) * s->groups + group) * 2 + direction;
}

/* Workers of a group that have a part. */
static int holders(const struct sw_plansim *s, struct sw_distribution d)
{
    return d.dist == SW_DIST_ONE ? 1 : s->size;
}

static int senders(const struct sw_plansim *s, const struct sw_plansim_move *m, int direction)
{
    if (direction == 0)
        return m->parent < 0 ? holders(s, m->from) : 1;
    return m->back_children + (m->back_reader >= 0 ? holders(s, m->to) : 0);
}

/* One of the senders has its part of that step. */
static int arrive(struct sw_plansim *s, struct sw_plansim_move *m, int group, int direction,
                  int64_t step, struct sw_err *err)
{
    const struct sw_plansim_path *path = m->path[direction][group];
    struct sw_plansim_crossing *c = &m->crossing[direction][group];
    int owner = owner_of(s, m, group, direction);
    if (++c->arrived[step % 2] < senders(s, m, direction))
        return SW_OK;

    c->arrived[step % 2] = 0;
    c->begun++;
    c->begun_s = s->now_s;

    if (path->count > 0)
        return sw_plansim_ask(s, path, SW_PLANSIM_MOVES, owner, err);
    if (m->copy_s == 0)
        return sw_plansim_move_ended(s, owner, err);
    return sw_plansim_events_push(&s->events,
                                  (struct sw_plansim_event){.time_s = s->now_s + m->copy_s,
                                                            .kind = SW_PLANSIM_COPY,
                                                            .index = owner},
                                  err);
}

int sw_plansim_send(struct sw_plansim *s, int worker, int layer, int direction, struct sw_err *err)
{
    const struct sw_plansim_worker *w = &s->worker[worker];

    for (int i = 0; i < s->moves; i++) {
        struct sw_plansim_move *m = &s->move[i];
        bool sends = direction == 0 ? m->source == layer && m->parent < 0
                                    : m->has_back && m->back_reader == layer;

        int rc = sends ? arrive(s, m, w->group, direction, w->step, err) : SW_OK;
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

static struct sw_plansim_move *move_of(const struct sw_plansim *s, int owner, int *group,
                                       int *direction)
{
    int index = owner - s->exchanges;

    *direction = index % 2;
    *group = index / 2 % s->groups;
    return &s->move[index / 2 / s->groups];
}

int sw_plansim_move_begin(struct sw_plansim *s, int owner, struct sw_err *err)
{
    int group, direction;
    const struct sw_plansim_move *m = move_of(s, owner, &group, &direction);
    const struct sw_plansim_path *path = m->path[direction][group];

    return sw_plansim_links_begin(
        &s->links, path,
        &(struct sw_plansim_load){.bytes = m->bytes[direction] * path->bytes,
                                  .copies_s = path->copies * path->latency_s,
                                  .level = SW_PLANSIM_MOVES,
                                  .owner = owner},
        s->now_s, err);
}

int sw_plansim_move_ended(struct sw_plansim *s, int owner, struct sw_err *err)
{
    int group, direction, rc = SW_OK;
    struct sw_plansim_move *m = move_of(s, owner, &group, &direction);
    int64_t step = ++m->crossing[direction][group].done;

    for (int i = 0; i < s->size; i++)
        sw_plansim_wake(s, group * s->size + i);

    if (direction == 1)
        return m->parent < 0 ? SW_OK : arrive(s, &s->move[m->parent], group, 1, step, err);

    for (int i = 0; i < s->moves && rc == SW_OK; i++)
        if (s->move[i].parent == (int)(m - s->move))
            rc = arrive(s, &s->move[i], group, 0, step, err);
    return rc;
}

const struct sw_plansim_crossing *sw_plansim_awaited(const struct sw_plansim *s,
                                                     const struct sw_plansim_worker *w, int layer,
                                                     int direction)
{
    for (int i = 0; i < s->moves; i++) {
        const struct sw_plansim_move *m = &s->move[i];
        const struct sw_plansim_crossing *c = &m->crossing[direction][w->group];
        bool waits = direction == 0 ? m->reader == layer
                                    : m->has_back && m->source == layer && m->parent < 0;

        if (waits && c->done < w->step)
            return c;
    }

    return NULL;
}
