/* The settings by which a job follows a plan, as far as its recipe does not have them yet. */
#include "base/os.h"
#include "run/job_private.h"
#include "run/planning_private.h"

/* The texts while they are made. */
struct writing {
    struct sw_planning_texts *to;
    struct sw_bytes ini;
    const char *section; /* whose header ini has */
    bool failed;
};

static void add(struct writing *w, const char *kind, const char *name, const char *key,
                const char *value)
{
    const char *section = name ? name : kind;
    char **set = sw_array_add(&w->to->sets, &w->to->count, sizeof *w->to->sets);
    if (set)
        *set = sw_format("%s%s%s.%s=%s", kind, name ? "." : "", name ? name : "", key, value);
    w->failed = w->failed || !set || !*set;

    if (!w->section || !sw_str_eq(w->section, section))
        sw_bytes_printf(&w->ini, "%s[%s%s%s]\n", w->ini.length ? "\n" : "", kind, name ? " " : "",
                        name ? name : "");
    sw_bytes_printf(&w->ini, "%s = %s\n", key, value);
    w->section = section;
}

static void add_int(struct writing *w, const char *kind, const char *name, const char *key,
                    int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    add(w, kind, name, key, text);
}

/* ---- [job] and [cluster] ---- */

static void add_budget(struct writing *w, const struct sw_job_conf *c, int64_t bytes)
{
    char text[32];

    snprintf(text, sizeof text, "fit:%lld", (long long)bytes);
    if (bytes > 0 && c->memory_bytes != bytes)
        add(w, "job", NULL, "memory", text);
}

static void add_cluster(struct writing *w, const struct sw_section *cluster,
                        const struct sw_plan_shape *s, int hosts)
{
    const struct sw_cluster_conf *c = cluster->common;
    struct sw_cluster_conf want = {.framework = (int)s->framework, .staleness = s->staleness};
    struct sw_cluster_sync usual;
    struct sw_err ignored;
    const char *key;
    const bool server_each = s->framework == SW_FRAMEWORK_ALLREDUCE;

    if (c->framework != (int)s->framework)
        add(w, "cluster", NULL, "framework", sw_framework_name(s->framework));
    if (c->worker_groups != s->groups && (c->worker_groups > 0 || s->groups > 1))
        add_int(w, "cluster", NULL, "worker_groups", s->groups);
    if (c->workers_per_group != s->group_size)
        add_int(w, "cluster", NULL, "workers_per_group", s->group_size);
    if (c->servers_per_group != s->servers && (c->servers_per_group > 0 || !server_each))
        add_int(w, "cluster", NULL, "servers_per_group", s->servers);
    if (s->threads > 0 && c->threads_per_worker != s->threads)
        add_int(w, "cluster", NULL, "threads_per_worker", s->threads);
    if (hosts == 1 && /* several have a server group each where they need one */
        (c->server_groups > 1 || (c->server_groups == 0 && s->framework == SW_FRAMEWORK_HOGWILD)))
        add_int(w, "cluster", NULL, "server_groups", 1);

    if (c->staleness != s->staleness) /* 0: no group is ahead of others */
        add_int(w, "cluster", NULL, "staleness", s->staleness > 0 ? s->staleness : 0);

    const bool is_usual = sw_cluster_sync(&want, &usual, &key, &ignored) == SW_OK &&
                          usual.consistency == s->consistency;
    const enum sw_consistency consistency = is_usual ? SW_CONSISTENCY_AUTO : s->consistency;
    if (c->consistency != (int)consistency)
        add(w, "cluster", NULL, "consistency", sw_consistency_name(consistency));

    /* Between devices the default is auto. */
    const bool by_default = !sw_section_is_set(cluster, "comm") && s->groups * s->group_size > 1;
    if (c->comm != SW_EXCHANGE_PS || by_default)
        add(w, "cluster", NULL, "comm", sw_exchange_mode_names[SW_EXCHANGE_PS]);
}

/* ---- [layer NAME] ---- */

static void add_layer(struct writing *w, const struct sw_section *s, const char *name,
                      const struct sw_layer_choice *choice)
{
    const struct sw_layer_conf *c = s->common;
    const bool own = sw_section_is_set(s, "partition"), own_comm = sw_section_is_set(s, "comm");
    const enum sw_partition now = own ? (enum sw_partition)c->partition : SW_PARTITION_ROWS;
    const enum sw_exchange_mode comm = own_comm ? (enum sw_exchange_mode)c->comm : SW_EXCHANGE_PS;
    const bool is_whole = choice->partition == SW_PARTITION_NONE;

    if (is_whole ? own && now != SW_PARTITION_NONE : now != choice->partition)
        add(w, "layer", name, "partition", sw_partition_names[choice->partition]);
    if (is_whole && !sw_section_is_set(s, "location"))
        add_int(w, "layer", name, "location", choice->location);
    if (comm != choice->comm)
        add(w, "layer", name, "comm", sw_exchange_mode_names[choice->comm]);
}

