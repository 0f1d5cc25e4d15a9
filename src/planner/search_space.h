/* What a search chooses from in one shape: the options of every layer with their costs, the costs
 * of connections as tables, and the memories that must hold the plan. Distributions are numbered
 * per layer, so that a set of them is a bit mask. Made once for a shape, then read only. */
#pragma once

#include "planner/search.h"

enum {
    SW_SEARCH_PLACES = 16, /* workers of a group on which whole layers are tried */
    /* The code of an output on the first place; those before are of enum sw_dist. */
    SW_SEARCH_ONE = SW_DIST_ONE,
    SW_SEARCH_CODES = 58, /* distributions of a layer */
};

struct sw_search_option {
    struct sw_layer_choice choice;
    int place; /* index of the location among the places; -1: not whole on one worker */
    double seconds;
    int output;                    /* code */
    int input[SW_PLANNER_SOURCES]; /* codes, of the sources */
    const int64_t *bytes;          /* [memories], in each of them */
};

struct sw_search_layer {
    struct sw_search_option *option; /* owned: first those in which the output stays in memory */
    int kept, options;               /* of those, and of all */
    int last_reader;                 /* -1: none */
    struct sw_distribution dist[SW_SEARCH_CODES];
    int codes;
    double *move; /* owned [codes][codes]: seconds of a direct connection; INFINITY: none */
};

/* Workers' memories that hold the same number of workers and of each place are one, with the
 * capacity of the smallest. */
struct sw_search_memory {
    int64_t capacity;
    int workers, count[SW_SEARCH_PLACES];
    int worker; /* one that it belongs to */
};

struct sw_search_space {
    struct sw_cost_model cost;
    struct sw_search_layer *layer;   /* owned [cost.net->count] */
    int64_t *bytes;                  /* owned: of all options */
    struct sw_search_memory *memory; /* owned: those that a plan could overfill */
    int memories;
    int place[SW_SEARCH_PLACES]; /* workers of a group */
    int places;
    /* Places of the same class are alike: exchanging them does not change a plan's cost. A place
     * with a memory of its own has its index, else -1. */
    int class_of[SW_SEARCH_PLACES], own_memory[SW_SEARCH_PLACES];
    int most_open; /* layers */
    int blocked;   /* the first layer without options, so that no plan is possible; -1: none */
    bool dropped;  /* some options: a layer had more distributions than there are codes */
};

/* Errors: SW_ERR_NOMEM. */
int sw_search_space_new(const struct sw_net_model *net, const struct sw_machine_model *machine,
                        const struct sw_plan_shape *shape, const struct sw_search_limits *limits,
                        struct sw_search_space **out, struct sw_err *err) SW_MUST_CHECK;
void sw_search_space_free(struct sw_search_space *s); /* NULL is accepted */
/* May gradients of a layer in rows be exchanged in this mode? required: the user names it. */
bool sw_search_may_exchange(const struct sw_cost_model *c, int layer, enum sw_exchange_mode mode,
                            bool required);

/* ---- Open layers ---- */

/* An open layer of a state, one that a later layer reads, is a number: the set of the codes of all
 * distributions that its output is connected to, and above them its own code. */
static inline uint64_t sw_search_bit(int code)
{
    return (uint64_t)1 << code;
}

static inline int sw_search_code(uint64_t open)
{
    return (int)(open >> SW_SEARCH_CODES);
}

static inline uint64_t sw_search_open(int code)
{
    return (uint64_t)code << SW_SEARCH_CODES | sw_search_bit(code);
}

/* Copies the open layers and bytes of a state with their places renumbered in the order of their
 * appearance, so that states which differ by an exchange of alike places become equal. (Some may
 * stay different; different states never become equal.) */
struct sw_search_key {
    uint64_t *open; /* [opens] */
    int64_t *bytes; /* [memories] */
    int memories;   /* those of the space, or 0 */
};
void sw_search_renumber(const struct sw_search_space *s, const uint64_t *open, int opens,
                        const int64_t *bytes, const struct sw_search_key *key);

