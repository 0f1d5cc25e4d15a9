/* From the parameters of a net to those of a table, with all that the recipe says of them: initial
 * values of the layer's section, and the factors of every [updater PATTERN] that matches. Plain
 * functions; the caller owns both. */
#pragma once

#include "exchange/table/table.h"
#include "net/net.h"

/* What the option rows of [updater] cannot say. Errors go to the recipe's diags. */
int sw_params_check_updater(struct sw_recipe *recipe, struct sw_err *err) SW_MUST_CHECK;
/* Adds parameter p of the net to the table; factors: of its layer, 0 for none. Errors: those of
 * sw_table_add. */
int sw_params_add(const struct sw_recipe *recipe, struct sw_table *table, const struct sw_net *net,
                  int p, int factors, int *index, struct sw_err *err) SW_MUST_CHECK;

/* An [updater PATTERN] that matches no parameter of the table is a slip of the pen: adds an error
 * to the recipe for each and returns its verdict. */
int sw_params_check_patterns(struct sw_recipe *recipe, const struct sw_table *table,
                             struct sw_err *err) SW_MUST_CHECK;

/* Every pattern of job.freeze must name a parameter, and one must be left to train. */
int sw_params_check_freeze(struct sw_recipe *recipe, const struct sw_strings *freeze,
                           const struct sw_table *table, struct sw_err *err) SW_MUST_CHECK;
