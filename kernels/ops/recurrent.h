/* Runs a recurrent cell over a sequence, and backpropagates through time: one operation each. The
 * steps of a row are adjacent ([rows, steps, width], plain); `reverse` runs from the last step to
 * the first.
 *
 * Gates are stored one after the other in weights, biases and `gates`, in the order of cuDNN and
 * PyTorch; W is [gates hidden, inputs], U [gates hidden, hidden]:
 *
 *   rnn    h = f(W x + U h' + b), f tanh or max(0, .)
 *   gru    r = s(W_r x + U_r h' + b_r), z = s(W_z x + U_z h' + b_z), q = U_n h' + c,
 *          n = tanh(W_n x + b_n + r q), h = (1 - z) n + z h'
 *          (Cho et al. 2014, with the reset gate applied after the product, as in SINGA, cuDNN and
 *          PyTorch); b is [b_r, b_z, b_n, c]
 *   lstm   i, f, g, o = s, s, tanh, s(W x + U h' + b), c = f c' + i g, h = o tanh c
 *          (Hochreiter and Schmidhuber 1997; Gers, Schmidhuber and Cummins 2000)
 *
 * Results do not depend on the number of threads. */
#pragma once

#include "kernels/op.h"

enum sw_cell_kind { SW_CELL_RNN_TANH, SW_CELL_RNN_RELU, SW_CELL_GRU, SW_CELL_LSTM };

struct sw_recurrent {
    enum sw_cell_kind kind;
    int64_t rows, steps, inputs, hidden;
    int64_t pitch; /* floats between outputs of consecutive steps: hidden, or more if outputs of the
                      other direction are interleaved */
    bool reverse;
    bool last; /* y is only the output of the last step, [rows, .], not [rows, steps, .] */
};

/* The number of blocks of `hidden` floats: in the rows of W and U; in b; in the data that a step
 * saves in `gates` (the gates, and q of gru or c' of lstm). */
SW_BOTH int64_t sw_cell_gates(enum sw_cell_kind k)
{
    return k == SW_CELL_GRU ? 3 : k == SW_CELL_LSTM ? 4 : 1;
}
SW_BOTH int64_t sw_cell_biases(enum sw_cell_kind k)
{
    return k == SW_CELL_RNN_TANH || k == SW_CELL_RNN_RELU ? 1 : 4;
}
SW_BOTH int64_t sw_cell_saved(enum sw_cell_kind k)
{
    return k == SW_CELL_GRU ? 4 : k == SW_CELL_LSTM ? 5 : 1;
}

/* Returns the index of the time step that runs as the s-th. */
SW_BOTH int64_t sw_recurrent_step(const struct sw_recurrent *r, int64_t s)
{
    return r->reverse ? r->steps - 1 - s : s;
}
/* The offset of the output of the step that runs as the s-th, -1 if it is not stored; and the
 * number of floats between rows of the output. */
SW_BOTH int64_t sw_recurrent_output(const struct sw_recurrent *r, int64_t s)
{
    return r->last ? (s == r->steps - 1 ? 0 : -1) : sw_recurrent_step(r, s) * r->pitch;
}
SW_BOTH int64_t sw_recurrent_output_pitch(const struct sw_recurrent *r)
{
    return r->last ? r->pitch : r->steps * r->pitch;
}

struct sw_recurrent_args {
    struct sw_recurrent r;
    const float *x; /* [rows, steps, inputs] */
    const float *weight, *recurrent, *bias;
    const float *h0, *c0; /* [rows, hidden]: initial state of a run that resets; NULL: zeros */
    float *h, *c;         /* [rows, hidden]: final h, and c of lstm; h may be NULL */
    bool carried; /* the run continues from the recurrent state in h and c, unless the step resets
                     it */
    const struct sw_step *step;
    float *gates;  /* [rows, steps, saved blocks * hidden]: gates, for backward */
    float *before; /* [rows, steps, hidden]: h', for backward */
    float *y;
};
extern const struct sw_op sw_op_recurrent;

struct sw_recurrent_gradient_args {
    struct sw_recurrent r;
    const float *x, *weight, *recurrent;
    const float *gates, *before; /* as written by forward */
    const float *dy;             /* like y */
    float *dgates;               /* scratch [rows, steps, biases hidden] */
    float *dstate;   /* [2, rows, hidden]: dh and dc of the next step; scratch, unless handed_on */
    bool handed_on;  /* dstate contains the gradients of the final state on entry and those of the
                        initial state on return */
    float *dx, *dh0; /* NULL: not needed */
    bool adds_dx;    /* add to dx, which the other direction has written */
    float *dweight, *drecurrent, *dbias; /* dweight NULL: none of the three */
    bool adds_dweight, adds_drecurrent;  /* add to dweight, to drecurrent */
};
extern const struct sw_op sw_op_recurrent_gradient;

/* The initial recurrent state of rows: that of the previous batch, or zeros if the step resets
 * it. */
struct sw_initial_state_args {
    int64_t n;         /* floats */
    const float *from; /* NULL: zeros */
    const struct sw_step *step;
    float *to;
};
extern const struct sw_op sw_op_initial_state;
