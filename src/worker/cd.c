/* Contrastive divergence (Hinton 2002; SINGA, TOMM 4.1.3): what a step of algorithm = cd does
 * between its forward and its backward pass, which are those of other algorithms. Forward was the
 * positive phase, on the data; backward will give the gradients of both phases. In between the
 * Gibbs chain of every RBM of the net makes its turns: down, by the backward function of the hidden
 * and the visible layer, and up again, by forward. Values do not change meanwhile, and nothing is
 * pushed. */
#include "worker/cd.h"
#include "history/snapshot.h"
#include "worker/layer_clock.h"
#include "worker/worker.h"

static bool in_chain(const struct sw_worker *w, int i, int turn)
{
    return sw_net_layer(w->train, i)->chain.steps >= turn;
}

static int run(struct sw_worker *w, int64_t t, int i, bool down, int turn, struct sw_err *err)
{
    if (!in_chain(w, i, turn))
        return SW_OK;

    sw_slot_phase(w->slot, down ? SW_PHASE_BACKWARD : SW_PHASE_FORWARD, t, i,
                  sw_net_layer(w->train, i)->name, w->timer.charged_ns);

    int rc = sw_layer_clock_begin(w, i, down, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_microbatches_gibbs_step(w->microbatches[SW_SPLIT_TRAIN], i, down, turn, err);
    if (rc != SW_OK)
        return rc;

    return sw_layer_clock_end(w, err);
}

int sw_cd_chains(struct sw_worker *w, int64_t t, struct sw_err *err)
{
    const int layers = sw_net_layer_count(w->train), turns = sw_net_chain_steps(w->train);

    for (int turn = 1; turn <= turns; turn++) {
        for (int i = layers - 1; i >= 0; i--) {
            int rc = run(w, t, i, true, turn, err);
            if (rc != SW_OK)
                return rc;
        }

        for (int i = 0; i < layers; i++) {
            int rc = run(w, t, i, false, turn, err);
            if (rc != SW_OK)
                return rc;
        }
    }

    return SW_OK;
}