/* ---- Shapes ---- */

/* Lists the shapes that the limits allow, most workers first; owned by the caller (sw_free).
 * *skipped: counts of groups and workers that are not tried. Errors: SW_ERR_NOMEM; SW_ERR_INVALID
 * (they allow none). */
int sw_search_list_shapes(const struct sw_net_model *net, const struct sw_machine_model *machine,
                          const struct sw_search_limits *limits, struct sw_plan_shape **out,
                          int *count, int *skipped, struct sw_err *err) SW_MUST_CHECK;
/* Why the limits leave a layer no option in a shape, in at most 255 bytes. */
const char *sw_search_why_blocked(const struct sw_search_space *s, int layer,
                                  const struct sw_search_limits *limits, char out[256]);

enum sw_search_what {
    SW_SEARCH_KEPT,   /* plans in which all activations stay in memory, and that fit it */
    SW_SEARCH_FITTED, /* likewise with memory = fit */
    SW_SEARCH_FREE    /* as KEPT, whatever memory they take: none of FITTED is faster */
};
/* The options of a layer from which a plan is made, and the memories that it must fit. */
static inline int sw_search_options(const struct sw_search_layer *l, enum sw_search_what what)
{
    return what == SW_SEARCH_FITTED ? l->options : l->kept;
}

static inline int sw_search_memories(const struct sw_search_space *s, enum sw_search_what what)
{
    return what == SW_SEARCH_FREE ? 0 : s->memories;
}

/* The best plans of one shape, at most `most` (up to SW_SEARCH_BEST). With more than `width` states
 * the best go on, and *exact becomes false. Plans of an additive cost above `bound` need not be
 * found. Calls take(user, choices) for each; an error of it ends the search. Errors: SW_ERR_NOMEM.
 */
struct sw_search_run {
    enum sw_search_what what;
    int width, most;
    double bound;
    int (*take)(void *user, const struct sw_search_space *s, const struct sw_layer_choice *choice,
                struct sw_err *err);
    void *user;
};
int sw_search_shape(const struct sw_search_space *s, const struct sw_search_run *run, bool *exact,
                    struct sw_err *err) SW_MUST_CHECK;

/* ---- Lower bounds ---- */

/* What a layer and all later ones need at least, or at most. Bytes have a price: with the one that
 * is chosen here the bound of the whole net is greatest (a Lagrangian relaxation). */
struct sw_search_rest {
    enum sw_search_what what;
    int memories;
    double byte_s;         /* price of a byte of all memories together */
    double *seconds;       /* owned [layers + 1]: least time with the price of the bytes */
    int64_t *least, *most; /* owned [layers + 1][memories] */
    int64_t *least_sum;    /* owned [layers + 1]: bytes in all memories together */
    int64_t capacity;      /* of all memories */
};
/* Errors: SW_ERR_NOMEM. */
int sw_search_rest_init(struct sw_search_rest *r, const struct sw_search_space *s,
                        enum sw_search_what what, struct sw_err *err) SW_MUST_CHECK;
void sw_search_rest_fini(struct sw_search_rest *r); /* a zeroed one is accepted */

/* ---- Nearest plans ---- */

/* As sw_search, without runner-ups and without the nearest plan. *blocked: a layer that the limits
 * leave no option in any shape; then there is no plan. -1: none. */
int sw_search_best(const struct sw_net_model *net, const struct sw_machine_model *machine,
                   const struct sw_search_limits *limits, struct sw_search_result *out,
                   int *blocked, struct sw_err *err) SW_MUST_CHECK;
/* Describes the nearest plan that is possible, where the limits leave layer `blocked` no option, or
 * (-1) no plan fits into memory, with the reason. Where it runs out of memory it says less. */
void sw_search_find_nearest(const struct sw_net_model *net, const struct sw_machine_model *machine,
                            const struct sw_search_limits *limits, int blocked, char out[256]);
