/* OpenBLAS for the files of the CPU device. The first user loads it, and it is never unloaded. A
 * caller holds it for the largest number of threads that may call at once, which reserves the
 * memory that these calls need. Any thread. */
#pragma once

#include "device/cpu/blas_module.h"

/* Loads OpenBLAS if need be, and makes room for so many more calls at once; 0 only loads. Errors:
 * SW_ERR_NOMEM (the limits of the process leave too little), SW_ERR_UNSUPPORTED (singa_blas.so or
 * OpenBLAS is missing); nothing is held then. */
int sw_blas_hold(int threads, struct sw_err *err) SW_MUST_CHECK;
void sw_blas_release(int threads);

/* Holds OpenBLAS for the threads of a stream until the stream is freed, once. */
int sw_blas_hold_stream(struct sw_stream *stream, struct sw_err *err) SW_MUST_CHECK;

/* The table. Only while it is held, and between the next two: OpenBLAS and oneDNN take as many
 * threads as they find outside of a parallel region, and OpenBLAS keeps a buffer for each of them.
 * The first returns what the second needs. */
int sw_blas_stay_alone(void);
void sw_blas_be_team(int team);
const struct sw_blas_module *sw_blas(void);
