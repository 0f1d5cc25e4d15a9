/* The reference pages, generated from the tables that the program uses: singa-ws(1) from the
 * options of the verbs, singa-ws-recipe(5) from the option tables of sections, layers, updaters,
 * policies and formats. One owner. */
#pragma once

#include "cli/cli.h"
#include "cli/reference/page.h"

/* Append the page of all verbs; append the page of all sections and keys of a recipe. */
void sw_pages_commands(enum sw_page_form form, struct sw_bytes *out);
void sw_pages_recipe(enum sw_page_form form, struct sw_bytes *out);

/* --- Completion scripts for shells, generated from the option tables of the verbs and the
 * arguments of their usage. The script queries the names of runs when it completes one. --- */

/* The supported shells, NULL-terminated. */
extern const char *const sw_completion_shells[];
/* Appends the script; returns false for an unsupported shell. */
bool sw_completion(const char *shell, struct sw_bytes *out);
