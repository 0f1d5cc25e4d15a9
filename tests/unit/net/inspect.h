/* The private structs of a net that tests of this room look at. Tests include no other private
 * header of src/net. */
#pragma once

#include "net/net_private.h"
