/* The units of a restricted Boltzmann machine, for kernels of every device. x is the input from the
 * other side (W v or W' h), b the biases, and s the states of a side:
 *
 *   bernoulli   0 or 1     mean sigma(x + b)     energy -b s            free  -log(1 + exp(x + b))
 *   gaussian    N(., 1)    mean x + b            energy (s - b)^2 / 2   free  -(b x + x^2 / 2)
 *   softmax     counts     mean T softmax(x + b) energy -b s            -
 *
 * `energy` is the contribution of the units of one side to the energy of the machine, `free` their
 * contribution when the units are summed out (up to log sqrt(2 pi) per gaussian unit), so that the
 * free energy of visible states is energy(v) + sum free(W v). Softmax units are counts of words, T
 * in total, drawn from one softmax (replicated softmax: Salakhutdinov and Hinton 2009); the biases
 * of their hidden units are multiplied by T. Gaussian units have variance 1 (Hinton 2010, section
 * 13.2). */
#pragma once

enum sw_units { SW_UNITS_BERNOULLI, SW_UNITS_GAUSSIAN, SW_UNITS_SOFTMAX };
