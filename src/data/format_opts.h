/* Rows of option tables that several formats have, so that a key means the same in all of them.
 * conf is the format's configuration, which has a member of the key's name. */
#pragma once

#include "recipe/option.h"

#define SW_FORMAT_PATHS(conf, what)                                                                \
    SW_OPT(STRINGS, conf, paths, what ": a list, each may be a pattern with * and ?",              \
           .required = true)

#define SW_FORMAT_CLASSES(conf)                                                                    \
    SW_OPT(STRINGS, conf, classes,                                                                 \
           "labels in the order of their classes; unset: whole numbers are the classes, words "    \
           "are sorted")

/* unset: what shape an image has that is a row of numbers, or an array. */
#define SW_FORMAT_SHAPE(conf, unset)                                                               \
    SW_OPT(STRING, conf, shape,                                                                    \
           "of the image, channels x height x width, such as 1x8x8; unset: " unset)
#define SW_FORMAT_SHAPE_OF_ARRAY                                                                   \
    "that of the array, and of rows of numbers a channel for each up to 64, else one row"

/* The most tokens of a vocabulary that is made. */
#define SW_FORMAT_MAX_TOKENS(conf, what)                                                           \
    SW_OPT(INT, conf, max_tokens, what, .def = "0", .min = 0, .max = 1e8)
