/* Computes the range of an axis, its tick positions and their labels. All arithmetic stays within
 * fixed bounds, so that NaN, infinities and flat curves give an axis, too. Pure functions; the
 * contract is in ui/ticks.h. */
#include "ui/ticks.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Limits of the ends of axes, far enough from those of double that differences, quotients and
 * margins stay finite. */
static const double LARGEST = 1e150, SMALLEST = 1e-150;
/* A relative difference below this is rounding: about an ulp of a float. */
static const double FLAT = 1e-7;

enum { DIGITS = 3, MOST_DIGITS = 12, NUMBER_BYTES = SW_TICK_LABEL };

/* ---- Ranges -----------------------------------------------------------------------------------
 */

static double clamp(double v, double low, double high)
{
    return v < low ? low : v > high ? high : v;
}

static double size_of(struct sw_ui_range r)
{
    return fmax(fabs(r.from), fabs(r.to));
}

static bool is_flat(struct sw_ui_range r)
{
    return r.to - r.from < fmax(FLAT * size_of(r), SMALLEST);
}

/* Returns a finite range with its ends in order; the range may still be flat. */
static struct sw_ui_range bounded(double from, double to, bool log)
{
    double low = log ? SMALLEST : -LARGEST;

    if (isnan(from) || isnan(to) || (log && fmax(from, to) <= 0))
        return (struct sw_ui_range){log ? 0.1 : 0, 1};
    return (struct sw_ui_range){clamp(fmin(from, to), low, LARGEST),
                                clamp(fmax(from, to), low, LARGEST)};
}

struct sw_ui_range sw_ticks_range(double from, double to, bool log)
{
    struct sw_ui_range r = bounded(from, to, log);
    if (!is_flat(r))
        return r;

    double room = size_of(r) > SMALLEST ? fmax(0.1 * size_of(r), SMALLEST) : 1;
    return log ? bounded(r.from / 2, r.to * 2, log) : bounded(r.from - room, r.to + room, log);
}

struct sw_ui_range sw_ticks_fit(double from, double to, bool log)
{
    struct sw_ui_range values = bounded(from, to, log), r = sw_ticks_range(from, to, log);

    if (!is_flat(values)) {
        double room = log ? pow(r.to / r.from, 0.04) : 0.04 * (r.to - r.from);
        r = log ? bounded(r.from / room, r.to * room, log)
                : bounded(r.from - room, r.to + room, log);
    }

    if (values.from >= 0 && r.from < 0)
        r.from = 0;
    return r;
}

double sw_ticks_fraction(struct sw_ui_range r, bool log, double value)
{
    if (log)
        return value <= 0 ? -1 : log10(value / r.from) / log10(r.to / r.from);
    return (value - r.from) / (r.to - r.from);
}

/* ---- Labels -----------------------------------------------------------------------------------
 */

/* Formats a value with the digits, or with as many as it has before the point: an exponent before a
 * prefix would be unreadable. */
static void put_digits(char *out, double value, int digits, const char *prefix)
{
    do
        snprintf(out, NUMBER_BYTES, "%.*g%.1s", digits++, value, prefix);
    while (fabs(value) >= 1 && strchr(out, 'e'));
}

const char *sw_ticks_number(char *out, double value, int digits)
{
    static const char prefixes[] = "kMGTPE";
    double scaled = value, most = 1000 - 0.5 * pow(10, digits > 3 ? 3 - digits : 0);
    int p = -1;

    if (!isfinite(value)) {
        snprintf(out, NUMBER_BYTES, "%s", isnan(value) ? "--" : value > 0 ? "inf" : "-inf");
        return out;
    }

    for (; prefixes[p + 1] && fabs(scaled) >= most; p++)
        scaled /= 1000;

    if (fabs(scaled) >= most)
        snprintf(out, NUMBER_BYTES, "%.*g", digits, value);
    else if (p == 0 && fabs(value) < 9999.5)
        snprintf(out, NUMBER_BYTES, "%.*f", digits > 4 ? digits - 4 : 0, value);
    else
        put_digits(out, scaled, digits, p < 0 ? "" : prefixes + p);

    return out;
}

static void label_all(struct sw_ticks *t, int digits)
{
    for (int i = 0; i < t->count; i++)
        sw_ticks_number(t->items[i].label, t->items[i].value, digits);
}

