/* The loop over lanes for devices that only queue work: the calling thread runs the lanes one after
 * the other. device/device.h has the contract. */
#include "device/device.h"

int sw_stream_run_lanes_in_turn(struct sw_stream *s, int lanes, sw_stream_lane *lane, void *user,
                                struct sw_err *err)
{
    for (int i = 0; i < lanes; i++) {
        int rc = lane(user, i, err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}
