/* Measured choices: which of several implementations of a pass of a plan is the fastest here. A
 * device may borrow a table of choices (sw_device.tune; NULL: makers use their defaults, which are
 * the same every time). A maker that has several implementations lists them by name for each pass,
 * the default first. For each pass sw_tune_plan uses the entry of the table under the key of the
 * pass; without one, if the table may measure, the fastest implementation, which it stores there;
 * else the default.
 *
 * An entry is valid for every plan with its key, so that all workers, and a job that later resumes
 * with the same table, have the same plans. An implementation whose forward pass would output
 * another layout is not used, since its cost for other layers is unknown here. Thread rule: any
 * thread; a thread that calls while another one measures waits for the result. */
#pragma once

#include "base/json.h"
#include "device/plan.h"
#include "thread/thread.h"

enum { SW_TUNE_NAME = 48, SW_TUNE_CANDIDATES = 8, SW_TUNE_KEY = 512 };
enum sw_tune_pass { SW_TUNE_FORWARD, SW_TUNE_DATA, SW_TUNE_WEIGHTS, SW_TUNE_PASSES };

/* The origin of an entry: the checkpoint of a resumed job, the cache of the machine, or measured by
 * this job. */
enum sw_tune_origin { SW_TUNE_KEPT, SW_TUNE_CACHED, SW_TUNE_MEASURED };

struct sw_tune_item {
    char *key; /* owned: "backward_data convolution on ..." */
    char name[SW_TUNE_NAME];
    enum sw_tune_origin origin;
    bool used;
    char rule[SW_TUNE_NAME]; /* if measured: the default implementation, */
    int64_t rule_ns, ns;     /* and the durations of the default and of the chosen implementation */
};

struct sw_tune {
    struct sw_mutex lock; /* guards all below */
    bool measures;
    struct sw_tune_item *items; /* owned */
    int count;
    int measured, kept; /* entries measured by this job; of these, entries that the owner of the
                           table has saved for other jobs */
    int64_t spent_ns;   /* duration of all measurements */
};

/* Makes an empty table. measures: passes without an entry are measured; else the default is
 * used. */
void sw_tune_init(struct sw_tune *t, bool measures);
void sw_tune_fini(struct sw_tune *t);
/* Adds an existing choice; if the key has an entry, that one stays. Errors: SW_ERR_NOMEM. */
int sw_tune_put(struct sw_tune *t, const char *key, const char *name, enum sw_tune_origin origin,
                struct sw_err *err) SW_MUST_CHECK;
/* Writes the entries in the order of their keys as objects {"key", "way"} into an open JSON array;
 * used: only those that this job has used or resumed with. sw_tune_read reads such an array, which
 * may be NULL. */
void sw_tune_write(struct sw_tune *t, bool used, struct sw_json_writer *w);
int sw_tune_read(struct sw_tune *t, const struct sw_json *list, enum sw_tune_origin origin,
                 struct sw_err *err) SW_MUST_CHECK;

/* The implementation of each pass; "": the default. */
struct sw_tune_choice {
    char name[SW_TUNE_PASSES][SW_TUNE_NAME];
};
struct sw_tune_candidates {
    int count;
    char name[SW_TUNE_CANDIDATES][SW_TUNE_NAME];
};
/* Adds an implementation unless it is already listed or the list is full. */
void sw_tune_add_candidate(struct sw_tune_candidates *candidates, const char *name);

struct sw_tune_maker {
    const char *key; /* one line: operation, shapes, layouts, precision, device, library, threads */
    void *user;
    /* Makes a plan with these implementations; an error if one does not exist. */
    int (*make)(void *user, const struct sw_tune_choice *choice, struct sw_plan_passes passes,
                struct sw_plan **out, struct sw_err *err);
    /* Lists the implementations of one pass, given those of the earlier passes; none if that is
     * impossible. */
    void (*list)(void *user, const struct sw_tune_choice *chosen, enum sw_tune_pass pass,
                 struct sw_tune_candidates *out);
};
/* Makes a plan with the implementations of the table, measuring if necessary. Errors: those of
 * make, SW_ERR_NOMEM. */
int sw_tune_plan(struct sw_stream *s, struct sw_plan_passes passes, const struct sw_tune_maker *m,
                 struct sw_plan **out, struct sw_err *err) SW_MUST_CHECK;

/* Adds the part of a key that describes a convolution. */
void sw_tune_key_conv(struct sw_bytes *key, const struct sw_conv_shape *shape);

/* Allocates memory of a device for measurements; NULL: not enough memory. On the host it is not
 * counted as memory of the device, whose peak users see. */
void *sw_tune_allocate(struct sw_device *dev, size_t bytes);
void sw_tune_free_memory(struct sw_device *dev, void *memory, size_t bytes);
