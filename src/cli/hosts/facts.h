/* What `check --hosts` shows and compares of each host. Other hosts tell their facts as lines of
 * text, which are not trusted. One owner. */
#pragma once

#include "base/str.h"

struct sw_job;

enum sw_fact {
    SW_FACT_VERSION,
    SW_FACT_MACHINE, /* sw_launch_machine_id */
    SW_FACT_CPU,
    SW_FACT_CORES,
    SW_FACT_MEMORY, /* bytes */
    SW_FACT_GPUS,
    SW_FACT_DEVICE,
    SW_FACT_PARAMETERS,
    SW_FACT_TRAINING, /* the data, as text */
    SW_FACT_EVALUATION,
    SW_FACTS
};

enum { SW_FACT_BYTES = 256 };

struct sw_facts {
    char text[SW_FACTS][SW_FACT_BYTES]; /* "": not known, or none */
    bool complete;
};

const char *sw_fact_name(enum sw_fact fact); /* "version" */
/* Must it be the same on all hosts? */
bool sw_fact_must_agree(enum sw_fact fact);
bool sw_fact_is_number(enum sw_fact fact);
/* The facts of this host with its open job. */
void sw_facts_of(const struct sw_job *job, struct sw_facts *out);
/* Appends the facts as lines. */
void sw_facts_write(const struct sw_facts *f, struct sw_bytes *out);
/* Reads one of these lines; false: it is none. The last one sets f->complete. */
bool sw_facts_read(struct sw_facts *f, const char *line);
