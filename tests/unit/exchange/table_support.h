/* A parameter table with a few parameters of different layouts, with sgd and a learning rate of 1
 * unless a test sets another. */
#pragma once

#include "unit/device/device_support.h"

#include "base/os.h"
#include "optim/schedule.h"
#include "unit/exchange/inspect.h"

enum { TABLE_PARAMS = 5 };

struct plan_of_table {
    int workers, servers;
    int64_t slice_elements;
    double lr, momentum, weight_decay;
    bool plain;          /* all layouts plain */
    enum sw_init init;   /* SW_INIT_AUTO, or constant for zeros */
    const char *updater; /* with its defaults; NULL: sgd with momentum */
    double clip_value, clip_norm;
    enum sw_table_bad bad;
    bool two_phases;
    int groups, others, leaves;
    const struct sw_table_rule *rule; /* NULL: bsp */
    int64_t staleness;
    double loss_scale;
    int64_t loss_scale_every;
    bool updates_on_device;
    struct sw_table_outer outer;
    int remote_groups;
    bool updates_outside;
};

struct stand {
    struct sw_device *dev;
    struct sw_table *table;
    struct sw_updater_conf common;
    void *updater_conf, *schedule_conf;
};

static const char *const table_names[TABLE_PARAMS] = {"conv.weight", "conv.bias", "fc.weight",
                                                      "fc.bias", "one.bias"};

/* conv.weight and fc.weight are stored in blocks, with padding. */
static inline struct sw_desc table_layout(int p, bool plain)
{
    const int64_t conv[4] = {20, 5, 3, 3}, fc[2] = {37, 101}, bias[2] = {20, 37}, one = 1;
    if (p == 0)
        return plain ? sw_desc_plain(SW_F32, 4, conv) : sw_desc_blocked(SW_F32, 4, conv, 0, 16);
    if (p == 2)
        return plain ? sw_desc_plain(SW_F32, 2, fc) : sw_desc_blocked(SW_F32, 2, fc, 1, 8);
    return sw_desc_plain(SW_F32, 1, p == 4 ? &one : &bias[p / 3]);
}

static inline void *conf_with(const struct sw_type *type, const char *key, double value)
{
    void *conf = calloc(1, type->conf_bytes + 1);
    assert_non_null(conf);
    for (const struct sw_opt *o = type->opts; o && o->key; o++)
        *(double *)((char *)conf + o->offset) =
            key && strcmp(o->key, key) == 0 ? value : strtod(o->def, NULL);
    return conf;
}

static inline const struct sw_updater *updater_named(const char *name)
{
    for (int i = 0; sw_updaters[i]; i++)
        if (strcmp(sw_updaters[i]->base.name, name) == 0)
            return sw_updaters[i];
    fail_msg("no updater is named %s", name);
    return NULL;
}

static inline const struct sw_updater *sgd(void)
{
    return updater_named("sgd");
}

static inline const struct sw_type *fixed_schedule(void)
{
    for (int i = 0; sw_schedules[i]; i++)
        if (strcmp(sw_schedules[i]->name, "fixed") == 0)
            return sw_schedules[i];
    fail_msg("no schedule is named fixed");
    return NULL;
}

static inline int add_params(struct sw_table *t, const struct plan_of_table *plan,
                             struct sw_err *err)
{
    int rc = SW_OK;
    for (int p = 0; p < TABLE_PARAMS && rc == SW_OK; p++) {
        struct sw_param_spec spec = {.owner = -1,
                                     .name = table_names[p],
                                     .layout = table_layout(p, plan->plain),
                                     .fan_in = p == 0   ? 45
                                               : p == 2 ? 101
                                                        : 0,
                                     .lr_mult = 1,
                                     .decay_mult = 1};
        int index = -1;
        spec.init.init = (int)plan->init;
        rc = sw_table_add(t, &spec, &index, err);
        if (rc == SW_OK)
            assert_int_equal(index, p);
    }
    return rc;
}

/* A table without parameters, which points into the stand. To be freed in every case. */
static inline int begin_stand(struct stand *s, const struct plan_of_table *plan, struct sw_err *err)
{
    const struct sw_updater *updater = plan->updater ? updater_named(plan->updater) : sgd();
    *s = (struct stand){
        .common = {.lr = plan->lr > 0 ? plan->lr : 1, .weight_decay = plan->weight_decay}};
    s->updater_conf = conf_with(&updater->base, plan->updater ? NULL : "momentum", plan->momentum);
    s->schedule_conf = conf_with(fixed_schedule(), NULL, 0);
    int rc = sw_cpu_open(false, &s->dev, err);
    struct sw_table_args args = {.device = s->dev,
                                 .seed = 7,
                                 .updater = updater,
                                 .updater_conf = s->updater_conf,
                                 .common = &s->common,
                                 .schedule = fixed_schedule(),
                                 .schedule_conf = s->schedule_conf,
                                 .horizon_steps = 100,
                                 .slice_elements = plan->slice_elements,
                                 .workers = plan->workers,
                                 .servers = plan->servers,
                                 .clip_value = plan->clip_value,
                                 .clip_norm = plan->clip_norm,
                                 .bad = plan->bad,
                                 .two_phases = plan->two_phases,
                                 .groups = plan->groups,
                                 .others = plan->others,
                                 .leaves = plan->leaves,
                                 .rule = plan->rule,
                                 .staleness = plan->staleness,
                                 .loss_scale = plan->loss_scale,
                                 .loss_scale_every = plan->loss_scale_every,
                                 .updates_on_device = plan->updates_on_device,
                                 .outer = plan->outer,
                                 .remote_groups = plan->remote_groups,
                                 .updates_outside = plan->updates_outside};
    return rc == SW_OK ? sw_table_new(&args, &s->table, err) : rc;
}

