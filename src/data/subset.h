/* The records of a format that a [data] section uses, and their order: the keys `part`, `part_seed`
 * and `streams`, the same for every format. Sections that read the same files can share them
 * without a common record. Plain value without pointers, any thread. */
#pragma once

#include "base/err.h"
#include "data/permute.h"
#include "recipe/option.h"
#include <stdbool.h>
#include <stdint.h>

struct sw_subset {
    int64_t first, count; /* positions [first, first + count) of all records */
    int64_t streams;      /* 0: none */
    bool mixed;           /* positions are permuted by mix, over all records */
    struct sw_permutation mix;
};

/* part: empty (all), or first and end: up to 1 they are fractions of all records, above 1 record
 * numbers; the end is exclusive, so one number ends the part of one section and begins that of
 * another. seed: 0 takes the part from the records in order; another number takes it from a
 * permutation that depends only on this number and the number of records. streams: 0, or S: the
 * records are split into S runs of equal length (the remainder is dropped), and position i is
 * record i / S of run i % S. So row r of every batch of S rows continues where row r of the
 * previous batch ended. Errors: SW_ERR_INVALID naming the key. */
int sw_subset_init(struct sw_subset *s, const struct sw_reals *part, int64_t seed, int64_t streams,
                   int64_t records, struct sw_err *err) SW_MUST_CHECK;

/* The record at a position, 0 .. count-1. */
int64_t sw_subset_record(const struct sw_subset *s, int64_t place);
