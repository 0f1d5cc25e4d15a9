/* Gradients that a table makes out of factors: what factors.c does for the other files of a table.
 * Threads are those of the caller: one while the table is built, a slice's server behind that. */
#pragma once

#include "exchange/table/table_private.h"

/* How many slices a parameter with factors has; cuts it into them. */
int sw_factor_slices(const struct sw_table *t, const struct sw_param *p);
void sw_factor_cut(struct sw_table *t, int param);
/* The server of a slice: those of the same outputs have the same; -1: any. */
int sw_factor_server(const struct sw_table *t, const struct sw_slice *s);
/* Memory of all factors, and which part of it each has; after the slices are dealt out. */
size_t sw_factor_bytes(const struct sw_table *t);
void sw_factor_point(struct sw_table *t, char *memory);
void sw_factor_place(struct sw_table *t);
void sw_factor_free(struct sw_table *t);
/* Where an update group's gradient is made. */
float *sw_factor_gradient(const struct sw_table *t, int param, int group);
/* Makes a slice of it, or of a parameter without factors nothing: all rows of the update group are
 * there.
 */
void sw_factor_rebuild(const struct sw_table *t, const struct sw_slice *s, int group, float *out);