/* Everything that follows the parameters, up to their first values. */
static inline int end_stand(struct stand *s, struct sw_err *err)
{
    int rc = sw_table_freeze(s->table, err);
    if (rc == SW_OK)
        rc = sw_table_allocate(s->table, err);
    return rc == SW_OK ? sw_table_init_values(s->table, err) : rc;
}

/* To be freed in every case. */
static inline int try_stand(struct stand *s, const struct plan_of_table *plan, struct sw_err *err)
{
    int rc = begin_stand(s, plan, err);
    if (rc == SW_OK)
        rc = add_params(s->table, plan, err);
    return rc == SW_OK ? end_stand(s, err) : rc;
}

/* With the parameters of one fully-connected layer instead, zeros, whose gradients servers make of
 * factors. */
static inline int try_layer(struct stand *s, const struct plan_of_table *plan,
                            const struct sw_table_factors *f, struct sw_err *err)
{
    const int64_t weight[2] = {f->outputs, f->inputs};
    int number, index, rc = begin_stand(s, plan, err);
    if (rc == SW_OK)
        rc = sw_table_add_factors(s->table, f, &number, err);
    for (int p = 0; p < 2 && rc == SW_OK; p++) {
        const struct sw_param_spec spec = {.name = p == 0 ? "fc.weight" : "fc.bias",
                                           .layout = sw_desc_plain(SW_F32, 2 - p, weight),
                                           .owner = -1,
                                           .factors = number,
                                           .init = {.init = SW_INIT_CONSTANT},
                                           .lr_mult = 1,
                                           .decay_mult = 1};
        rc = sw_table_add(s->table, &spec, &index, err);
    }
    return rc == SW_OK ? end_stand(s, err) : rc;
}

static inline void stand_new(struct stand *s, const struct plan_of_table *plan)
{
    struct sw_err err;
    ASSERT_OK(try_stand(s, plan, &err));
}

static inline void stand_free(struct stand *s)
{
    sw_table_free(s->table);
    sw_device_close(s->dev);
    free(s->updater_conf);
    free(s->schedule_conf);
}

/* A parameter's value (slot -1) or updater state in plain order; owned by the caller. */
static inline float *plain_of_table(const struct stand *s, int p, int slot)
{
    struct sw_tensor t = sw_table_tensor(s->table, p, slot);
    float *plain = get_floats(sw_desc_count(&t.desc));
    struct sw_err err;
    ASSERT_OK(sw_tensor_read(&t, NULL, plain, &err));
    return plain;
}

static inline int64_t storage_of(const struct stand *s, int p)
{
    return sw_desc_storage(&sw_table_param(s->table, p)->layout);
}

/* Hands one worker's message to every server that owns a part of the parameter. */
static inline int deliver(struct stand *s, int worker, int param, uint64_t version,
                          struct sw_err *err)
{
    struct sw_message m = {
        .kind = SW_MSG_UPDATE, .from = worker, .param = param, .version = version};
    int rc = SW_OK;
    for (int i = 0; i < s->table->args.servers && rc == SW_OK; i++) {
        const struct sw_server_state *server = &s->table->servers[i];
        if (server->first[param] < server->first[param + 1])
            rc = sw_table_serve(s->table, i, &m, err);
    }
    return rc;
}

/* Handles what is in the servers' inboxes: decisions. */
static inline int pump(struct stand *s, struct sw_err *err)
{
    struct sw_message m;
    int rc = SW_OK;
    for (int i = 0; i < s->table->args.servers && rc == SW_OK; i++)
        while (rc == SW_OK && sw_queue_try_pop(sw_table_inbox(s->table, i), &m) == SW_OK)
            rc = sw_table_serve(s->table, i, &m, err);
    return rc;
}

/* Random gradients of version v, the same sums for every cutting, handed over by all workers. */
static inline void random_update(struct stand *s, uint64_t v)
{
    struct sw_err err;
    for (int p = 0; p < TABLE_PARAMS; p++) {
        const struct sw_param *param = sw_table_param(s->table, p);
        int64_t n = sw_desc_count(&param->layout);
        for (int w = 0; w < s->table->args.workers; w++) {
            struct rng r = rng_of(v * 100 + (uint64_t)(p * 10 + w));
            float *plain = random_floats(&r, n, -1, 1);
            sw_desc_from_plain(&param->layout, plain, param->gradient[w]);
            free(plain);
        }
        for (int w = s->table->args.workers - 1; w >= 0; w--)
            ASSERT_OK(deliver(s, w, p, v, &err));
        assert_true(sw_table_ready(s->table, 0, p, v) == !sw_table_has_phases(s->table));
    }
    ASSERT_OK(pump(s, &err));
    for (int p = 0; p < TABLE_PARAMS; p++)
        assert_true(sw_table_ready(s->table, 0, p, v));
}
