/* A curve in a fixed number of points: when the array is full, neighboring points are merged in
 * pairs. Each point keeps the minimum and maximum of the values behind it. The contract is in
 * ui/trail.h. */
#include "ui/trail.h"

#include "base/os.h"
#include <math.h>

int sw_trail_init(struct sw_trail *f, size_t capacity, struct sw_err *err)
{
    *f = (struct sw_trail){.capacity = capacity, .last_x = NAN, .last_y = NAN, .per_point = 1};
    f->points = sw_calloc(capacity, sizeof *f->points);
    return f->points ? SW_OK : sw_err_nomem(err, "curve", capacity * sizeof *f->points);
}

void sw_trail_fini(struct sw_trail *f)
{
    sw_free(f->points);
    *f = (struct sw_trail){0};
}

void sw_trail_clear(struct sw_trail *f)
{
    f->count = 0;
    f->per_point = 1;
    f->in_last = 0;
    f->last_x = f->last_y = NAN;
}

/* Merges b, which follows a; the weights are the numbers of values behind each. */
static struct sw_point merge(const struct sw_point *a, double wa, const struct sw_point *b,
                             double wb)
{
    if (isnan(a->y) || isnan(b->y)) {
        struct sw_point one = isnan(a->y) ? *b : *a;
        one.x = a->x;
        return one;
    }

    /* This form gives the mean of equal values without rounding. */
    return (struct sw_point){a->x, a->y + wb / (wa + wb) * (b->y - a->y), fmin(a->lo, b->lo),
                             fmax(a->hi, b->hi)};
}

static void halve(struct sw_trail *f)
{
    for (size_t i = 0; i < f->count / 2; i++)
        f->points[i] = merge(&f->points[2 * i], 1, &f->points[2 * i + 1], 1);
    f->count /= 2;
    f->per_point *= 2;
    f->in_last = f->per_point;
}

void sw_trail_add(struct sw_trail *f, double x, double y)
{
    struct sw_point one = {x, isfinite(y) ? y : (double)NAN, y, y};

    one.lo = one.hi = one.y;
    f->last_x = x;

    f->last_y = y;
    if (f->count > 0 && f->in_last < f->per_point) {
        struct sw_point *last = &f->points[f->count - 1];
        *last = merge(last, (double)f->in_last++, &one, 1);
        return;
    }

    if (f->count == f->capacity)
        halve(f);
    f->points[f->count++] = one;
    f->in_last = 1;
}

const struct sw_point *sw_trail_near(const struct sw_trail *f, double x)
{
    size_t low = 0, high = f->count;

    while (low < high) {
        size_t mid = (low + high) / 2;
        if (f->points[mid].x < x)
            low = mid + 1;
        else
            high = mid;
    }

    if (f->count == 0)
        return NULL;

    if (low == f->count || (low > 0 && x - f->points[low - 1].x <= f->points[low].x - x))
        low--;
    return &f->points[low];
}
