/* Images for verbs with --plot FILE; the name of the file gives the format. */
#pragma once

#include "cli/cli.h"
#include "plan/placement.h"
#include "run/job.h"
#include "ui/plot_pictures.h"

/* Whether the name of OPTION=PATH ends in .png or .svg; else prints an error. */
bool sw_picture_is_named_by(const char *verb, const char *option, const char *path);
/* The same for --plot. */
bool sw_picture_is_named(const char *verb, const char *path);
enum sw_plot_format sw_picture_format_of(const char *path);
/* Draws images side by side into a file of that name. Errors: those of sw_plot_begin and
 * sw_plot_end, SW_ERR_NOMEM. */
int sw_picture_draw_tiles(const char *path, const struct sw_plot_tiles *t,
                          struct sw_err *err) SW_MUST_CHECK;

/* Draw to a PNG or SVG file, depending on the path's suffix: workers and servers on the machine's
 * cores and GPUs; the net and its partition. Errors: SW_ERR_UNSUPPORTED without cairo, SW_ERR_IO,
 * SW_ERR_NOMEM. */
int sw_draw_placement(const char *path, const struct sw_machine *m, const struct sw_placement *p,
                      struct sw_err *err) SW_MUST_CHECK;
int sw_draw_net(const char *path, const struct sw_job_plan *p, struct sw_err *err) SW_MUST_CHECK;
