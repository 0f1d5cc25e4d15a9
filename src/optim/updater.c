/* The part of an update that all updaters share: a range is cut into blocks for the threads of the
 * OpenMP team, and within a block into pieces that fit the cache, in which the workers' gradients
 * are reduced, clipped and given to the updater's loop. Where others read and write the arrays
 * meanwhile (Hogwild), the loop works on copies and the differences are added
 * (kernels/cpu/hogwild.h). */
#include "optim/updater.h"
#include "kernels/cpu/hogwild.h"
#include "optim/gather.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

enum {
    /* 64 KiB of each array: a block outweighs the cost of handing it to a thread. */
    BLOCK = 16384,
    /* What is summed at a time: the sum stays in the first-level cache until the formula reads it,
     * and is never written to memory. */
    PIECE = SW_FOLD_PIECE,
    /* What is updated at a time where others do the same: copies fit the first-level cache. */
    RACE_PIECE = 1024,
};

const struct sw_opt sw_updater_opts[] = {
    {.key = "lr",
     .help = "learning rate before the policy",
     .type = SW_OPT_REAL,
     .offset = offsetof(struct sw_updater_conf, lr),
     .min = 0,
     .max = INFINITY,
     .required = true},
    {.key = "weight_decay",
     .help = "share of the value that is added to its gradient (L2)",
     .type = SW_OPT_REAL,
     .offset = offsetof(struct sw_updater_conf, weight_decay),
     .def = "0",
     .min = 0,
     .max = INFINITY},
    {.key = "warmup",
     .help = "steps on which the rate rises on a straight line to what the policy says",
     .type = SW_OPT_INT,
     .offset = offsetof(struct sw_updater_conf, warmup),
     .def = "0",
     .min = 0,
     .max = INFINITY},
    {.key = "warmup_start",
     .help = "rate at which the warm-up begins",
     .type = SW_OPT_REAL,
     .offset = offsetof(struct sw_updater_conf, warmup_start),
     .def = "0",
     .min = 0,
     .max = INFINITY},
    {0},
};

const struct sw_opt sw_updater_override_opts[] = {
    {.key = "lr_mult",
     .help = "factor of the learning rate",
     .type = SW_OPT_REAL,
     .offset = offsetof(struct sw_updater_override, lr_mult),
     .def = "1",
     .min = 0,
     .max = INFINITY},
    {.key = "decay_mult",
     .help = "factor of the weight decay",
     .type = SW_OPT_REAL,
     .offset = offsetof(struct sw_updater_override, decay_mult),
     .def = "1",
     .min = 0,
     .max = INFINITY},
    {.key = "stages",
     .help = "stages of the run for which it counts, by name or pattern; default: all",
     .type = SW_OPT_STRINGS,
     .offset = offsetof(struct sw_updater_override, stages)},
    {0},
};

int sw_updater_slots(const struct sw_updater *u, const void *conf)
{
    int n = 0;
    if (u->slots)
        return u->slots(conf);
    while (u->slot_names && u->slot_names[n])
        n++;
    return n;
}

static struct sw_update_block block_of(const struct sw_update_args *a, int64_t from, int64_t to)
{
    struct sw_update_block b = {.value = a->value + from,
                                .gradient = a->gradient + from,
                                .count = to - from,
                                .gradient_scale = a->gradient_scale};
    for (int s = 0; s < SW_UPDATER_SLOTS && a->slot[s]; s++)
        b.slot[s] = a->slot[s] + from;
    return b;
}

/* An array of a block, and what the formula makes of a copy of it. */
struct raced {
    float *shared;
    _Alignas(64) float before[RACE_PIECE], after[RACE_PIECE]; /* lines of the cache */
};

static float *take(struct raced *r, float *shared, int64_t n)
{
    r->shared = shared;
    sw_hogwild_take(shared, r->after, r->before, n);
    return r->after;
}

/* The formula works on copies, and what it changed is added to what is there by then. */
static bool race(const struct sw_update_block *b, sw_update_loop *loop, const void *constants)
{
    struct raced arrays[1 + SW_UPDATER_SLOTS];
    bool bad = false;
    for (int64_t from = 0, n; from < b->count; from += n) {
        struct sw_update_block own = {.gradient = b->gradient + from,
                                      .gradient_scale = b->gradient_scale};
        int count = 0;
        n = b->count - from < RACE_PIECE ? b->count - from : RACE_PIECE;
        own.count = n;
        own.value = take(&arrays[count++], b->value + from, n);
        for (int s = 0; s < SW_UPDATER_SLOTS && b->slot[s]; s++)
            own.slot[s] = take(&arrays[count++], b->slot[s] + from, n);
        bad = loop(constants, &own) || bad;
        for (int i = 0; i < count; i++)
            sw_hogwild_add(arrays[i].shared, arrays[i].after, arrays[i].before, n);
    }
    return bad;
}

/* The sum over several workers, or what clipping leaves, piece by piece. */
static bool update_pieces(const struct sw_update_args *a, int64_t from, int64_t to,
                          sw_update_loop *loop, const void *constants)
{
    float piece[PIECE], room[SW_FOLD_ROOM];
    bool bad = false;
    for (int64_t next; from < to; from = next) {
        next = from + PIECE < to ? from + PIECE : to;
        struct sw_update_block b = block_of(a, from, next);
        if (a->sum.count > 1)
            b.gradient = sw_kernel_fold_piece(&a->sum, from, b.count, piece, room);
        if (a->clip_value > 0) {
            bad = sw_gather_clip(piece, b.gradient, a->clip_value, b.count) || bad;
            b.gradient = piece;
        }
        bad = (a->shared ? race(&b, loop, constants) : loop(constants, &b)) || bad;
    }
    return bad;
}

static bool update(const struct sw_update_args *a, int64_t from, int64_t to, sw_update_loop *loop,
                   const void *constants)
{
    if (a->sum.count > 1 || a->clip_value > 0 || a->shared)
        return update_pieces(a, from, to, loop, constants);
    struct sw_update_block b = block_of(a, from, to);
    return loop(constants, &b);
}

void sw_update_blocks(const struct sw_update_args *a, const struct sw_update_formula *formula,
                      const void *constants)
{
    if (a->order) {
        a->order->formula = formula;
        if (formula->constants_bytes)
            memcpy(a->order->constants, constants, formula->constants_bytes);
        return;
    }
    int64_t blocks = (a->count + BLOCK - 1) / BLOCK;
    bool bad = false;

#pragma omp parallel for schedule(static) reduction(|| : bad) if (blocks > 1)
    for (int64_t b = 0; b < blocks; b++) {
        int64_t from = b * BLOCK, to = from + BLOCK < a->count ? from + BLOCK : a->count;
        bad = update(a, from, to, formula->loop, constants) || bad;
    }
    if (bad)
        *a->non_finite = true;
}

void sw_updater_apply(const struct sw_updater *u, const void *conf, const struct sw_update_args *a)
{
    u->apply(conf, a);
}
