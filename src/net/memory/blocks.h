/* Blocks of a net's arena: lives on the line of ops of an execution order, and places. Private to
 * net/: memory.c makes the plan, fit.c asks what other residency of features would take. One owner.
 */
#pragma once

#include "net/memory/memory.h"

struct sw_block {
    size_t bytes;    /* whole pages */
    int first, last; /* ops, inclusive */
    int number;      /* in the order in which they were found */
    int64_t *offset; /* where the answer goes */
    int64_t at;
    bool in_scratch; /* in the scratch */
};

struct sw_blocks {
    const struct sw_net_aliases *aliases; /* borrowed */
    const struct sw_branch_order *order;  /* borrowed; NULL: passes run one after the other */
    bool separate_scratch;                /* what lives for one call may lie in the scratch */
    struct sw_block *block;               /* owned */
    int count;
    int *last_forward, *last_backward; /* owned, for work */
};

/* Errors: SW_ERR_NOMEM. */
int sw_blocks_init(struct sw_blocks *b, const struct sw_net_aliases *aliases,
                   const struct sw_branch_order *order, bool separate_scratch,
                   struct sw_err *err) SW_MUST_CHECK;
void sw_blocks_fini(struct sw_blocks *b); /* a zeroed one is accepted */
/* The blocks that a step of this execution order takes; the offsets become SW_NO_OFFSET. */
void sw_blocks_find(struct sw_blocks *b, const struct sw_exec_order *s, struct sw_net_memory *m);
/* Gives each its place, and the memory its offsets; returns the bytes of the arena. */
size_t sw_blocks_place(struct sw_blocks *b, size_t *scratch_bytes);
/* What a block of so many bytes takes: whole pages. */
size_t sw_block_bytes(size_t bytes);
