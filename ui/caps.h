/* What the terminal of this process can show, from its environment: locale, TERM and NO_COLOR. */
#pragma once

#include "ui/canvas.h"

/* Detects the capabilities. Sets LC_CTYPE from the environment, but no other part of the locale, so
 * the format of numbers does not change. The main thread calls this before it starts others.
 * NO_COLOR gives 0 colors, a TERM with 256 colors 256, else 8. */
struct sw_ui_caps sw_ui_caps_here(void);
