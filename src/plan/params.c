/* Adds the parameters of a net to the parameter table with the settings of the recipe, and checks
 * patterns: every [updater PATTERN] and every pattern of job.freeze must match a parameter. By the
 * thread that opens the job. */
#include "plan/params.h"

#include "base/str.h"
#include "optim/schedule.h"
#include <stdio.h>
#include <string.h>

/* Multiplies *lr and *decay by the multipliers of all matching [updater PATTERN] sections. */
static void override_factors(const struct sw_recipe *recipe, const char *name, double *lr,
                             double *decay)
{
    for (const struct sw_section *s = sw_recipe_first(recipe, "updater"); s;
         s = sw_section_next(s)) {
        if (!s->name || !sw_str_match(s->name, name))
            continue;

        const struct sw_updater_override *o = s->common;
        *lr *= o->lr_mult;
        *decay *= o->decay_mult;
    }
}

static const struct sw_init_conf *init_conf(const struct sw_section *section, const char *param)
{
    for (int i = 0; i < section->param_count; i++)
        if (sw_str_eq(section->type[0]->params[i], param))
            return section->param_conf[i];
    return NULL;
}

int sw_params_add(const struct sw_recipe *recipe, struct sw_table *table, const struct sw_net *net,
                  int p, int factors, int *index, struct sw_err *err)
{
    const struct sw_net_param *np = sw_net_param(net, p);
    const struct sw_layer_param *lp = &sw_net_layer(net, np->layer)->param[np->index];
    const struct sw_init_conf *conf = init_conf(sw_net_section(net, np->layer), lp->name);
    struct sw_param_spec spec = {.name = np->name,
                                 .layout = lp->layout,
                                 .fan_in = lp->fan_in,
                                 .fan_out = lp->fan_out,
                                 .owner = np->owner,
                                 .part_first = lp->part_first,
                                 .part_whole = lp->part_whole,
                                 .part_dim = lp->part_dim,
                                 .factors = factors,
                                 .frozen = np->frozen,
                                 .lists_rows = sw_net_lists_rows(net, p)};

    spec.lr_mult = spec.decay_mult = 1;

    if (conf) {
        spec.init = *conf;
        spec.lr_mult = conf->lr_mult;
        spec.decay_mult = conf->decay_mult;
    }

    spec.init.natural = lp->natural;
    override_factors(recipe, np->name, &spec.lr_mult, &spec.decay_mult);
    return sw_table_add(table, &spec, index, err);
}

int sw_params_check_updater(struct sw_recipe *recipe, struct sw_err *err)
{
    const struct sw_section *u = sw_recipe_find(recipe, "updater", NULL);
    struct sw_err why = {0};
    bool readable = u->errors == 0 && u->type[1];

    if (readable && sw_schedule_check(u->type[1], u->conf[1], &why) != SW_OK)
        sw_recipe_error(recipe, u, "policy", "%s", why.text);
    return sw_recipe_status(recipe, err);
}

static bool fits(const char *pattern, const struct sw_param *p)
{
    char layer[256];
    const char *dot = strrchr(p->name, '.');
    snprintf(layer, sizeof layer, "%.*s", (int)(dot - p->name), p->name);
    return sw_net_pattern_fits(pattern, layer, dot + 1);
}

int sw_params_check_freeze(struct sw_recipe *recipe, const struct sw_strings *freeze,
                           const struct sw_table *table, struct sw_err *err)
{
    const struct sw_section *job = sw_recipe_find(recipe, "job", NULL);
    int params = sw_table_count(table), frozen = 0;

    for (int p = 0; p < params; p++)
        frozen += sw_table_param(table, p)->frozen;

    for (int i = 0; i < freeze->count; i++) {
        bool matches = false;

        for (int p = 0; p < params && !matches; p++)
            matches = fits(freeze->items[i], sw_table_param(table, p));

        if (!matches)
            sw_recipe_error_item(recipe, job, "freeze", i, "no parameter matches '%s'",
                                 freeze->items[i]);
    }

    if (params > 0 && frozen == params)
        sw_recipe_error(recipe, job, "freeze",
                        "all parameters are frozen: nothing would be trained");

    return sw_recipe_status(recipe, err);
}

int sw_params_check_patterns(struct sw_recipe *recipe, const struct sw_table *table,
                             struct sw_err *err)
{
    for (const struct sw_section *s = sw_recipe_first(recipe, "updater"); s;
         s = sw_section_next(s)) {
        bool matches = !s->name;

        for (int p = 0; p < sw_table_count(table) && !matches; p++)
            matches = sw_str_match(s->name, sw_table_param(table, p)->name);
        if (matches)
            continue;

        sw_recipe_error(recipe, s, NULL, "no parameter matches '%s'", s->name);

        if (sw_table_count(table) > 0)
            sw_recipe_hint(recipe, "parameters are named LAYER.PARAM, such as %s",
                           sw_table_param(table, 0)->name);
    }

    return sw_recipe_status(recipe, err);
}
