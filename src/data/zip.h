/* Reads ZIP archives (PKWARE's APPNOTE.TXT 6.3, sections 4.3 and 4.5.3): members that are stored or
 * deflated, with ZIP64 sizes. The list of members comes from the central directory; every size and
 * offset in it is checked against the file, and the checksum of each member is verified. Names are
 * only compared and printed: nothing is written, and no name is used as a path.
 *
 * Thread rule: one owner. */
#pragma once

#include "data/blob.h"

struct sw_zip_member {
    char *name; /* owned */
    unsigned method;
    uint32_t crc;
    uint64_t packed_bytes, bytes; /* size in the file, and inflated */
    uint64_t header_offset;
};

struct sw_zip {
    struct sw_blob file;
    struct sw_zip_member *member; /* owned */
    int count;
    uint64_t directory_offset; /* all members are before it */
};

/* Reads the list of members. max_bytes is as for sw_blob_open and limits each deflated member.
 * Errors: SW_ERR_NOTFOUND, SW_ERR_IO, SW_ERR_NOMEM, SW_ERR_FORMAT, SW_ERR_UNSUPPORTED (several
 * volumes). */
int sw_zip_open(struct sw_zip *z, const char *path, uint64_t max_bytes,
                struct sw_err *err) SW_MUST_CHECK;
void sw_zip_close(struct sw_zip *z); /* a zeroed one is accepted */

const struct sw_zip_member *sw_zip_find(const struct sw_zip *z, const char *name); /* or NULL */

/* Reads the content of a member into new memory that the caller frees with sw_free. Errors:
 * SW_ERR_IO, SW_ERR_NOMEM, SW_ERR_FORMAT, SW_ERR_UNSUPPORTED (encrypted, or another compression
 * method). */
int sw_zip_load(const struct sw_zip *z, const struct sw_zip_member *m, unsigned char **out,
                struct sw_err *err) SW_MUST_CHECK;
