/* Partitions gradients into buckets, and orders these by simulating one link: whenever it is free
 * it takes, of the buckets that backward has completed by then, the one of the lowest layer. Pure
 * functions. */
#include "exchange/reduce/buckets.h"

#include <stdbool.h>

int sw_buckets_split(const struct sw_bucket_item *items, int count, int64_t bytes,
                     struct sw_bucket *out)
{
    int n = 0;
    bool open = false;

    for (int i = 0; i < count; i++) {
        if (!open)
            out[n++] = (struct sw_bucket){.first = i, .layer = items[i].layer};

        struct sw_bucket *b = &out[n - 1];
        b->count++;
        b->elements += items[i].elements;
        b->layer = items[i].layer < b->layer ? items[i].layer : b->layer;
        b->ready_s = items[i].ready_s;
        open = b->elements * (int64_t)sizeof(float) < bytes;
    }

    return n;
}

/* The bucket of the lowest layer among those that are complete and not yet taken; -1: none. */
static int most_urgent(const struct sw_bucket *b, int count, const int *order, int taken,
                       double now)
{
    int best = -1;

    for (int i = 0; i < count; i++) {
        bool gone = b[i].ready_s > now;
        for (int k = 0; k < taken && !gone; k++)
            gone = order[k] == i;
        if (!gone && (best < 0 || b[i].layer < b[best].layer))
            best = i;
    }

    return best;
}

/* Time at which the next bucket is complete: they are in the order of completion, so it is the
 * first one that is not taken. */
static double next_ready(const struct sw_bucket *b, int count, const int *order, int taken)
{
    for (int i = 0; i < count; i++) {
        bool gone = false;
        for (int k = 0; k < taken && !gone; k++)
            gone = order[k] == i;
        if (!gone)
            return b[i].ready_s;
    }

    return 0;
}

void sw_buckets_order(const struct sw_bucket *buckets, int count, double link_bytes_per_s,
                      int *order)
{
    double now = 0;

    for (int taken = 0; taken < count; taken++) {
        double ready = next_ready(buckets, count, order, taken);

        now = ready > now ? ready : now;

        int i = most_urgent(buckets, count, order, taken, now);
        order[taken] = i;
        now += (double)buckets[i].elements * (double)sizeof(float) / link_bytes_per_s;
    }
}
