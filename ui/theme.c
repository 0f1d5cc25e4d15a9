/* The tables of colors and attributes for each theme, and their ANSI escapes. A terminal without
 * color shows only the attributes, so a role that must be noticed (focus, selection, errors) needs
 * one of its own. The contract is in ui/theme.h. */
#include "ui/theme.h"

enum { B = SW_ATTR_BOLD, D = SW_ATTR_DIM, R = SW_ATTR_REVERSE, U = SW_ATTR_UNDERLINE };

const struct sw_theme sw_themes[] = {
    {.name = "default",
     .style =
         {
             [SW_ROLE_TEXT] = {-1, -1, 0, 0},   [SW_ROLE_DIM] = {245, -1, 0, D},
             [SW_ROLE_TITLE] = {81, 6, B, B},   [SW_ROLE_STRONG] = {-1, -1, B, B},
             [SW_ROLE_BORDER] = {240, 4, 0, D}, [SW_ROLE_FOCUS] = {81, 6, B, B},
             [SW_ROLE_KEY] = {221, 3, B, U},    [SW_ROLE_GOOD] = {114, 2, 0, 0},
             [SW_ROLE_WARN] = {221, 3, B, B},   [SW_ROLE_BAD] = {203, 1, B, B | R},
             [SW_ROLE_SELECT] = {-1, -1, R, R}, [SW_ROLE_LINE1] = {81, 6, 0, B},
             [SW_ROLE_LINE2] = {215, 3, B, 0},  [SW_ROLE_LINE3] = {176, 5, 0, D},
             [SW_ROLE_LINE4] = {114, 2, 0, 0},  [SW_ROLE_COMPUTE] = {114, 2, 0, B},
             [SW_ROLE_DATA] = {221, 3, 0, 0},   [SW_ROLE_COPY] = {176, 5, 0, 0},
             [SW_ROLE_COMM] = {75, 4, 0, 0},    [SW_ROLE_WAIT] = {203, 1, 0, D},
         }},
    {.name = "light",
     .style =
         {
             [SW_ROLE_TEXT] = {-1, -1, 0, 0},    [SW_ROLE_DIM] = {242, -1, 0, D},
             [SW_ROLE_TITLE] = {25, 4, B, B},    [SW_ROLE_STRONG] = {-1, -1, B, B},
             [SW_ROLE_BORDER] = {248, -1, 0, D}, [SW_ROLE_FOCUS] = {25, 4, B, B},
             [SW_ROLE_KEY] = {130, 1, B, U},     [SW_ROLE_GOOD] = {28, 2, 0, 0},
             [SW_ROLE_WARN] = {130, 5, B, B},    [SW_ROLE_BAD] = {160, 1, B, B | R},
             [SW_ROLE_SELECT] = {-1, -1, R, R},  [SW_ROLE_LINE1] = {25, 4, 0, B},
             [SW_ROLE_LINE2] = {166, 1, B, 0},   [SW_ROLE_LINE3] = {97, 5, 0, D},
             [SW_ROLE_LINE4] = {28, 2, 0, 0},    [SW_ROLE_COMPUTE] = {28, 2, 0, B},
             [SW_ROLE_DATA] = {130, 5, 0, 0},    [SW_ROLE_COPY] = {97, 5, 0, 0},
             [SW_ROLE_COMM] = {25, 4, 0, 0},     [SW_ROLE_WAIT] = {160, 1, 0, D},
         }},
    /* Blue and orange only (Okabe and Ito 2008), which all kinds of color vision can
     * distinguish. */
    {.name = "colour-blind",
     .style =
         {
             [SW_ROLE_TEXT] = {-1, -1, 0, 0},   [SW_ROLE_DIM] = {246, -1, 0, D},
             [SW_ROLE_TITLE] = {75, 6, B, B},   [SW_ROLE_STRONG] = {-1, -1, B, B},
             [SW_ROLE_BORDER] = {240, 4, 0, D}, [SW_ROLE_FOCUS] = {75, 6, B, B},
             [SW_ROLE_KEY] = {214, 3, B, U},    [SW_ROLE_GOOD] = {75, 6, 0, 0},
             [SW_ROLE_WARN] = {214, 3, B, B},   [SW_ROLE_BAD] = {208, 3, B | R, B | R},
             [SW_ROLE_SELECT] = {-1, -1, R, R}, [SW_ROLE_LINE1] = {75, 6, 0, B},
             [SW_ROLE_LINE2] = {214, 3, B, 0},  [SW_ROLE_LINE3] = {252, 7, 0, D},
             [SW_ROLE_LINE4] = {228, 7, B, 0},  [SW_ROLE_COMPUTE] = {75, 6, 0, B},
             [SW_ROLE_DATA] = {228, 7, 0, 0},   [SW_ROLE_COPY] = {252, 7, 0, 0},
             [SW_ROLE_COMM] = {33, 4, 0, 0},    [SW_ROLE_WAIT] = {208, 3, 0, D},
         }},
    {.name = "mono",
     .style =
         {
             [SW_ROLE_TEXT] = {-1, -1, 0, 0},   [SW_ROLE_DIM] = {-1, -1, D, D},
             [SW_ROLE_TITLE] = {-1, -1, B, B},  [SW_ROLE_STRONG] = {-1, -1, B, B},
             [SW_ROLE_BORDER] = {-1, -1, D, D}, [SW_ROLE_FOCUS] = {-1, -1, B, B},
             [SW_ROLE_KEY] = {-1, -1, U, U},    [SW_ROLE_GOOD] = {-1, -1, 0, 0},
             [SW_ROLE_WARN] = {-1, -1, B, B},   [SW_ROLE_BAD] = {-1, -1, B | R, B | R},
             [SW_ROLE_SELECT] = {-1, -1, R, R}, [SW_ROLE_LINE1] = {-1, -1, B, B},
             [SW_ROLE_LINE2] = {-1, -1, 0, 0},  [SW_ROLE_LINE3] = {-1, -1, D, D},
             [SW_ROLE_LINE4] = {-1, -1, 0, 0},  [SW_ROLE_COMPUTE] = {-1, -1, B, B},
             [SW_ROLE_DATA] = {-1, -1, 0, 0},   [SW_ROLE_COPY] = {-1, -1, 0, 0},
             [SW_ROLE_COMM] = {-1, -1, 0, 0},   [SW_ROLE_WAIT] = {-1, -1, D, D},
         }},
    {.name = NULL},
};