/* Neither a bound of staleness nor a location can be taken back. */
static int check_staleness(const struct sw_cluster_conf *c, const struct sw_plan_shape *s,
                           struct sw_err *err)
{
    if (c->staleness < 0 || s->staleness >= 0 || s->consistency == SW_CONSISTENCY_BSP)
        return SW_OK;

    return sw_err_set(err, SW_ERR_INVALID,
                      "cluster.staleness = %lld is set in the recipe, and the plan has no bound: "
                      "remove the key",
                      (long long)c->staleness);
}

/* A group of one worker has all layers at location 0. */
static int check_location(const struct sw_section *s, const struct sw_planning_layer *own,
                          const struct sw_parallel_plan *p, int layer, struct sw_err *err)
{
    const struct sw_layer_conf *c = s->common;
    const struct sw_layer_choice *choice = &p->choice[layer];

    if (!sw_section_is_set(s, "location") || (p->shape.group_size == 1 && c->location == 0) ||
        (choice->partition == SW_PARTITION_NONE && choice->location == (int)c->location))
        return SW_OK;

    if (own->is_unrolled)
        return sw_err_set(err, SW_ERR_INVALID,
                          "layer %s: location = %lld is set in the recipe, and layers with time "
                          "steps are planned by rows only: remove the key, or train without a plan",
                          own->home, (long long)c->location);
    return sw_err_set(err, SW_ERR_INVALID,
                      "layer %s: location = %lld is set in the recipe, and the plan has it "
                      "elsewhere: remove the key",
                      own->home, (long long)c->location);
}

/* Did an earlier layer of the model have the same section? All are of time steps, in rows. */
static bool is_done(const struct sw_planning_net *p, int i)
{
    for (int j = 0; j < i && p->own[i].is_unrolled; j++)
        if (sw_str_eq(p->own[j].home, p->own[i].home))
            return true;
    return false;
}

static int add_layers(struct writing *w, const struct sw_planning_net *p,
                      const struct sw_parallel_plan *plan, struct sw_err *err)
{
    for (int i = 0; i < plan->layers; i++) {
        const struct sw_section *s = sw_net_section(p->net, p->own[i].node);
        if (p->layer[i].is_input || is_done(p, i))
            continue;

        int rc = check_location(s, &p->own[i], plan, i, err);
        if (rc != SW_OK)
            return rc;

        add_layer(w, s, p->own[i].home, &plan->choice[i]);
    }

    return SW_OK;
}

int sw_planning_texts(const struct sw_net_model *m, const struct sw_parallel_plan *plan, int hosts,
                      struct sw_planning_texts *out, struct sw_err *err)
{
    const struct sw_planning_net *p = m->user;
    const struct sw_section *cluster = sw_recipe_find(p->job->recipe, "cluster", NULL);
    struct writing w = {.to = out};

    *out = (struct sw_planning_texts){0};
    if (plan->layers != m->count)
        return sw_err_set(err, SW_ERR_INVALID, "a plan of %d layers, for a net of %d", plan->layers,
                          m->count);

    int rc = check_staleness(cluster->common, &plan->shape, err);
    if (rc != SW_OK)
        return rc;

    if (p->job->conf->partition != SW_PARTITION_ROWS)
        add(&w, "job", NULL, "partition", sw_partition_names[SW_PARTITION_ROWS]);
    add_budget(&w, p->job->conf, plan->fit.budget_bytes);
    add_cluster(&w, cluster, &plan->shape, hosts);
    rc = add_layers(&w, p, plan, err);

    out->ini = sw_bytes_take(&w.ini);
    if (rc == SW_OK && (w.failed || !out->ini))
        rc = sw_err_nomem(err, "the settings of a plan", 0);

    return rc;
}

void sw_planning_texts_fini(struct sw_planning_texts *t)
{
    for (int i = 0; i < t->count; i++)
        sw_free(t->sets[i]);
    sw_free(t->sets);
    sw_free(t->ini);
    *t = (struct sw_planning_texts){0};
}
