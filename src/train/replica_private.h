/* A replica from the inside: replica.c has values and gradients, replica_factors.c gradients that
 * others make out of factors. */
#ifndef SW_TRAIN_REPLICA_PRIVATE_H
#define SW_TRAIN_REPLICA_PRIVATE_H

#include "param/update_op.h"
#include "train/replica.h"

enum { ALIGN = 64, NEVER = -1 };

struct sw_replica_item {
    struct sw_replica *owner;
    int param;
    struct sw_param_place at; /* device memory; slots only where it updates */
    size_t bytes;
    int64_t asked;    /* the newest version whose copy was started */
    int64_t has;      /* where the device updates: the version that is queued there, */
    int64_t numbered; /* and the one whose numbers are */
    const struct sw_update_formula *formula;
    struct sw_event *here;  /* owned: happens when that copy is done */
    struct sw_event *made;  /* owned: happens when the gradient is, and the value is read no more */
    struct sw_event *given; /* owned: happens when the gradient is on the host */
    uint64_t gives;         /* the version that is on its way to the host, */
    int missing;            /* atomic: and how many of its terms are not there yet */
};

/* What is decided about all updates of a step, where the device decides: replica_decide.c. */
struct sw_replica_norms {
    bool decides, begun;
    void *there; /* owned device memory: */
    size_t bytes;
    double *totals;  /* of squares; see the file */
    int64_t *ends;   /* of blocks, [kinds][parameters] */
    double *squares; /* [blocks] */
    void *here;      /* owned host memory, which the device copies: */
    size_t here_bytes;
    double *totals_here;
    int64_t *ends_here;
    double *sums;                  /* owned [leaves of the worker][totals and vetoes] */
    struct sw_deciding *known,     /* in device memory, */
        *sent;                     /* and what is copied there */
    struct sw_decided *decided;    /* in device memory, */
    const struct sw_decided *told; /* and its copy */
};

/* Factors of a layer's gradients, of this worker's rows. */
struct sw_given_factors {
    struct sw_replica *owner;
    const struct sw_table_factors *of; /* borrowed */
    int layer;                         /* among those that devices exchange; -1: not one of them */
    int params, given;                 /* its parameters, and those that are given in this step */
    uint64_t taken;                    /* rounds whose factors the compute stream has */
    float *x, *dy;                     /* where the worker writes them: device memory */
    struct sw_event *made, *sent;      /* owned: they are complete; they are all on the host */
    uint64_t gives;                    /* the version that is on its way to the host, */
    int missing;                       /* atomic: and how many of its pieces are not there yet */
};

struct sw_replica {
    struct sw_replica_args args;
    struct sw_copy_queue *queue;   /* owned */
    struct sw_replica_item *items; /* owned [count] */
    int count;                     /* parameters; args.params may name one more than once */
    int terms;                     /* of a gradient */
    int *item_of;                  /* owned [parameters of the table]: or -1 */
    void *memory;                  /* owned device memory */
    size_t bytes;
    struct sw_replica_norms norms;
    /* A block of device memory: marks and, where it decides, what was decided; where it updates, of
     * every item whether an update was not finite and, at a multiple of 8 bytes, what the next one
     * is; and what is known about decisions. */
    int64_t *marks; /* owned [SW_MARKS]: the block */
    bool *bad;      /* [count], or NULL */
    struct sw_update_numbers *numbers;
    void *mail;                     /* owned host memory of which these are parts: */
    struct sw_update_numbers *sent; /* [count]: what is copied there */
    int64_t *told;                  /* copies of marks, with those of bad behind them */
    struct bucket {
        int given;                    /* gradients, of the round under way */
        uint64_t taken;               /* rounds whose sums the compute stream has */
    } * buckets;                      /* owned, of the reduction */
    int64_t base;                     /* the version before its first round; NEVER: not known */
    struct sw_given_factors *factors; /* owned [of the table] */
    float *stage;                     /* owned device memory: of those that go to servers */
    int64_t first_row, rows;          /* of the batch, this worker's */
};

/* replica.c: queues the item's update. */
int sw_replica_update_there(struct sw_replica *r, struct sw_replica_item *item, uint64_t version,
                            struct sw_err *err) SW_MUST_CHECK;

/* replica_decide.c */
int sw_replica_make_norms(struct sw_replica *r, struct sw_err *err) SW_MUST_CHECK;
void sw_replica_free_norms(struct sw_replica *r);
/* Sends what is known before a step's decision. */
int sw_replica_begin_norms(struct sw_replica *r, struct sw_err *err) SW_MUST_CHECK;

/* replica_factors.c */
int sw_replica_make_factors(struct sw_replica *r, struct sw_err *err) SW_MUST_CHECK;
void sw_replica_free_factors(struct sw_replica *r);
/* Copies that may be under way beside those of parameters. */
int sw_replica_factor_copies(const struct sw_replica *r);
/* One of the layer's parameters is given: with the first one its factors go on their way. */
int sw_replica_give_factors(struct sw_replica *r, const struct sw_replica_item *item,
                            uint64_t version, struct sw_err *err) SW_MUST_CHECK;
/* Makes the gradient of a parameter out of the factors of all workers, on the compute stream. */
int sw_replica_remake(struct sw_replica *r, const struct sw_replica_item *item, uint64_t version,
                      struct sw_err *err) SW_MUST_CHECK;
int sw_replica_wait_factors(const struct sw_replica *r, int param, uint64_t version,
                            int timeout_ms) SW_MUST_CHECK;
/* Happens when a layer's factors are complete and its values read no more. */
struct sw_event *sw_replica_factors_made(const struct sw_replica *r, int param);
/* What is queued from here on may write factors that went to servers anew. */
int sw_replica_wait_sent(const struct sw_replica *r, int param, struct sw_err *err) SW_MUST_CHECK;

#endif
