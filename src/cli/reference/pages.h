/* The reference pages, out of the tables that the program itself goes by: singa-ws(1) from the
 * verbs' options, singa-ws-recipe(5) from the field tables of sections, layers, updaters, policies
 * and formats. One owner. */
#pragma once

#include "cli/cli.h"
#include "cli/reference/page.h"

/* Append the page of all verbs, and that of all a recipe can say, made from their tables. */
void sw_pages_commands(enum sw_page_form form, struct sw_buf *out);
void sw_pages_recipe(enum sw_page_form form, struct sw_buf *out);

/* --- What shells complete: scripts made of the verbs' option tables and the words of their usage,
 * so that they know every option and no other. Names of runs are asked for when they are wanted.
 * --- */

/* The shells there is one for, NULL-terminated. */
extern const char *const sw_completion_shells[];
/* False for another shell. */
bool sw_completion(const char *shell, struct sw_buf *out);
