/* Images without labels: files, and folders with the images below them, in any nesting. It is not a
 * format of recipes but that of images that are given for prediction. Records are in the order of
 * `paths`, those of a folder sorted by name. */
#pragma once

#include "data/format.h"

/* The option struct of sw_image_files. */
struct sw_image_files_conf {
    struct sw_strings paths;
};

extern const struct sw_format sw_image_files;
