/* Adds the parameters of a net to a table, with the settings of the recipe: initial values of the
 * layer's section, and the multipliers of every matching [updater PATTERN]. The caller owns net and
 * table. */
#pragma once

#include "exchange/table/table.h"
#include "net/net.h"

/* Checks of [updater] beyond its option rows. Errors go to the recipe's diagnostics. */
int sw_params_check_updater(struct sw_recipe *recipe, struct sw_err *err) SW_MUST_CHECK;
/* Adds parameter p of the net to the table; factors: index of its layer's factors, 0 for none.
 * Errors: those of sw_table_add. */
int sw_params_add(const struct sw_recipe *recipe, struct sw_table *table, const struct sw_net *net,
                  int p, int factors, int *index, struct sw_err *err) SW_MUST_CHECK;

/* Adds an error to the recipe for each [updater PATTERN] that matches no parameter of the table,
 * which is probably a typo. Returns the recipe's verdict. */
int sw_params_check_patterns(struct sw_recipe *recipe, const struct sw_table *table,
                             struct sw_err *err) SW_MUST_CHECK;

/* Checks that every pattern of job.freeze matches a parameter, and that some parameter is not
 * frozen. */
int sw_params_check_freeze(struct sw_recipe *recipe, const struct sw_strings *freeze,
                           const struct sw_table *table, struct sw_err *err) SW_MUST_CHECK;
