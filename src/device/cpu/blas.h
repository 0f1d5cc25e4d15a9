/* OpenBLAS for the files of the CPU device. The first user loads it, and it is never unloaded. A
 * caller holds it for the largest number of threads that may call at once, which reserves the
 * memory that these calls need. Any thread. */
#pragma once

#include "device/cpu/blas_module.h"

/* Loads OpenBLAS if necessary and reserves buffers for so many more concurrent calls; 0 only loads.
 * Errors: SW_ERR_NOMEM (the limits of the process leave too little), SW_ERR_UNSUPPORTED
 * (singa_blas.so or OpenBLAS is missing); on error nothing is held. */
int sw_blas_hold(int threads, struct sw_err *err) SW_MUST_CHECK;
void sw_blas_release(int threads);

/* Holds OpenBLAS for the threads of a stream until the stream is freed. Further calls do nothing.
 */
int sw_blas_hold_stream(struct sw_stream *stream, struct sw_err *err) SW_MUST_CHECK;

/* sw_blas returns the table, to be used only while OpenBLAS is held and between
 * sw_blas_use_one_thread and sw_blas_restore_team, which make libraries compute on the calling
 * thread only: outside of a parallel region OpenBLAS and oneDNN use the whole OpenMP team, and
 * OpenBLAS keeps a buffer per thread. sw_blas_use_one_thread returns the team size that
 * sw_blas_restore_team restores. */
int sw_blas_use_one_thread(void);
void sw_blas_restore_team(int team);
const struct sw_blas_module *sw_blas(void);
