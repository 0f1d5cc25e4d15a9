/* Axes: which range is shown, and the round numbers (1, 2 or 5 times a power of ten) that are
 * marked on it. Charts made of cells (chart.c) and images (plot_chart.c, plot_pictures.c) use the
 * same axes. Pure functions that accept any numbers: NaN, infinities, the smallest and the largest
 * ones. No state. */
#pragma once

#include <stdbool.h>

struct sw_ui_range {
    double from, to;
};

/* A range that can be drawn and labeled: finite, from < to, positive on a log scale, and wide
 * enough that the labels of its ends differ. Ends in the wrong order are swapped; ends that are
 * closer than one part in ten million, which is rounding, are widened by a tenth of their value (by
 * a factor of two each on a log scale); ends that are not numbers give 0 to 1 (0.1 to 1). Any other
 * range is returned unchanged. */
struct sw_ui_range sw_ticks_range(double from, double to, bool log);
/* The range for values between two ends, with a margin above and below, but none below 0 if no
 * value is negative. */
struct sw_ui_range sw_ticks_fit(double from, double to, bool log);
/* The position of a value: 0 at the lower end, 1 at the upper end; -1 if it has no logarithm, NaN
 * for NaN. The range is one of sw_ticks_range. */
double sw_ticks_fraction(struct sw_ui_range r, bool log, double value);

enum { SW_TICKS = 128, SW_TICK_LABEL = 24 };

struct sw_tick {
    double value;
    char label[SW_TICK_LABEL];
};

struct sw_ticks {
    struct sw_tick items[SW_TICKS]; /* by value; no two labels are the same */
    int count;
};

/* Makes about `most` round numbers (powers of ten on a log scale) within a range, its ends
 * included, with labels of at most `columns` characters. A label has three digits, or more if
 * neighbors would look the same; ticks whose labels do not fit are left out. A log scale that spans
 * less than a factor of five has a third as many ticks, at equal distances. */
void sw_ticks_make(struct sw_ticks *out, struct sw_ui_range r, bool log, int most, int columns);

/* The same for a range of binary logarithms: the marks are whole numbers, and their labels the
 * powers of two. */
void sw_ticks_powers(struct sw_ticks *out, struct sw_ui_range r, int most);

/* A short number for an axis or a headline: "0.0431", "2.5", "12k", "3.2M", "1e-07", "--" for NaN,
 * into out (at least SW_TICK_LABEL bytes); digits is 1 to 12. Three digits need 11 bytes. */
const char *sw_ticks_number(char *out, double value, int digits);
