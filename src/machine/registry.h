/* The registry of this machine: which runs use which cores and GPUs, and which runs wait for some.
 * It is a folder with one small file for each run, which the run's process keeps locked (flock).
 * The system releases the lock when the process ends for any reason, so a file without a lock is
 * what a killed process left, and the next one that reads the registry removes it.
 *
 * The folder is $SINGA_REGISTRY, else /run/lock/singa-ws, which all users of the machine share;
 * where that cannot be used, it is in the state directory, and only runs of one user see each
 * other. Containers see each other's runs if SINGA_REGISTRY names a folder that they share.
 *
 * An open registry is locked: nobody else reads or changes it until it is closed, so a run that
 * reads what is in use and then reserves the rest never gets what another one has. Keep it open
 * briefly. A registration has one owner. */
#pragma once

#include "base/err.h"
#include "machine/core_set.h"

enum {
    SW_RESERVED_GPUS = 64,
    SW_RESERVED_NAME = 64,
    SW_RESERVED_PATH = 512,
    SW_RESERVED_TEXT = 256
};

enum sw_reserved_state {
    SW_RESERVED_USED,    /* the run uses the cores and GPUs */
    SW_RESERVED_QUEUED,  /* it waits for them: cores and GPUs are empty */
    SW_RESERVED_RELEASED /* it is paused and has given them back */
};

/* What one run uses. */
struct sw_reserved {
    enum sw_reserved_state state;
    int64_t ticket; /* ascends in the order of arrival */
    int64_t pid, user;
    double since;   /* Unix seconds */
    int64_t run_id; /* in its history; 0: it is starting */
    char run_uid[20], name[SW_RESERVED_NAME];
    char history[SW_RESERVED_PATH];   /* database of the run; "": unknown */
    char waits_for[SW_RESERVED_TEXT]; /* of a queued run, as text */
    struct sw_core_set cores;         /* hwloc logical numbers */
    char gpus[SW_RESERVED_GPUS][20];  /* PCI addresses, "0000:34:00.0" */
    int gpu_count;
    int wants_cores, wants_gpus; /* of a queued run */
    char file[40];               /* its file in the folder; set by the registry */
};

const char *sw_reserved_state_name(enum sw_reserved_state s); /* "used", "queued", "released" */
bool sw_reserved_has_gpu(const struct sw_reserved *r, const char *bus);
/* `run 12 "lenet" (pid 4711)` in out; returns out. */
const char *sw_reserved_title(const struct sw_reserved *r, char *out, size_t bytes);

struct sw_registry;
struct sw_registration;

/* Opens and reads the registry; waits for at most 10 s while another process has it open. Errors:
 * SW_ERR_BUSY (that time is over), SW_ERR_IO, SW_ERR_NOTFOUND (no folder can be used),
 * SW_ERR_NOMEM.
 */
int sw_registry_open(struct sw_registry **out, struct sw_err *err) SW_MUST_CHECK;
/* Without waiting. */
int sw_registry_try_open(struct sw_registry **out, struct sw_err *err) SW_MUST_CHECK;
void sw_registry_close(struct sw_registry *r); /* NULL is accepted */

/* The runs that were registered when it was opened, the first to arrive first; borrowed. */
int sw_registry_count(const struct sw_registry *r);
const struct sw_reserved *sw_registry_at(const struct sw_registry *r, int index);
/* Is this one's run the caller's own? registration may be NULL. */
bool sw_registration_is(const struct sw_registration *registration, const struct sw_reserved *of);

/* Registers a run as the last one to arrive: sets ticket, pid, user and since of *reserved. Free
 * with sw_registration_free. Errors: SW_ERR_IO, SW_ERR_NOMEM. */
int sw_registry_add(struct sw_registry *r, struct sw_reserved *reserved,
                    struct sw_registration **out, struct sw_err *err) SW_MUST_CHECK;
/* Replaces what is registered. Call it with the registry open, for readers see the file while it is
 * written otherwise. Errors: SW_ERR_IO, SW_ERR_NOMEM. */
int sw_registration_write(struct sw_registration *registration, const struct sw_reserved *reserved,
                          struct sw_err *err) SW_MUST_CHECK;
void sw_registration_free(struct sw_registration *registration); /* NULL is accepted */