const struct sw_theme *sw_theme_find(const char *name)
{
    for (const struct sw_theme *t = sw_themes; name && t->name; t++)
        if (sw_str_eq(t->name, name))
            return t;
    return &sw_themes[0];
}

unsigned sw_theme_attributes(const struct sw_theme *t, enum sw_role role, int colours)
{
    const struct sw_style *style = &t->style[role];
    return colours > 0 ? style->attributes : style->mono_attributes;
}

void sw_theme_escape(const struct sw_theme *t, enum sw_role role, int colours, struct sw_bytes *out)
{
    const struct sw_style *style = &t->style[role];
    unsigned attributes = sw_theme_attributes(t, role, colours);

    sw_bytes_add(out, "\033[0");
    if (attributes & B)
        sw_bytes_add(out, ";1");
    if (attributes & D)
        sw_bytes_add(out, ";2");
    if (attributes & U)
        sw_bytes_add(out, ";4");
    if (attributes & R)
        sw_bytes_add(out, ";7");

    if (colours >= 256 && style->colour >= 0)
        sw_bytes_printf(out, ";38;5;%d", style->colour);
    else if (colours >= 8 && style->basic >= 0)
        sw_bytes_printf(out, ";3%d", style->basic);

    sw_bytes_add(out, "m");
}
