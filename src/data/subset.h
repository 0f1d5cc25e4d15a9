/* Which records of a format a [data] section takes, and in which order they lie: the keys `part`,
 * `part_seed` and `streams`, the same for every format. Sections that read the same files can so
 * share them without a record in common. Plain value without pointers, any thread. */
#pragma once

#include "base/err.h"
#include "data/permute.h"
#include "recipe/option.h"
#include <stdbool.h>
#include <stdint.h>

struct sw_subset {
    int64_t first, count; /* places [first, first + count) of all records */
    int64_t streams;      /* 0: none */
    bool mixed;           /* places go through mix, which is over all records */
    struct sw_permutation mix;
};

/* part: empty (all), or from and to: up to 1 they are shares of all records, above 1 numbers of
 * records; `to` itself is not taken. The same number ends one section's part and begins another's.
 * seed: 0 cuts the records in their order, another number cuts a permutation of them, which depends
 * on nothing but the number and how many records there are.
 * streams: 0, or S: the taken records are cut into S runs of equal length (what is left over at the
 * end is not taken), and place i is record i / S of run i % S. So row r of every batch of S rows
 * goes on where row r of the batch before ended.
 * Errors: SW_ERR_INVALID naming the key. */
int sw_subset_init(struct sw_subset *s, const struct sw_reals *part, int64_t seed, int64_t streams,
                   int64_t records, struct sw_err *err) SW_MUST_CHECK;

/* The record at a place, 0 .. count-1. */
int64_t sw_subset_record(const struct sw_subset *s, int64_t place);
