/* The units of a restricted Boltzmann machine, for kernels of every device. With x what the other
 * side gives (W v or W' h), b the biases, and s a side's states:
 *
 *   bernoulli   0 or 1     mean sigma(x + b)     energy -b s            free  -log(1 + exp(x + b))
 *   gaussian    N(., 1)    mean x + b            energy (s - b)^2 / 2   free  -(b x + x^2 / 2)
 *   softmax     counts     mean T softmax(x + b) energy -b s            -
 *
 * `energy` is what a state's own units add to a machine's energy, `free` what is left of it when
 * they are summed out (up to log sqrt(2 pi) per gaussian unit), so that the free energy of visible
 * states is energy(v) + sum free(W v). Softmax units are counts of words, T in all, that share one
 * choice (replicated softmax: Salakhutdinov and Hinton 2009); biases of the hidden units above
 * count T times. Gaussian units have variance 1 (Hinton 2010, section 13.2). */
#pragma once

enum sw_units { SW_UNITS_BERNOULLI, SW_UNITS_GAUSSIAN, SW_UNITS_SOFTMAX };
