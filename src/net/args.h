/* What the stages of a net derive from its arguments. */
#pragma once

#include "base/str.h"
#include "net/net.h"

/* A data field, or NULL: the source has no such field. */
static inline const struct sw_net_field *sw_net_args_field(const struct sw_net_args *a,
                                                           const char *field)
{
    for (int i = 0; i < a->field_count; i++)
        if (sw_str_eq(a->fields[i].name, field))
            return &a->fields[i];
    return NULL;
}
