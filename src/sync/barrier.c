#include "sync/barrier.h"

void sw_barrier_init(struct sw_barrier *b, int parties)
{
    *b = (struct sw_barrier){.parties = parties};
    sw_mutex_init(&b->lock);
    sw_cond_init(&b->changed);
}

void sw_barrier_fini(struct sw_barrier *b)
{
    sw_mutex_fini(&b->lock);
    sw_cond_fini(&b->changed);
}

int sw_barrier_wait(struct sw_barrier *b)
{
    int rc = SW_ERR_CANCELLED;
    sw_mutex_lock(&b->lock);
    unsigned mine = b->generation;
    if (!b->closed && ++b->waiting == b->parties) {
        b->waiting = 0;
        b->generation++;
        sw_cond_broadcast(&b->changed);
    }
    while (!b->closed && mine == b->generation)
        sw_cond_wait(&b->changed, &b->lock);
    /* A generation that filled before the close is a success for everyone in it. */
    if (mine != b->generation)
        rc = SW_OK;
    sw_mutex_unlock(&b->lock);
    return rc;
}

void sw_barrier_close(struct sw_barrier *b)
{
    sw_mutex_lock(&b->lock);
    b->closed = true;
    sw_cond_broadcast(&b->changed);
    sw_mutex_unlock(&b->lock);
}

void sw_barrier_close_v(void *barrier)
{
    sw_barrier_close(barrier);
}
