/* The private structs of the exchange that tests of this room look at: the parameter table, its
 * servers and its exchange with others, and the all-reduce over devices. Tests include no other
 * private header of src/exchange. */
#pragma once

#include "exchange/reduce/allreduce_private.h"
#include "exchange/table/sync_private.h"
#include "exchange/table/table_private.h"
