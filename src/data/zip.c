/* ZIP archives (APPNOTE.TXT, with ZIP64): finds the end record and the central directory, lists the
 * members, and loads one, stored or deflated, with its checksum. Every size and offset is checked
 * against the file before it is used; a member must inflate to exactly its size. */
#include "data/zip.h"
#include "base/os.h"
#include "data/inflate.h"
#include <string.h>

enum {
    END_BYTES = 22, /* of the end record without its comment */
    MAX_COMMENT = 65535,
    LOCATOR_BYTES = 20,
    END64_BYTES = 56,
    ENTRY_BYTES = 46,
    LOCAL_BYTES = 30,
    MAX_DIRECTORY = 64 << 20,
    MAX_MEMBERS = 10000,
    STORED = 0,
    DEFLATED = 8,
    ENCRYPTED = 1 /* bit of the flags */
};

static unsigned u16(const unsigned char *p)
{
    return p[0] | (unsigned)p[1] << 8;
}

static uint32_t u32(const unsigned char *p)
{
    return u16(p) | (uint32_t)u16(p + 2) << 16;
}

static uint64_t u64(const unsigned char *p)
{
    return u32(p) | (uint64_t)u32(p + 4) << 32;
}

static int read_at(const struct sw_zip *z, void *out, uint64_t bytes, uint64_t offset,
                   struct sw_err *err)
{
    return sw_os_pread_all(z->file.fd, out, (size_t)bytes, (off_t)offset, z->file.path, err);
}

static int damaged(const struct sw_zip *z, const char *what, struct sw_err *err)
{
    return sw_err_set(err, SW_ERR_FORMAT, "%s: the archive is damaged: %s", z->file.path, what);
}

struct directory {
    uint64_t offset, bytes, entries;
    uint64_t end; /* offset of the records after it */
};

/* Finds the end record, which is the last thing in the file except for a comment of unknown length.
 * The comment may contain the same signature, so the right record is the one whose comment ends
 * with the file. */
static int find_end(const struct sw_zip *z, unsigned char end[END_BYTES], uint64_t *at,
                    struct sw_err *err)
{
    const uint64_t size = z->file.file_bytes,
                   most = size < END_BYTES + MAX_COMMENT ? size : END_BYTES + MAX_COMMENT;
    if (size < END_BYTES)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: not a ZIP archive: it has only %llu bytes",
                          z->file.path, (unsigned long long)size);

    unsigned char *tail = sw_os()->alloc((size_t)most);
    if (!tail)
        return sw_err_nomem(err, "the end of an archive", (size_t)most);

    int rc = read_at(z, tail, most, size - most, err);
    uint64_t i = most - END_BYTES;
    bool found = false;
    while (!rc && !found) {
        found = !memcmp(tail + i, "PK\5\6", 4) && i + END_BYTES + u16(tail + i + 20) == most;
        if (found || i == 0)
            break;
        i--;
    }

    if (found) {
        memcpy(end, tail + i, END_BYTES);
        *at = size - most + i;
    } else if (!rc) {
        rc = sw_err_set(err, SW_ERR_FORMAT,
                        "%s: not a ZIP archive, or truncated: no end record found", z->file.path);
    }

    sw_free(tail);
    return rc;
}

/* Values too large for the end record are in a ZIP64 record before it. */
static int read_end64(const struct sw_zip *z, uint64_t at, struct directory *d, struct sw_err *err)
{
    unsigned char locator[LOCATOR_BYTES], end[END64_BYTES];

    if (at < LOCATOR_BYTES + END64_BYTES)
        return damaged(z, "its ZIP64 end record is missing", err);

    int rc = read_at(z, locator, sizeof locator, at - LOCATOR_BYTES, err);
    if (rc)
        return rc;

    const uint64_t place = u64(locator + 8);
    if (memcmp(locator, "PK\6\7", 4) || place > at - LOCATOR_BYTES - END64_BYTES)
        return damaged(z, "its ZIP64 end record is missing", err);
    rc = read_at(z, end, sizeof end, place, err);
    if (rc)
        return rc;

    if (memcmp(end, "PK\6\6", 4))
        rc = damaged(z, "its ZIP64 end record is missing", err);
    if (rc)
        return rc;

    d->entries = u64(end + 32);
    d->bytes = u64(end + 40);
    d->offset = u64(end + 48);
    d->end = place;

    return SW_OK;
}

