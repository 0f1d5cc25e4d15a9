/* Shared by the parts of `singa-ws doctor`: the list of findings, and the measured figures. A part
 * is one file of this folder with one function below. It adds findings, and members to the object
 * `measured` of the JSON that is printed and saved for the planner. Main thread. */
#pragma once

#include "base/json.h"
#include "cli/cli.h"
#include "machine/machine.h"
#include "machine/survey.h"

enum sw_finding_level {
    SW_FINDING_OK,   /* nothing to do */
    SW_FINDING_NOTE, /* worth knowing */
    SW_FINDING_WARN, /* costs speed or safety */
    SW_FINDING_BAD,  /* the machine is unfit: results, files or runs are at risk */
};

struct sw_finding {
    enum sw_finding_level level;
    const char *part;      /* "cpu", "memory" ...; constant */
    char *what;            /* owned */
    const char *why, *fix; /* constant sentences; NULL: nothing to fix */
};

struct sw_doctor {
    const char *device, *db; /* options, or NULL */
    bool quick;              /* measure nothing */
    struct sw_machine *machine;
    struct sw_survey survey;
    struct sw_finding *findings; /* owned */
    int count;
    bool failed;                /* out of memory */
    bool busy;                  /* other processes used the processor during the measurement */
    struct sw_json_writer json; /* the object `measured` is open */
};

/* Adds a finding whose text is `what`, formatted. why and fix may be NULL. */
void sw_doctor_find(struct sw_doctor *d, enum sw_finding_level level, const char *part,
                    const char *why, const char *fix, const char *what, ...) SW_PRINTF(6, 7);
/* Adds a finding of level OK. */
void sw_doctor_ok(struct sw_doctor *d, const char *part, const char *what, ...) SW_PRINTF(3, 4);
void sw_doctor_fini(struct sw_doctor *d);

/* The parts. A part returns an error only if it could not check anything. */
int sw_doctor_settings(struct sw_doctor *d, struct sw_err *err) SW_MUST_CHECK;   /* survey.h */
int sw_doctor_links(struct sw_doctor *d, struct sw_err *err) SW_MUST_CHECK;      /* PCIe */
int sw_doctor_throughput(struct sw_doctor *d, struct sw_err *err) SW_MUST_CHECK; /* GEMM, memory */
int sw_doctor_disk(struct sw_doctor *d, struct sw_err *err) SW_MUST_CHECK;
int sw_doctor_history(struct sw_doctor *d, struct sw_err *err) SW_MUST_CHECK;
int sw_doctor_devices(struct sw_doctor *d, struct sw_err *err) SW_MUST_CHECK; /* copies, results */

/* --- A verifiable matrix product: its inputs, and the error of a result --- */

/* Rounding alone keeps the relative error of a product below this; one wrong entry exceeds it. */
#define SW_DOCTOR_ROUNDING 1e-5

/* Fills x with n pseudo-random numbers between -1 and 1 that are exact in a float. */
void sw_doctor_fill(float *x, int64_t n, uint32_t seed);
/* The error of c [side, side] = a b, relative to the magnitude of the summands: c x is compared
 * with a (b x) for a random x, row by row in double (Freivalds 1977), so that every element counts.
 * NaN if c is not finite or memory is exhausted. */
double sw_doctor_product_error(const float *a, const float *b, const float *c, int side);
