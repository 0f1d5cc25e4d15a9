/* Option rows shared by several formats, so that a key means the same in all of them. conf is the
 * option struct of the format, which has a member with the name of the key. */
#pragma once

#include "recipe/option.h"

#define SW_FORMAT_PATHS(conf, what)                                                                \
    SW_OPT(PATHS, conf, paths, what ": a list of names or patterns with * and ?", .required = true)

#define SW_FORMAT_CLASSES(conf)                                                                    \
    SW_OPT(STRINGS, conf, classes,                                                                 \
           "labels in the order of their classes; unset: integers are the classes, words are "     \
           "sorted")

/* For data without names; sw_records_open reads it. */
#define SW_FORMAT_CLASS_LIST(conf)                                                                 \
    SW_OPT(STRINGS, conf, classes,                                                                 \
           "names of the classes in the order of their numbers; unset: those of class_names")

/* unset: the shape of an image whose values are a row of numbers or an array, as text. */
#define SW_FORMAT_SHAPE(conf, unset)                                                               \
    SW_OPT(STRING, conf, shape,                                                                    \
           "shape of the image, channels x height x width, such as 1x8x8; unset: " unset)
#define SW_FORMAT_SHAPE_OF_ARRAY                                                                   \
    "that of the array; for rows of numbers one channel each up to 64, else one row"

/* The limit for the size of a generated vocabulary. */
#define SW_FORMAT_MAX_TOKENS(conf, what)                                                           \
    SW_OPT(INT, conf, max_tokens, what, .def = "0", .min = 0, .max = 1e8)
