/* What the terminal of stdout can show, for charts between lines of text. Main thread. */
#pragma once

#include "ui/canvas.h"

struct sw_ui_caps sw_cli_caps(void);
