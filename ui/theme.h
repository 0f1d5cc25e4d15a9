/* Themes: the styles of roles. A style is a color of 256, its replacement of 8, and attributes. A
 * terminal without colors gets only the attributes, which mark everything that must be noticed.
 * Dark gray is never used, since many terminals make it unreadable. Constant data; any thread. */
#pragma once

#include "ui/canvas.h"

enum sw_attribute { SW_ATTR_BOLD = 1, SW_ATTR_DIM = 2, SW_ATTR_REVERSE = 4, SW_ATTR_UNDERLINE = 8 };

struct sw_style {
    int16_t colour;          /* 0..255; -1: the terminal's own */
    int8_t basic;            /* 0..7; -1: the terminal's own */
    uint8_t attributes;      /* with colors */
    uint8_t mono_attributes; /* without colors */
};

struct sw_theme {
    const char *name;
    struct sw_style style[SW_ROLES];
};

/* All themes in the order in which the key t cycles through them; the last has a NULL name. */
extern const struct sw_theme sw_themes[];
/* Finds a theme by name; the first one if name is NULL or unknown. */
const struct sw_theme *sw_theme_find(const char *name);
/* Attributes of a role on a terminal with that many colors. */
unsigned sw_theme_attributes(const struct sw_theme *t, enum sw_role role, int colours);
/* The escape (ECMA-48 SGR) that switches from anything to a role. */
void sw_theme_escape(const struct sw_theme *t, enum sw_role role, int colours,
                     struct sw_bytes *out);