static int find_directory(const struct sw_zip *z, struct directory *d, struct sw_err *err)
{
    unsigned char end[END_BYTES] = {0};
    uint64_t at = 0;

    int rc = find_end(z, end, &at, err);
    if (rc)
        return rc;

    *d = (struct directory){
        .entries = u16(end + 10), .bytes = u32(end + 12), .offset = u32(end + 16), .end = at};
    if (u16(end + 4) != u16(end + 6))
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "%s: the archive is split into several volumes; join them first",
                          z->file.path);

    if (d->entries == 0xffff || d->bytes == 0xffffffff || d->offset == 0xffffffff)
        rc = read_end64(z, at, d, err);
    if (rc)
        return rc;
    if (d->entries > MAX_MEMBERS)
        return sw_err_set(err, SW_ERR_UNSUPPORTED, "%s: has %llu members; the limit is %d",
                          z->file.path, (unsigned long long)d->entries, MAX_MEMBERS);
    if (d->offset > d->end || d->bytes > d->end - d->offset || d->bytes > MAX_DIRECTORY ||
        d->entries > d->bytes / ENTRY_BYTES)
        return damaged(z, "the size or position of its central directory is invalid", err);

    return SW_OK;
}

/* Sizes and offset that are all ones are in the ZIP64 extra field, in this order. */
static bool read_extra64(struct sw_zip_member *m, const unsigned char *extra, unsigned bytes)
{
    uint64_t *const values[] = {&m->bytes, &m->packed_bytes, &m->header_offset};
    const unsigned char *p = NULL;
    unsigned left = 0;

    for (unsigned i = 0; !p && i + 4 <= bytes; i += 4 + u16(extra + i + 2)) {
        if (u16(extra + i) != 1 || i + 4 + u16(extra + i + 2) > bytes)
            continue;
        p = extra + i + 4;
        left = u16(extra + i + 2);
    }

    for (int k = 0; k < 3; k++) {
        if (*values[k] != 0xffffffff)
            continue;
        if (left < 8)
            return false;

        *values[k] = u64(p);
        p += 8;
        left -= 8;
    }

    return true;
}

static int take_entry(struct sw_zip *z, const unsigned char *p, uint64_t left, uint64_t *used,
                      struct sw_err *err)
{
    struct sw_zip_member *m = &z->member[z->count];

    if (left < ENTRY_BYTES || memcmp(p, "PK\1\2", 4))
        return damaged(z, "its central directory is truncated or invalid", err);

    const unsigned name = u16(p + 28), extra = u16(p + 30), comment = u16(p + 32);
    *used = (uint64_t)ENTRY_BYTES + name + extra + comment;
    if (*used > left || memchr(p + ENTRY_BYTES, 0, name))
        return damaged(z, "its central directory is truncated or invalid", err);

    *m = (struct sw_zip_member){.method = u16(p + 10) | (u16(p + 8) & ENCRYPTED) << 16,
                                .crc = u32(p + 16),
                                .packed_bytes = u32(p + 20),
                                .bytes = u32(p + 24),
                                .header_offset = u32(p + 42)};
    m->name = sw_os()->alloc((size_t)name + 1);
    if (!m->name)
        return sw_err_nomem(err, "the name of a member", (size_t)name + 1);

    memcpy(m->name, p + ENTRY_BYTES, name);
    m->name[name] = '\0';
    z->count++;
    if (!read_extra64(m, p + ENTRY_BYTES + name, extra))
        return damaged(z, "its central directory is truncated or invalid", err);
    if (m->header_offset > z->directory_offset ||
        m->packed_bytes > z->directory_offset - m->header_offset)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: member %.100s is outside of the file",
                          z->file.path, m->name);

    for (int i = 0; i + 1 < z->count; i++) {
        if (!strcmp(z->member[i].name, m->name))
            return sw_err_set(err, SW_ERR_FORMAT, "%s: duplicate member %.100s", z->file.path,
                              m->name);
    }

    return SW_OK;
}

static int read_directory(struct sw_zip *z, struct sw_err *err)
{
    struct directory d;

    int rc = find_directory(z, &d, err);
    if (rc)
        return rc;

    unsigned char *bytes = sw_os()->alloc(d.bytes ? (size_t)d.bytes : 1);
    z->member = sw_calloc((size_t)d.entries, sizeof *z->member);
    z->directory_offset = d.offset;
    if (!bytes || !z->member)
        rc = sw_err_nomem(err, "the members of an archive", (size_t)d.bytes);
    if (!rc)
        rc = read_at(z, bytes, d.bytes, d.offset, err);

    uint64_t at = 0, used = 0;
    for (uint64_t i = 0; !rc && i < d.entries; i++, at += used)
        rc = take_entry(z, bytes + at, d.bytes - at, &used, err);
    sw_free(bytes);

    return rc;
}

int sw_zip_open(struct sw_zip *z, const char *path, uint64_t max_bytes, struct sw_err *err)
{
    *z = (struct sw_zip){0};

    int rc = sw_blob_open(&z->file, path, max_bytes, err);
    if (rc)
        goto out;

    rc = read_directory(z, err);

out:
    if (rc)
        sw_zip_close(z);
    return rc;
}

