/* What happens when a host is gone: the engine drops it, then all messages to it are cancelled,
 * then the sink is told, once. The steps are flags of the peer, because the thread that notices the
 * loss may not be the one that finishes: while another thread pushes a chunk to the host, that
 * thread settles the rest. */
#include "exchange/hosts/fabric_private.h"

void sw_fabric_fail(struct sw_fabric *f, const struct sw_err *why)
{
    if (f->failure.code == SW_OK)
        f->failure = *why;
    sw_cond_broadcast(&f->changed);
}

void sw_fabric_cancel(struct sw_fabric *f, int host)
{
    struct sw_peer *p = &f->peers[host];

    p->heap_count = p->begun = p->pushed_count = 0;
    for (int k = 0; k < SW_CONTROLS; k++)
        p->control[k] = (struct sw_control_slot){0};

    for (int i = 0; i < f->args.room; i++) {
        struct sw_outgoing m = p->out[i];
        if (!m.used)
            continue;

        p->out[i].used = false;
        p->free_list[p->free_count++] = i;
        if (!m.done)
            continue;

        sw_mutex_unlock(&f->lock);
        m.done(m.user, SW_ERR_CANCELLED);
        sw_mutex_lock(&f->lock);
    }
}

void sw_fabric_settle(struct sw_fabric *f, int host)
{
    struct sw_peer *p = &f->peers[host];

    if (!p->dropped || p->pumping || p->settled)
        return;

    p->settled = true;
    sw_fabric_cancel(f, host);
    if (!f->opened)
        sw_fabric_fail(f, &p->why);

    /* A host that leaves, or that was told to end, closes its connections. */
    bool tells = f->opened && !p->left && !f->aborting && !f->closed && f->args.sink.lost;

    sw_cond_broadcast(&f->changed);
    if (!tells)
        return;

    sw_mutex_unlock(&f->lock);
    f->args.sink.lost(f->args.sink.user, host, &p->why);
    sw_mutex_lock(&f->lock);
}

void sw_fabric_lose(struct sw_fabric *f, int host, const struct sw_err *why)
{
    struct sw_peer *p = &f->peers[host];

    sw_mutex_lock(&f->lock);

    bool first = !p->lost;
    void *link = f->link;
    if (first) {
        p->lost = true;
        sw_err_set(&p->why, why->code, "host %s: %s", sw_fabric_name(f, host), why->text);
    }

    sw_mutex_unlock(&f->lock);
    if (!first)
        return;

    /* Before the engine's open has returned it has no chunks, and a failed open ends everything. */
    if (link)
        f->engine->drop(link, host);

    sw_mutex_lock(&f->lock);
    p->dropped = true;
    sw_fabric_settle(f, host);
    sw_mutex_unlock(&f->lock);
}
