/* The parts of a plan as texts. The contract is in planner/planned.h. */
#include "planner/planned.h"

#include <stdio.h>
#include <string.h>

const char *sw_planned_choice_text(const struct sw_net_model *net, int layer,
                                   const struct sw_layer_choice *c, char out[64])
{
    const struct sw_layer_model *l = &net->layer[layer];
    const char *partition = sw_partition_names[c->partition];

    if (c->partition == SW_PARTITION_NONE)
        snprintf(out, 64, "%s on worker %d", partition, c->location);
    else if (c->partition == SW_PARTITION_ROWS && l->params > 0 && l->steps > 0)
        snprintf(out, 64, "%s %s", partition, sw_exchange_mode_names[c->comm]);
    else
        snprintf(out, 64, "%s", partition);

    if (c->residency != SW_PLAN_KEPT) {
        const size_t n = strlen(out);
        snprintf(out + n, 64 - n, " %s", sw_plan_residency_names[c->residency]);
    }

    return out;
}

const char *sw_planned_shape_text(const struct sw_plan_shape *s, char out[96])
{
    const int n = snprintf(out, 96, "%d group%s of %d worker%s", s->groups,
                           s->groups == 1 ? "" : "s", s->group_size, s->group_size == 1 ? "" : "s");

    if (s->threads > 0)
        snprintf(out + n, 96 - (size_t)n, " with %d thread%s%s", s->threads,
                 s->threads == 1 ? "" : "s", s->groups * s->group_size == 1 ? "" : " each");
    return out;
}