static bool all_fit(const struct sw_ticks *t, int columns)
{
    for (int i = 0; i < t->count; i++)
        if (strlen(t->items[i].label) > (size_t)columns)
            return false;
    return true;
}

static bool is_repeated(const struct sw_ticks *t, int i)
{
    return i > 0 && strcmp(t->items[i].label, t->items[i - 1].label) == 0;
}

static bool all_differ(const struct sw_ticks *t)
{
    for (int i = 0; i < t->count; i++)
        if (is_repeated(t, i))
            return false;
    return true;
}

static void drop_unfit(struct sw_ticks *t, int columns)
{
    int kept = 0;

    for (int i = 0; i < t->count; i++) {
        t->items[kept] = t->items[i];
        if (strlen(t->items[kept].label) <= (size_t)columns && !is_repeated(t, kept))
            kept++;
    }

    t->count = kept;
}

/* Labels the ticks with as many digits as needed to distinguish them, as far as the columns
 * suffice. */
static void put_labels(struct sw_ticks *t, int columns)
{
    int digits = DIGITS;

    label_all(t, digits);
    while (digits < MOST_DIGITS && !all_differ(t) && all_fit(t, columns))
        label_all(t, ++digits);
    while (digits > 1 && !all_fit(t, columns))
        label_all(t, --digits);
    drop_unfit(t, columns);
}

/* ---- Ticks ------------------------------------------------------------------------------------
 */

/* The distance of ticks: 1, 2 or 5 times a power of ten, so that a range has about `count` or
 * fewer. */
static double step_of(double range, int count)
{
    double rough = range / count, power = pow(10, floor(log10(rough)));
    double part = rough / power;
    return power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
}

static void add(struct sw_ticks *t, struct sw_ui_range r, bool log, double value)
{
    double fraction = sw_ticks_fraction(r, log, value);
    if (fraction >= -1e-9 && fraction <= 1 + 1e-9 && t->count < SW_TICKS)
        t->items[t->count++].value = value;
}

/* Multiples of the step are counted in integers: adding 1 to a large double changes nothing. A
 * range that is not flat holds at most 10 / FLAT steps below its end, which is far from 2^63. */
static void add_linear(struct sw_ticks *t, struct sw_ui_range r, bool log, int most)
{
    double step = step_of(r.to - r.from, most);
    int64_t first = (int64_t)floor(r.from / step), last = (int64_t)ceil(r.to / step);
    for (int64_t k = first; k <= last; k++)
        add(t, r, log, (double)k * step);
}

static void add_decades(struct sw_ticks *t, struct sw_ui_range r, double decades, int most)
{
    int every = 1 + (int)(decades / most), last = (int)ceil(log10(r.to));

    for (int d = (int)floor(log10(r.from)); d <= last; d += every) {
        add(t, r, true, pow(10, d));

        if (decades * 3 < most) {
            add(t, r, true, 2 * pow(10, d));
            add(t, r, true, 5 * pow(10, d));
        }
    }
}

void sw_ticks_make(struct sw_ticks *out, struct sw_ui_range r, bool log, int most, int columns)
{
    r = sw_ticks_range(r.from, r.to, log);

    double decades = log ? log10(r.to / r.from) : 0;
    most = most < 1 ? 1 : most > SW_TICKS / 4 ? SW_TICKS / 4 : most;
    out->count = 0;

    if (decades >= 0.7)
        add_decades(out, r, decades, most);
    else
        add_linear(out, r, log, !log ? most : most > 6 ? most / 3 : 2);

    put_labels(out, columns);
}

void sw_ticks_powers(struct sw_ticks *out, struct sw_ui_range r, int most)
{
    enum { LEAST = -1000, MOST = 1000 }; /* exponents of doubles */

    r = sw_ticks_range(fmin(fmax(r.from, LEAST), MOST), fmin(fmax(r.to, LEAST), MOST), false);
    most = most < 1 ? 1 : most > SW_TICKS / 4 ? SW_TICKS / 4 : most;
    out->count = 0;

    const int first = (int)ceil(r.from), every = 1 + (int)((r.to - r.from) / most);
    for (int e = first; e <= r.to; e += every) {
        struct sw_tick *t = &out->items[out->count++];

        t->value = e;
        if (e >= 0 && e < 20)
            snprintf(t->label, sizeof t->label, "%d", 1 << e);
        else
            sw_ticks_number(t->label, exp2(e), DIGITS);
    }
}
