/* What the standard output can show, for verbs that draw there. Main thread. */
#ifndef SW_CLI_TERMINAL_TERMINAL_H
#define SW_CLI_TERMINAL_TERMINAL_H

#include "ui/canvas.h"

/* UTF-8 by the locale's variables (LC_ALL, LC_CTYPE, LANG), colours by TERM and NO_COLOR. */
struct sw_ui_caps sw_cli_caps(void);

#endif
