/* Gradients that a table makes from factors: what factors.c provides to the other files of the
 * table. Thread rule: one thread while the table is built, afterwards the server of the slice. */
#pragma once

#include "exchange/table/table_private.h"

/* Number of slices of a parameter with factors; partitions the parameter into them. */
int sw_factor_slices(const struct sw_table *t, const struct sw_param *p);
void sw_factor_make_slices(struct sw_table *t, int param);
/* The server of a slice: slices of the same outputs have the same one; -1: any. */
int sw_factor_server(const struct sw_table *t, const struct sw_slice *s);
/* Bytes of all factors; sets their addresses; binds their pages to NUMA nodes. After the slices
 * have servers. */
size_t sw_factor_bytes(const struct sw_table *t);
void sw_factor_point(struct sw_table *t, char *memory);
void sw_factor_place(struct sw_table *t);
void sw_factor_free(struct sw_table *t);
/* Makes a slice of an update group's gradient, once all its rows have arrived; does nothing for a
 * parameter without factors. */
int sw_factor_rebuild(const struct sw_table *t, const struct sw_slice *s, int group, float *out,
                      struct sw_err *err) SW_MUST_CHECK;
