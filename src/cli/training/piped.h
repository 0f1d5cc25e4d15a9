/* A recipe that comes through a pipe can be read only once: its text, for all who need it. */
#pragma once

#include "run/job.h"

struct sw_piped_recipe {
    char *text; /* owned; NULL: the recipe is a file, or could not be read */
    struct sw_job_told told;
};

/* Reads the recipe of the options if it is no regular file, and makes them use the text, which must
 * outlive them. A failure is reported by who opens the recipe. Does nothing the second time. */
void sw_piped_recipe_read(struct sw_piped_recipe *p, struct sw_job_options *job);
void sw_piped_recipe_fini(struct sw_piped_recipe *p); /* a zeroed one is accepted */
