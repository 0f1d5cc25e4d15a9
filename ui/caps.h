/* What the terminal of this process can show, from its environment: locale, TERM and NO_COLOR. */
#pragma once

#include "ui/canvas.h"

/* Sets LC_CTYPE from the environment (and nothing else of the locale: numbers stay as they are).
 * Main thread, before others exist. Colours are 0 with NO_COLOR, 256 where TERM says so, else 8. */
struct sw_ui_caps sw_ui_caps_here(void);
