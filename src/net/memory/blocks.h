/* Blocks of a net's arena: lifetimes as ranges of ops of an execution order, and offsets. Private
 * to net/: memory.c makes the plan, fit.c evaluates other residencies of activations. One owner. */
#pragma once

#include "net/memory/memory.h"

struct sw_block {
    size_t bytes;    /* whole pages */
    int first, last; /* ops, inclusive */
    int number;      /* order of creation */
    int64_t *offset; /* receives the final offset */
    int64_t at;
    bool in_scratch; /* in the scratch */
};

struct sw_blocks {
    const struct sw_net_aliases *aliases; /* borrowed */
    const struct sw_branch_order *order;  /* borrowed; NULL: passes run one after the other */
    bool separate_scratch;                /* memory used during one call may be in the scratch */
    struct sw_block *block;               /* owned */
    int count;
    int *last_forward, *last_backward; /* owned work arrays */
};

/* Allocates the blocks, without lifetimes. Errors: SW_ERR_NOMEM. */
int sw_blocks_init(struct sw_blocks *b, const struct sw_net_aliases *aliases,
                   const struct sw_branch_order *order, bool separate_scratch,
                   struct sw_err *err) SW_MUST_CHECK;
void sw_blocks_fini(struct sw_blocks *b); /* a zeroed one is accepted */
/* Collects the blocks that a step with this execution order needs; their offsets become
 * SW_NO_OFFSET. */
void sw_blocks_find(struct sw_blocks *b, const struct sw_exec_order *s, struct sw_net_memory *m);
/* Places all blocks and writes their offsets; returns the bytes of the arena. */
size_t sw_blocks_place(struct sw_blocks *b, size_t *scratch_bytes);
/* Size of a block, rounded up to whole pages. */
size_t sw_block_bytes(size_t bytes);
