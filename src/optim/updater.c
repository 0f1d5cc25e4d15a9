/* The common part of all updates: a range is divided into blocks for the threads of the OpenMP
 * team, and a block into pieces that fit the cache. For each piece the workers' gradients are
 * reduced and clipped, and the updater's loop runs. If other threads use the arrays at the same
 * time (Hogwild), the loop works on copies and the differences are added
 * (kernels/cpu/hogwild.h). */
#include "optim/updater.h"
#include "kernels/cpu/hogwild.h"
#include "optim/gather.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

enum {
    /* 64 KiB of each array: large enough to outweigh the cost of scheduling a block. */
    BLOCK = 16384,
    /* Elements that are summed at a time: the sum stays in the L1 cache until the formula reads it
     * and is never written to memory. */
    PIECE = SW_FOLD_PIECE,
    /* Elements that are updated at a time with Hogwild: the copies fit the L1 cache. */
    SHARED_PIECE = 1024,
};

const struct sw_opt sw_updater_opts[] = {
    SW_OPT(REAL, struct sw_updater_conf, lr, "learning rate before the policy", .min = 0,
           .max = INFINITY, .required = true),
    SW_OPT(REAL, struct sw_updater_conf, weight_decay,
           "fraction of the value that is added to its gradient (L2)", .def = "0", .min = 0,
           .max = INFINITY),
    SW_OPT(INT, struct sw_updater_conf, warmup, "steps of linear warm-up to the rate of the policy",
           .def = "0", .min = 0, .max = INFINITY),
    SW_OPT(REAL, struct sw_updater_conf, warmup_start, "rate at the start of the warm-up",
           .def = "0", .min = 0, .max = INFINITY),
    {0},
};

const struct sw_opt sw_updater_override_opts[] = {
    SW_OPT(REAL, struct sw_updater_override, lr_mult, "factor of the learning rate", .def = "1",
           .min = 0, .max = INFINITY),
    SW_OPT(REAL, struct sw_updater_override, decay_mult, "factor of the weight decay", .def = "1",
           .min = 0, .max = INFINITY),
    SW_OPT(STRINGS, struct sw_updater_override, stages,
           "stages of the run in which it applies, by name or pattern; default: all"),
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

/* An array of a block, and copies of it before and after the update. */
struct shared_array {
    float *shared;
    _Alignas(64) float before[SHARED_PIECE], after[SHARED_PIECE]; /* cache lines */
};

static float *copy_shared(struct shared_array *r, float *shared, int64_t n)
{
    r->shared = shared;
    sw_hogwild_take(shared, r->after, r->before, n);
    return r->after;
}

/* Runs the formula on copies and adds the changes to the shared arrays, which may have changed
 * meanwhile. */
static bool update_shared(const struct sw_update_block *b, sw_update_loop *loop,
                          const void *constants)
{
    struct shared_array arrays[1 + SW_UPDATER_SLOTS];
    bool bad = false;

    for (int64_t from = 0, n; from < b->count; from += n) {
        struct sw_update_block own = {.gradient = b->gradient + from,
                                      .gradient_scale = b->gradient_scale};
        int count = 0;

        n = b->count - from < SHARED_PIECE ? b->count - from : SHARED_PIECE;
        own.count = n;
        own.value = copy_shared(&arrays[count++], b->value + from, n);
        for (int s = 0; s < SW_UPDATER_SLOTS && b->slot[s]; s++)
            own.slot[s] = copy_shared(&arrays[count++], b->slot[s] + from, n);
        bad = loop(constants, &own) || bad;
        for (int i = 0; i < count; i++)
            sw_hogwild_add(arrays[i].shared, arrays[i].after, arrays[i].before, n);
    }

    return bad;
}

/* Updates at most PIECE elements whose gradient is summed. */
static bool update_piece(const struct sw_update_args *a, struct sw_update_block *b,
                         sw_update_loop *loop, const void *constants)
{
    float clipped[PIECE];
    bool bad = false;

    if (a->clip_value > 0) {
        bad = sw_gather_clip(clipped, b->gradient, a->clip_value, b->count);
        b->gradient = clipped;
    }

    return (a->shared ? update_shared(b, loop, constants) : loop(constants, b)) || bad;
}

/* Updates a range whose gradient must be summed or clipped first, or which is shared, piece by
 * piece. */
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
        bad = update_piece(a, &b, loop, constants) || bad;
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

/* Updates the part that is in the range of the row at a place of the list. */
static bool update_row(const struct sw_update_args *a, int64_t place, sw_update_loop *loop,
                       const void *constants)
{
    const int64_t row = a->listed->row[place] * a->row_elements - a->first;
    const int64_t end = row + a->row_elements < a->count ? row + a->row_elements : a->count;
    bool bad = false;

    for (int64_t from = row < 0 ? 0 : row, next; from < end; from = next) {
        next = from + PIECE < end ? from + PIECE : end;

        struct sw_update_block b = block_of(a, from, next);
        b.gradient = a->gradient + place * a->row_elements + (from - row);
        bad = update_piece(a, &b, loop, constants) || bad;
    }

    return bad;
}

static bool update_listed(const struct sw_update_args *a, sw_update_loop *loop,
                          const void *constants)
{
    const int64_t n = a->listed->count;
    bool bad = false;

#pragma omp parallel for schedule(static) reduction(|| : bad) if (n * a->row_elements > BLOCK)
    for (int64_t i = 0; i < n; i++)
        bad = update_row(a, i, loop, constants) || bad;

    return bad;
}

static bool update_all(const struct sw_update_args *a, sw_update_loop *loop, const void *constants)
{
    int64_t blocks = (a->count + BLOCK - 1) / BLOCK;
    bool bad = false;

#pragma omp parallel for schedule(static) reduction(|| : bad) if (blocks > 1)
    for (int64_t b = 0; b < blocks; b++) {
        int64_t from = b * BLOCK, to = from + BLOCK < a->count ? from + BLOCK : a->count;
        bad = update(a, from, to, loop, constants) || bad;
    }

    return bad;
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

    if (a->listed ? update_listed(a, formula->loop, constants)
                  : update_all(a, formula->loop, constants))
        *a->non_finite = true;
}

void sw_updater_apply(const struct sw_updater *u, const void *conf, const struct sw_update_args *a)
{
    u->apply(conf, a);
}
