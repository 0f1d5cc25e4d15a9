/* Generated motion for the synthetic format: sequences of frames, in which all values move with one
 * oscillator, as the joints of a walking body do. A sequence has one of SW_MOTION_STYLES styles and
 * its own speed, phase and size. With the phase u, which grows evenly,
 *
 *   theta = u + a sin u + b sin 2 u        x_d = c_d sin(h_d theta + p_d) + e_d sin(2 theta + q_d)
 *
 * plus a little noise; a, b, c, e, p, q and the harmonics h (1 or 2) depend on the style. So the
 * motion is fast in one part of a cycle and slow in another, in two ways at many speeds: a linear
 * function of the past does not predict it exactly. Pure functions of the keys, the sequence and
 * the frame: any thread can generate any frame. */
#pragma once

#include <stdint.h>

enum { SW_MOTION_STYLES = 2 };

struct sw_synthetic_motion {
    uint64_t style_key; /* key of the styles, the same in every split */
    uint64_t split_key;
    int64_t width;  /* values of a frame */
    int64_t frames; /* of a sequence */
    int64_t order;  /* past frames of a record */
};

/* Returns the style of a sequence, 0 .. SW_MOTION_STYLES - 1. */
int32_t sw_synthetic_style(const struct sw_synthetic_motion *m, int64_t sequence);

/* Generates frames [first, first + n) of a sequence: [n, width]. */
void sw_synthetic_frames(const struct sw_synthetic_motion *m, int64_t sequence, int64_t first,
                         int64_t n, float *out);
