/* A scratch buffer that grows to the largest size requested; one owner. */
#include "data/room.h"
#include "base/os.h"
#include <stdint.h>

/* Allocates half as much again, so that slowly growing images do not cost an allocation each. */
int sw_room_need(struct sw_room *room, size_t bytes, const char *what, struct sw_err *err)
{
    if (room->memory && room->bytes >= bytes)
        return SW_OK;
    if (bytes > (size_t)1 << 62)
        return sw_err_nomem(err, what, bytes);

    const size_t taken = bytes + bytes / 2 + SW_ROOM_ALIGNMENT;
    sw_room_fini(room);
    room->block = sw_os()->alloc(taken + SW_ROOM_ALIGNMENT);
    if (!room->block)
        return sw_err_nomem(err, what, taken);

    const uintptr_t misfit = (uintptr_t)room->block % SW_ROOM_ALIGNMENT;
    room->memory = (unsigned char *)room->block + (SW_ROOM_ALIGNMENT - misfit);
    room->bytes = taken;

    return SW_OK;
}

void sw_room_fini(struct sw_room *room)
{
    sw_free(room->block);
    *room = (struct sw_room){0};
}
