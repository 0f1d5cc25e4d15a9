/* Exchange modes of a layer that is split by rows: how its gradients are reduced (parallel
 * training, section 5; Poseidon 4.3). The names are the values of the recipe key `comm`. The
 * gradient of a fully-connected layer is a sum of products over the rows of a batch, so for a small
 * batch its factors, the input of the layer and the gradient of its output, have fewer elements
 * than the gradient. A layer type declares with factors_of (layers/layer.h) that it provides
 * factors; net/shape/exchange_modes.c decides which layers use them. */
#pragma once

enum sw_exchange_mode {
    SW_EXCHANGE_PS,   /* whole gradients, reduced by servers or devices */
    SW_EXCHANGE_SFB,  /* factors are sent to all workers, each of which computes the gradient */
    SW_EXCHANGE_ADAM, /* factors are sent to the servers, which compute the gradient and return
                     matrices (Project Adam, Chilimbi et al. 2014) */
    SW_EXCHANGE_AUTO, /* whichever of these is predicted to take the least time */
};
enum { SW_EXCHANGE_MODES = SW_EXCHANGE_AUTO };

/* The names in the order of the enum, NULL-terminated. */
extern const char *const sw_exchange_mode_names[];
