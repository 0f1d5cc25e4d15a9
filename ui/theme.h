/* Themes: the looks of roles. A look is a color of 256, its replacement of 8, and attributes. A
 * terminal without colors gets only the attributes, which show everything that must be noticed.
 * Dark grey is never used, since many terminals make it unreadable. Constant data; any thread. */
#pragma once

#include "ui/canvas.h"

enum sw_attribute { SW_ATTR_BOLD = 1, SW_ATTR_DIM = 2, SW_ATTR_REVERSE = 4, SW_ATTR_UNDERLINE = 8 };

struct sw_style {
    int16_t colour;          /* 0..255; -1: the terminal's own */
    int8_t basic;            /* 0..7; -1: the terminal's own */
    uint8_t attributes;      /* with colours */
    uint8_t mono_attributes; /* without */
};

struct sw_theme {
    const char *name;
    struct sw_style style[SW_ROLES];
};

/* All of them, in the order in which the key goes through them; NULL-terminated by name. */
extern const struct sw_theme sw_themes[];
/* NULL or unknown: the first. */
const struct sw_theme *sw_theme_find(const char *name);
/* Attributes of a role where there are that many colours. */
unsigned sw_theme_attributes(const struct sw_theme *t, enum sw_role role, int colours);
/* The escape (ECMA-48 SGR) that switches from anything to a role. */
void sw_theme_escape(const struct sw_theme *t, enum sw_role role, int colours, struct sw_buf *out);
