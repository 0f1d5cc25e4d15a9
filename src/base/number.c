/* The number functions of base/str.h: strict parsing of user input, and human-readable formats. */
#include "base/str.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *skip_digits(const char *s)
{
    while (isdigit((unsigned char)*s))
        s++;
    return s;
}

static const char *skip_sign(const char *s)
{
    return *s == '-' || *s == '+' ? s + 1 : s;
}

bool sw_parse_int(const char *s, int64_t *value)
{
    const char *digits = skip_sign(s), *end = skip_digits(digits);
    if (end == digits || *end)
        return false;

    errno = 0;
    long long v = strtoll(s, NULL, 10);
    if (errno)
        return false;

    *value = v;
    return true;
}

/* The end of [sign] digits [. digits] [e [sign] digits] at s, or NULL: strtod alone would also take
 * hexadecimal, "inf", "nan" and leading blanks. */
static const char *real_end(const char *s)
{
    const char *start = skip_sign(s), *end = skip_digits(start);
    ptrdiff_t digits = end - start;

    if (*end == '.') {
        const char *fraction = end + 1;
        end = skip_digits(fraction);
        digits += end - fraction;
    }

    if (!digits)
        return NULL;

    if (*end == 'e' || *end == 'E') {
        const char *exponent = skip_sign(end + 1), *after = skip_digits(exponent);
        if (after > exponent)
            end = after;
    }

    return end;
}

bool sw_parse_real(const char *s, double *value)
{
    const char *end = real_end(s);
    if (!end || *end)
        return false;

    double v = strtod(s, NULL);
    if (!isfinite(v))
        return false;

    *value = v;
    return true;
}

bool sw_parse_bytes(const char *s, int64_t *value)
{
    static const struct {
        const char *name;
        double factor;
    } units[] = {{"", 1},       {"B", 1},        {"kB", 1e3},     {"MB", 1e6},     {"GB", 1e9},
                 {"TB", 1e12},  {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
                 {"kbit", 125}, {"Mbit", 125e3}, {"Gbit", 125e6}, {"Tbit", 125e9}};

    const char *unit = real_end(s);
    /* Exponents are refused: the e of "1e3" could be taken for exabytes. */
    if (!unit || *s == '-' || memchr(s, 'e', (size_t)(unit - s)) ||
        memchr(s, 'E', (size_t)(unit - s)))
        return false;

    double number = strtod(s, NULL);
    if (*unit == ' ' && unit[1])
        unit++;

    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcasecmp(unit, units[i].name) != 0)
            continue;

        double bytes = number * units[i].factor;
        if (!(bytes < 0x1p62))
            return false;

        *value = (int64_t)llround(bytes);
        return true;
    }

    return false;
}

bool sw_parse_rate(const char *s, int64_t *bytes_per_s)
{
    char amount[64];
    const size_t length = strlen(s);
    if (length >= sizeof amount)
        return false;

    memcpy(amount, s, length + 1);
    if (length > 2 && strcmp(s + length - 2, "/s") == 0)
        amount[length - 2] = '\0';
    return sw_parse_bytes(amount, bytes_per_s);
}

bool sw_parse_seconds(const char *s, double *value)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};

    const char *unit = real_end(s);
    if (!unit || *s == '-')
        return false;

    const double number = strtod(s, NULL);
    unit += *unit == ' ';

    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        const double seconds = number * units[i].seconds;
        if (strcmp(unit, units[i].name) != 0 || !isfinite(seconds))
            continue;

        *value = seconds;
        return true;
    }

    return false;
}

bool sw_parse_bool(const char *s, bool *value)
{
    static const char *const yes[] = {"yes", "true", "on", "1"};
    static const char *const no[] = {"no", "false", "off", "0"};

    for (int i = 0; i < 4; i++) {
        if (strcmp(s, yes[i]) == 0 || strcmp(s, no[i]) == 0) {
            *value = strcmp(s, yes[i]) == 0;
            return true;
        }
    }

    return false;
}

enum { HUMAN_BYTES = 32 };

/* The next prefix is used from here on, where rounding would give 1000. */
static bool needs_prefix(double value, bool has_prefix)
{
    return fabs(value) >= (has_prefix ? 999.95 : 999.5);
}

const char *sw_human_unit(char *out, double value, const char *unit)
{
    static const char prefixes[] = "kMGTPEZYRQ";
    const char *gap = *unit ? " " : "";
    double scaled = value;
    int p = -1, last = (int)sizeof prefixes - 2;

    if (!isfinite(value)) {
        snprintf(out, HUMAN_BYTES, "--");
        return out;
    }

    for (; p < last && needs_prefix(scaled, p >= 0); p++)
        scaled /= 1000;

    if (p >= 0 && needs_prefix(scaled, true))
        snprintf(out, HUMAN_BYTES, "%.3g%s%s", value, gap, unit);
    else if (p >= 0)
        snprintf(out, HUMAN_BYTES, "%.1f %c%s", scaled, prefixes[p], unit);
    else
        snprintf(out, HUMAN_BYTES, "%.*g%s%s", 3, value, gap, unit);

    return out;
}

const char *sw_human_bytes(char *out, double bytes)
{
    return sw_human_unit(out, bytes, "B");
}

const char *sw_human_count(char *out, double count)
{
    return sw_human_unit(out, count, "");
}

/* Formats a time below a second with three digits: "94.7 us". */
static void short_seconds(char *out, double seconds)
{
    const char *unit = seconds < 0.9995e-6 ? "ns" : seconds < 0.9995e-3 ? "us" : "ms";
    double scale = seconds < 0.9995e-6 ? 1e9 : seconds < 0.9995e-3 ? 1e6 : 1e3;
    snprintf(out, HUMAN_BYTES, "%.3g %s", scale * seconds, unit);
}

const char *sw_human_real(char *out, double value)
{
    if (!isfinite(value) || fabs(value) >= 9999.5)
        return sw_human_count(out, value);

    snprintf(out, HUMAN_BYTES, "%.4g", value);
    return out;
}

const char *sw_human_seconds(char *out, double seconds)
{
    double whole = nearbyint(seconds);

    if (!(seconds >= 0 && seconds < 1e12))
        snprintf(out, HUMAN_BYTES, "--");
    else if (seconds > 0 && seconds < 0.9995)
        short_seconds(out, seconds);
    else if (seconds < 59.95)
        snprintf(out, HUMAN_BYTES, "%.1f s", seconds);
    else if (whole < 3600)
        snprintf(out, HUMAN_BYTES, "%d m %02d s", (int)whole / 60, (int)whole % 60);
    else if (whole < 86400)
        snprintf(out, HUMAN_BYTES, "%d h %02d m", (int)whole / 3600, (int)whole % 3600 / 60);
    else
        snprintf(out, HUMAN_BYTES, "%lld d %02d h", (long long)whole / 86400,
                 (int)((long long)whole % 86400 / 3600));

    return out;
}
