/* Synthetic motion: hashes of (seed, style or sequence) give the constants, closed forms the rest.
 */
#include "data/synthetic_motion.h"
#include "base/philox.h"
#include <math.h>

#define TURN 6.283185307179586
#define NOISE 0.05

/* The constants of a value or a sequence are numbered. */
enum { SPEED, PHASE, SIZE, STYLE, FIRST, SECOND, FIRST_PHASE, SECOND_PHASE, HARMONIC, CONSTANTS };

/* 0 to 1, a function of the key and the number. */
static double unit(uint64_t key, int64_t number)
{
    return (double)(sw_mix64(key ^ sw_mix64((uint64_t)number)) >> 11) * 0x1p-53;
}

int32_t sw_synthetic_style(const struct sw_synthetic_motion *m, int64_t sequence)
{
    return (int32_t)(unit(m->split_key, sequence * CONSTANTS + STYLE) * SW_MOTION_STYLES);
}

/* The phase of the oscillator in a frame. */
static double theta(const struct sw_synthetic_motion *m, int64_t sequence, int32_t style, int64_t t)
{
    const int64_t own = sequence * CONSTANTS;
    const double speed = (0.7 + 0.6 * unit(m->split_key, own + SPEED)) * (style ? 0.9 : 0.6);
    const double u = TURN * unit(m->split_key, own + PHASE) + speed * (double)t;

    return style ? u + 0.4 * sin(u) + 0.3 * sin(2 * u) : u + 0.9 * sin(u);
}

static double value_of(const struct sw_synthetic_motion *m, int32_t style, int64_t d, double at)
{
    const int64_t own = (style * m->width + d) * CONSTANTS;
    const double harmonic = unit(m->style_key, own + HARMONIC) < 0.7 ? 1 : 2;
    const double first = 0.5 + 0.5 * unit(m->style_key, own + FIRST),
                 second = 0.4 * unit(m->style_key, own + SECOND);

    return first * sin(harmonic * at + TURN * unit(m->style_key, own + FIRST_PHASE)) +
           second * sin(2 * at + TURN * unit(m->style_key, own + SECOND_PHASE));
}

void sw_synthetic_frames(const struct sw_synthetic_motion *m, int64_t sequence, int64_t first,
                         int64_t n, float *out)
{
    const int32_t style = sw_synthetic_style(m, sequence);
    const double size = 0.8 + 0.4 * unit(m->split_key, sequence * CONSTANTS + SIZE);
    const uint64_t noise = sw_mix64(m->split_key + (uint64_t)sequence);

    for (int64_t t = first; t < first + n; t++) {
        const double at = theta(m, sequence, style, t);

        for (int64_t d = 0; d < m->width; d++)
            *out++ = (float)(size * value_of(m, style, d, at) +
                             NOISE * (2 * unit(noise, t * m->width + d) - 1));
    }
}
