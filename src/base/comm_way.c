/* Names of the exchange modes, in the order of the enum in base/comm_way.h. They are the choices of
 * the recipe key `comm`. */
#include "base/comm_way.h"

#include <stddef.h>

const char *const sw_comm_way_names[] = {"ps", "sfb", "adam", "auto", NULL};
