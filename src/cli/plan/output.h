/* Prints plans, for people and for programs (recipes/planning-json.md). Pure functions. */
#pragma once

#include "planner/planned.h"

struct sw_bytes;
struct sw_json_writer;

/* What the text says beside the plan itself. */
struct sw_planned_about {
    const char *name, *recipe; /* borrowed */
    int64_t params;
    const char *times;       /* where measured times of layers come from; "": there are none */
    const char *const *sets; /* [set_count]: the same as texts of --set */
    int set_count;
    const char *ini; /* lines of the recipe that make a run follow the plan; or NULL */
    bool verbose;    /* all layers */
};

void sw_planned_print(struct sw_bytes *out, const struct sw_planned *p,
                      const struct sw_planned_about *about);
/* What is said of a plan for a machine with server hosts: a sentence and a line break. */
extern const char sw_planned_no_run[];
/* In at most four lines, for the start of a run. */
void sw_planned_print_brief(struct sw_bytes *out, const struct sw_planned *p);
/* Fields of an open object (recipes/planning-json.md). */
void sw_planned_json(struct sw_json_writer *w, const struct sw_planned *p,
                     const struct sw_planned_about *about);
/* The devices and links of the machine of a plan, each with the source of its figures, and how busy
 * the links are. */
void sw_planned_print_machine(struct sw_bytes *out, const struct sw_planned *p);
/* The link of a host to the others; nothing on one host. */
void sw_planned_print_network(struct sw_bytes *out, const struct sw_machine_model *m);
void sw_planned_json_machine(struct sw_json_writer *w, const struct sw_planned *p);
