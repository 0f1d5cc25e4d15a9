/* The colors of plots: a fixed palette, then hues. No library is needed; ui/plot.h has the
 * contract. */
#include "ui/plot.h"
#include <math.h>

static uint32_t pack(double r, double g, double b)
{
    return (uint32_t)lround(255 * r) << 16 | (uint32_t)lround(255 * g) << 8 |
           (uint32_t)lround(255 * b);
}

/* The color of a hue 0..1, with a saturation and value that are readable on white. */
static uint32_t of_hue(double hue)
{
    const double value = 0.78, saturation = 0.85;
    double sector = 6 * (hue - floor(hue)), part = sector - floor(sector);
    double low = value * (1 - saturation), down = value * (1 - saturation * part);
    double up = value * (1 - saturation * (1 - part));

    switch ((int)sector) {
    case 0:
        return pack(value, up, low);
    case 1:
        return pack(down, value, low);
    case 2:
        return pack(low, value, up);
    case 3:
        return pack(low, down, value);
    case 4:
        return pack(up, low, value);
    default:
        return pack(value, low, down);
    }
}

uint32_t sw_plot_colour(int i)
{
    static const uint32_t palette[] = {0x0072b2, 0xd55e00, 0x009e73, 0xcc79a7,
                                       0xe69f00, 0x56b4e9, 0x7b5b3a, 0x555555};
    const int count = sizeof palette / sizeof *palette;
    return i < count ? palette[i] : of_hue((i - count) * 0.61803398875);
}

uint32_t sw_plot_shade(double fraction)
{
    static const double stops[][3] = {{0.97, 0.98, 1.00},
                                      {0.78, 0.86, 0.94},
                                      {0.42, 0.68, 0.84},
                                      {0.13, 0.44, 0.71},
                                      {0.03, 0.19, 0.42}};
    const int last = sizeof stops / sizeof *stops - 1;

    if (!isfinite(fraction))
        return 0xcccccc;

    double at = (fraction < 0 ? 0 : fraction > 1 ? 1 : fraction) * last;
    int i = at >= last ? last - 1 : (int)at;
    double t = at - i;

    return pack(stops[i][0] + t * (stops[i + 1][0] - stops[i][0]),
                stops[i][1] + t * (stops[i + 1][1] - stops[i][1]),
                stops[i][2] + t * (stops[i + 1][2] - stops[i][2]));
}
