/* Initial values from other files: job.init_from, or --init-from. */
#pragma once

#include "tensor/safetensors.h"
#include <stdbool.h>

struct sw_checkpoint_job;

/* Names and shapes of the tensors that earlier stages will have written. */
struct sw_stage_names {
    struct sw_st_entry *items; /* owned, including the names */
    int count;
};

/* A rule of init_from. */
struct sw_init_from_rule {
    char from[256], to[256];
    bool transposed;
    int item; /* index in the list */
};

struct sw_init_from_file {
    char *path;    /* owned */
    bool previous; /* no file: the result of the previous stage */
    int item, first_rule, rule_count;
};

struct sw_init_from {
    struct sw_init_from_file *files; /* owned */
    struct sw_init_from_rule *rules; /* owned */
    int file_count, rule_count;
    const struct sw_strings *reset; /* patterns of job.reset; NULL: none in this stage */
};

void sw_stage_names_fini(struct sw_stage_names *n);
/* Returns NULL if there is no such tensor. */
const struct sw_st_entry *sw_stage_names_find(const struct sw_stage_names *n, const char *name);

/* Is an item of the list a file, and not a rule or `previous`? */
bool sw_init_from_is_file(const char *item);
/* Parses the list, or --init-from instead of it, and checks all files and rules. earlier: if the
 * stage does not start now, the tensors that earlier stages will leave; NULL: unknown. */
int sw_init_from_check(const struct sw_checkpoint_job *job, const char *option,
                       const struct sw_stage_names *earlier, struct sw_err *err) SW_MUST_CHECK;
/* Loads the values, and reports which parameters were loaded and which not. By the leader. */
int sw_init_from_load(const struct sw_checkpoint_job *job, struct sw_err *err) SW_MUST_CHECK;
void sw_init_from_fini(struct sw_init_from *init); /* a zeroed one is accepted */
