/* The schema of recipes: a table of all section kinds, with their option rows, configuration
 * structs and registries of types. The rows from FIRST_OF_NET on also describe a net without a job.
 */
#include "run/schema.h"

#include "data/data.h"
#include "layers/layer.h"
#include "optim/init.h"
#include "optim/schedule.h"
#include "optim/updater.h"
#include "plan/conf.h"
#include "recipe/job.h"

extern const struct sw_updater *const sw_updaters[]; /* written by the build */

/* Every descriptor begins with its struct sw_type, so a registry of descriptors is one of types. */
#define TYPES(registry) ((const struct sw_type *const *)(const void *)(registry))

static const struct sw_schema_kind kinds[] = {
    SW_JOB_SCHEMA_KIND,
    {.kind = "data",
     .form = SW_SECTION_NAMED,
     .required = true,
     .opts = sw_data_opts,
     .conf_bytes = sizeof(struct sw_data_conf),
     .type_key = {"format"},
     .types = {TYPES(sw_formats)},
     .fallback_key = "fallback",
     .paths_key = "paths"},
    {.kind = "cluster",
     .form = SW_SECTION_ONE,
     .opts = sw_cluster_opts,
     .conf_bytes = sizeof(struct sw_cluster_conf)},
    /* From here on: what a net is made of, with or without a job (FIRST_OF_NET). */
    {.kind = "updater",
     .form = SW_SECTION_ONE,
     .required = true,
     .opts = sw_updater_opts,
     .conf_bytes = sizeof(struct sw_updater_conf),
     .type_key = {"type", "policy"},
     .type_default = {"sgd", "fixed"},
     .types = {TYPES(sw_updaters), sw_schedules}},
    {.kind = "updater",
     .form = SW_SECTION_NAMED,
     .opts = sw_updater_override_opts,
     .conf_bytes = sizeof(struct sw_updater_override),
     .staged = true},
    {.kind = "layer",
     .form = SW_SECTION_NAMED,
     .required = true,
     .opts = sw_layer_opts,
     .conf_bytes = sizeof(struct sw_layer_conf),
     .type_key = {"type"},
     .types = {TYPES(sw_layer_types)},
     .param_opts = sw_param_opts,
     .param_bytes = sizeof(struct sw_init_conf),
     .staged = true},
};

enum { KINDS = sizeof kinds / sizeof *kinds, FIRST_OF_NET = 3 };

static const struct sw_schema schema = {.kinds = kinds, .count = KINDS};
static const struct sw_schema net_schema = {.kinds = kinds + FIRST_OF_NET,
                                            .count = KINDS - FIRST_OF_NET};

const struct sw_schema *sw_train_schema(void)
{
    return &schema;
}

const struct sw_schema *sw_net_schema(void)
{
    return &net_schema;
}
