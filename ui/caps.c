/* Reads from the environment what the terminal can show: UTF-8 and the number of colors. It sets
 * LC_CTYPE, so the main thread calls it before other threads exist. The contract is in
 * ui/caps.h. */
#include "ui/caps.h"

#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

struct sw_ui_caps sw_ui_caps_here(void)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    struct sw_ui_caps caps = {.colours = 8};

    if (setlocale(LC_CTYPE, ""))
        caps.utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;

    if (!term || !*term || strcmp(term, "dumb") == 0 || (no && *no))
        caps.colours = 0;
    else if (strstr(term, "256color") || strstr(term, "direct"))
        caps.colours = 256;

    return caps;
}
