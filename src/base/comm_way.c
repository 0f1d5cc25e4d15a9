#include "base/comm_way.h"

#include <stddef.h>

const char *const sw_comm_way_names[] = {"ps", "sfb", "adam", "auto", NULL};
