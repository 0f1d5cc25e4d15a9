/* ZIP archives, read (PKWARE's APPNOTE.TXT 6.3, sections 4.3 and 4.5.3): members that are stored or
 * deflated, up to ZIP64 sizes. The list of members comes from the central directory; every size and
 * place in it is compared with the file, and the checksum of what comes out is looked at. Names are
 * compared and printed only: nothing is ever written, and no name becomes a path.
 *
 * Thread rule: one owner. */
#pragma once

#include "data/blob.h"

struct sw_zip_member {
    char *name; /* owned */
    unsigned method;
    uint32_t crc;
    uint64_t packed_bytes, bytes; /* in the file, and inflated */
    uint64_t header_offset;
};

struct sw_zip {
    struct sw_blob file;
    struct sw_zip_member *member; /* owned */
    int count;
    uint64_t directory_offset; /* members lie before it */
};

/* Reads the list of members. max_bytes: as of sw_blob_open, for each member that is deflated.
 * Errors: SW_ERR_NOTFOUND, SW_ERR_IO, SW_ERR_NOMEM, SW_ERR_FORMAT, SW_ERR_UNSUPPORTED (several
 * volumes). */
int sw_zip_open(struct sw_zip *z, const char *path, uint64_t max_bytes,
                struct sw_err *err) SW_MUST_CHECK;
void sw_zip_close(struct sw_zip *z); /* a zeroed one is accepted */

const struct sw_zip_member *sw_zip_find(const struct sw_zip *z, const char *name); /* or NULL */

/* Brings a member's bytes into new memory that the caller frees with sw_free.
 * Errors: SW_ERR_IO, SW_ERR_NOMEM, SW_ERR_FORMAT, SW_ERR_UNSUPPORTED (encrypted, another method).
 */
int sw_zip_load(const struct sw_zip *z, const struct sw_zip_member *m, unsigned char **out,
                struct sw_err *err) SW_MUST_CHECK;
