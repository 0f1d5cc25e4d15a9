/* The tables of types and sections that the reference pages print: layers, updaters, learning-rate
 * policies and data formats, and the sections without types. They point at the registries and
 * option tables themselves. The contract is in cli/reference/catalogue.h. */
#include "cli/reference/catalogue.h"

#include "data/data.h"
#include "layers/layer.h"
#include "optim/init.h"
#include "optim/schedule.h"
#include "optim/updater.h"
#include "plan/conf.h"
#include "recipe/job.h"
#include <stddef.h>

static const struct sw_type *layer_at(int i)
{
    return sw_layer_types[i] ? &sw_layer_types[i]->base : NULL;
}

static const char *role_at(int i)
{
    static const char *const names[] = {[SW_ROLE_NEURON] = "neuron",
                                        [SW_ROLE_INPUT] = "input",
                                        [SW_ROLE_LOSS] = "loss",
                                        [SW_ROLE_METRIC] = "metric",
                                        [SW_ROLE_OUTPUT] = "output"};
    return names[sw_layer_types[i]->role];
}

static const struct sw_type *updater_at(int i)
{
    return sw_updaters[i] ? &sw_updaters[i]->base : NULL;
}

static const struct sw_type *schedule_at(int i)
{
    return sw_schedules[i];
}

static const struct sw_type *format_at(int i)
{
    return sw_formats[i] ? &sw_formats[i]->base : NULL;
}

const struct sw_catalogue_group sw_catalogue_groups[] = {
    {"layers", "Layers: [layer NAME] type = ...", layer_at, sw_layer_opts, sw_param_opts, role_at},
    {"updaters", "Updaters: [updater] type = ...", updater_at, sw_updater_opts, NULL, NULL},
    {"policies", "Learning rate: [updater] policy = ...", schedule_at, NULL, NULL, NULL},
    {"formats", "Data: [data NAME] format = ...", format_at, sw_data_opts, NULL, NULL},
    {0},
};

const struct sw_catalogue_section sw_catalogue_sections[] = {
    {"job", "[job]", "steps, batch, seed, when to evaluate and save", sw_job_opts},
    {"cluster", "[cluster]", "numbers of workers and servers, and where servers run",
     sw_cluster_opts},
    {"updater", "[updater PATTERN]", "multipliers for the parameters whose names match",
     sw_updater_override_opts},
    {0},
};
