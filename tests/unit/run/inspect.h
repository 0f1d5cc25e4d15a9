/* The private structs that tests of whole jobs look at: the job, and what it is made of in other
 * rooms. Tests include no other private header. */
#pragma once

#include "device/sim/sim_private.h"
#include "exchange/reduce/allreduce_private.h"
#include "exchange/table/table_private.h"
#include "run/job_private.h"
