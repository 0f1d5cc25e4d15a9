/* Finds out from the environment what the terminal of stdout can show. */
#include "cli/terminal/caps.h"

#include "cli/cli.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Whether the locale of the environment is UTF-8. The program does not call setlocale, so that
 * number formats stay fixed; the first variable that is set decides, as in setlocale(3). */
static bool is_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && *value) {
            const char *charset = strchr(value, '.');
            return charset &&
                   (strcasecmp(charset, ".utf-8") == 0 || strcasecmp(charset, ".utf8") == 0);
        }
    }

    return false;
}

struct sw_ui_caps sw_cli_caps(void)
{
    const char *term = getenv("TERM");
    int colours = !sw_cli_colour() ? 0 : term && strstr(term, "256") ? 256 : 8;
    return (struct sw_ui_caps){is_utf8(), colours};
}
