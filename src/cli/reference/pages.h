/* The reference pages, generated from the tables that the program uses: singa-ws(1) from the
 * options of the verbs, singa-ws-recipe(5) from the option tables of sections, layers, updaters,
 * policies and formats. One owner. */
#pragma once

#include "cli/cli.h"
#include "cli/reference/page.h"

/* Append the page of all verbs, and that of all sections and keys of a recipe. */
void sw_pages_commands(enum sw_page_form form, struct sw_buf *out);
void sw_pages_recipe(enum sw_page_form form, struct sw_buf *out);

/* --- What shells complete: scripts made of the verbs' option tables and the words of their usage,
 * so that they know every option and no other. Names of runs are asked for when they are wanted.
 * --- */

/* The shells there is one for, NULL-terminated. */
extern const char *const sw_completion_shells[];
/* False for another shell. */
bool sw_completion(const char *shell, struct sw_buf *out);