void sw_zip_close(struct sw_zip *z)
{
    for (int i = 0; i < z->count; i++)
        sw_free(z->member[i].name);
    sw_free(z->member);
    sw_blob_close(&z->file);
    *z = (struct sw_zip){0};
}

const struct sw_zip_member *sw_zip_find(const struct sw_zip *z, const char *name)
{
    for (int i = 0; i < z->count; i++) {
        if (!strcmp(z->member[i].name, name))
            return &z->member[i];
    }

    return NULL;
}

/* Sets *offset to the data of the member, behind its local header, whose name and extra field may
 * have other lengths than in the directory. */
static int find_bytes(const struct sw_zip *z, const struct sw_zip_member *m, uint64_t *offset,
                      struct sw_err *err)
{
    unsigned char local[LOCAL_BYTES];
    bool fits = z->directory_offset - m->header_offset >= LOCAL_BYTES;

    int rc = fits ? read_at(z, local, sizeof local, m->header_offset, err) : SW_OK;
    if (rc)
        return rc;

    *offset = m->header_offset + LOCAL_BYTES;
    if (fits)
        *offset += u16(local + 26) + u16(local + 28);
    fits = fits && !memcmp(local, "PK\3\4", 4) && u16(local + 8) == (m->method & 0xffff) &&
           *offset <= z->directory_offset && m->packed_bytes <= z->directory_offset - *offset;
    if (fits)
        return SW_OK;

    return sw_err_set(
        err, SW_ERR_FORMAT,
        "%s: member %.100s: its local header is missing or differs from the central directory",
        z->file.path, m->name);
}

static int check_member(const struct sw_zip *z, const struct sw_zip_member *m, struct sw_err *err)
{
    if (m->method != STORED && m->method != DEFLATED)
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "%s: member %.100s is %s; only stored and deflated members are supported",
                          z->file.path, m->name,
                          m->method >> 16 ? "encrypted" : "compressed with another method");

    if (m->method == STORED ? m->bytes != m->packed_bytes
                            : m->bytes / SW_INFLATE_MAX_RATIO > m->packed_bytes)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: member %.100s claims %llu bytes, but has %llu in the file",
                          z->file.path, m->name, (unsigned long long)m->bytes,
                          (unsigned long long)m->packed_bytes);

    if (m->method == DEFLATED && m->bytes > z->file.max_bytes)
        return sw_err_set(
            err, SW_ERR_FORMAT,
            "%s: member %.100s inflates to %llu bytes, more than max_bytes = %llu; raise "
            "max_bytes in the [data] section if the file is valid",
            z->file.path, m->name, (unsigned long long)m->bytes,
            (unsigned long long)z->file.max_bytes);

    return SW_OK;
}

/* Inflates exactly m->bytes and requires the end of the stream. */
static int inflate_member(const struct sw_zip *z, const struct sw_zip_member *m, uint64_t offset,
                          unsigned char *out, struct sw_err *err)
{
    struct sw_inflater *s = NULL;
    uint64_t got = 0, extra = 0;
    unsigned char spare;
    int rc = sw_inflater_new(z->file.fd, offset, m->packed_bytes, SW_INFLATE_RAW, m->name, &s, err);

    if (!rc)
        rc = sw_inflate(s, out, m->bytes, &got, err);
    if (!rc && !sw_inflater_ended(s))
        rc = sw_inflate(s, &spare, 1, &extra, err);

    if (!rc && (got < m->bytes || extra || sw_inflater_left(s)))
        rc = sw_err_set(err, SW_ERR_FORMAT,
                        "%s: inflates to a size other than the stated %llu bytes", m->name,
                        (unsigned long long)m->bytes);

    sw_inflater_free(s);
    return rc ? sw_err_prefix(err, rc, "%s", z->file.path) : SW_OK;
}

int sw_zip_load(const struct sw_zip *z, const struct sw_zip_member *m, unsigned char **out,
                struct sw_err *err)
{
    uint64_t offset = 0;

    int rc = check_member(z, m, err);
    if (rc)
        return rc;
    rc = find_bytes(z, m, &offset, err);
    if (rc)
        return rc;

    unsigned char *bytes = sw_os()->alloc(m->bytes ? (size_t)m->bytes : 1);
    if (!bytes)
        return sw_err_nomem(err, m->name, (size_t)m->bytes);
    rc = m->method == STORED ? read_at(z, bytes, m->bytes, offset, err)
                             : inflate_member(z, m, offset, bytes, err);
    if (rc)
        goto out;

    if (sw_crc32(0, bytes, (size_t)m->bytes) != m->crc)
        rc = sw_err_set(err, SW_ERR_FORMAT, "%s: member %.100s: wrong checksum", z->file.path,
                        m->name);

out:
    if (rc)
        sw_free(bytes);
    else
        *out = bytes;

    return rc;
}
