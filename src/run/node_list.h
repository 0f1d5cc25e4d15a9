/* Lists of hosts as Slurm writes them: "node[03-05,9],gpu1". Pure functions. */
#pragma once

#include "base/err.h"

enum { SW_NODE_NAME = 256 };

/* The names of a list, in its order. Zero-initialize; free with sw_node_list_fini. */
struct sw_node_list {
    char (*name)[SW_NODE_NAME]; /* owned [count] */
    int count;
};

/* Expands the list, to at most `most` names; those behind them are left out. Errors: SW_ERR_INVALID
 * (names the list and the part that cannot be read), SW_ERR_NOMEM; out is then to be freed as
 * well. */
int sw_node_list_read(const char *text, int most, struct sw_node_list *out,
                      struct sw_err *err) SW_MUST_CHECK;
void sw_node_list_fini(struct sw_node_list *l);
