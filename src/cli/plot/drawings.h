/* Drawings for `topo --plot` and `check --plot`: a machine with where the units are, and a net with
 * how it is split. Errors of both: SW_ERR_NOMEM, and those of sw_plot_begin and sw_plot_end. */
#ifndef SW_CLI_PLOT_DRAWINGS_H
#define SW_CLI_PLOT_DRAWINGS_H

#include "cluster/placement.h"
#include "train/job.h"

/* Write a picture, PNG or SVG by the path's end: units on the machine's cores and GPUs; the net by
 * how it is split. Errors: SW_ERR_UNSUPPORTED without cairo, SW_ERR_IO, SW_ERR_NOMEM. */
int sw_draw_placement(const char *path, const struct sw_machine *m, const struct sw_placement *p,
                      struct sw_err *err) SW_MUST_CHECK;
int sw_draw_net(const char *path, const struct sw_job_plan *p, struct sw_err *err) SW_MUST_CHECK;

#endif
