/* The engines of this build. */
#include "run/launch.h"

const struct sw_launch_engines sw_launch_engines = {.tcp = &sw_fabric_tcp,
                                                    .tcp_listen = sw_tcp_listen};
