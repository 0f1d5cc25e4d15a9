/* Names of the exchange modes, in the order of the enum in base/exchange_mode.h. They are the
 * choices of the recipe key `comm`. */
#include "base/exchange_mode.h"

#include <stddef.h>

const char *const sw_exchange_mode_names[] = {"ps", "sfb", "adam", "auto", NULL};
