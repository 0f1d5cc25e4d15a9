/* Internal to search/index*.c: an index while it is built. */
#pragma once

#include "search/index.h"

struct sw_index_build {
    const struct sw_index_args *a;
    struct sw_index_header header;
    struct sw_index_part part[SW_INDEX_SECTION_END];
    void *owned[SW_INDEX_SECTION_END]; /* what part[] has of our own memory */
};

/* Our own memory for a section, zeroed; NULL after an error. */
void *sw_index_build_section(struct sw_index_build *b, int section, uint64_t bytes,
                             struct sw_err *err);
