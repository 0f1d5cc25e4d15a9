/* Reads and writes index files. Order of checks: the size of the file, the first bytes, the header
 * with its checksum, the table of sections, the sections. The contract is in
 * search/index_file.h. */
#include "search/index_file.h"

#include "base/hash.h"
#include "base/little_endian.h"
#include "base/os.h"
#include "base/stop.h"
#include "base/str.h"
#include <string.h>

typedef unsigned long long ull;

enum {
    MAGIC_BYTES = 8,
    AT_VERSION = 8,
    AT_KIND = 12,
    AT_FILE_BYTES = 16,
    AT_COUNT = 24,
    AT_DIMS = 32,
    AT_BITS = 36,
    AT_METRIC = 40,
    AT_PARTS = 44,
    AT_CLASSES = 48,
    AT_SECTIONS = 52,
    AT_TABLE = 64,
    ENTRY_BYTES = 32,
    ENTRY_OFFSET = 8,
    ENTRY_SIZE = 16,
    ENTRY_SUM = 24,
    AT_SUM = SW_INDEX_HEADER_BYTES - 8,
    ALIGNMENT = 64,
    PIECE = 1 << 24, /* bytes between two looks at a request to stop */
};

static const char magic[MAGIC_BYTES + 1] = "SINGAIDX";

static const char *const names[SW_INDEX_SECTION_END] = {
    "",        "vectors",  "labels",   "label sets", "marks",   "cells",     "codes",
    "center",  "planes",   "begins",   "rows",       "method",  "shifts",    "waves",
    "anchors", "center 2", "planes 2", "shifts 2",   "waves 2", "anchors 2",
};

const char *sw_index_section_name(int section)
{
    return names[section];
}

/* ---- Written ----------------------------------------------------------------------------------
 */

static int write_section(int fd, const struct sw_index_part *p, uint64_t offset, const char *path,
                         struct sw_err *err)
{
    for (uint64_t at = 0; at < p->bytes; at += PIECE) {
        const size_t bytes = p->bytes - at < PIECE ? (size_t)(p->bytes - at) : PIECE;

        int rc = sw_stop_check(err);
        if (rc == SW_OK)
            rc = sw_os_pwrite_all(fd, (const char *)p->data + at, bytes, (off_t)(offset + at), path,
                                  err);
        if (rc != SW_OK)
            return rc;
    }

    return SW_OK;
}

static void fill_header(const struct sw_index_header *h, unsigned char *head)
{
    memcpy(head, magic, MAGIC_BYTES);
    sw_le_put(head + AT_VERSION, SW_INDEX_VERSION, 4);
    sw_le_put(head + AT_KIND, h->kind, 4);
    sw_le_put(head + AT_COUNT, h->count, 8);
    sw_le_put(head + AT_DIMS, h->dims, 4);
    sw_le_put(head + AT_BITS, h->bits, 4);
    sw_le_put(head + AT_METRIC, h->metric, 4);
    sw_le_put(head + AT_PARTS, h->parts, 4);
    sw_le_put(head + AT_CLASSES, h->classes, 4);
}

int sw_index_file_write(const char *path, const struct sw_index_header *h,
                        const struct sw_index_part part[SW_INDEX_SECTION_END], struct sw_err *err)
{
    unsigned char head[SW_INDEX_HEADER_BYTES] = {0}, *entry = head + AT_TABLE;
    struct sw_new_file file = {.fd = -1};
    uint64_t offset = SW_INDEX_HEADER_BYTES, end = offset;
    uint32_t sections = 0;

    int rc = sw_os_new_file_begin(&file, path, 0666, err);
    if (rc != SW_OK)
        return rc;

    fill_header(h, head);

    for (int s = 0; rc == SW_OK && s < SW_INDEX_SECTION_END; s++) {
        if (!part[s].data)
            continue;

        sw_le_put(entry, (uint64_t)s, 4);
        sw_le_put(entry + ENTRY_OFFSET, offset, 8);
        sw_le_put(entry + ENTRY_SIZE, part[s].bytes, 8);
        sw_le_put(entry + ENTRY_SUM, sw_hash_bytes64(part[s].data, (size_t)part[s].bytes), 8);
        rc = write_section(file.fd, &part[s], offset, path, err);
        end = offset + part[s].bytes;
        offset = sw_aligned((size_t)end, ALIGNMENT);
        entry += ENTRY_BYTES;
        sections++;
    }

    sw_le_put(head + AT_FILE_BYTES, end, 8);
    sw_le_put(head + AT_SECTIONS, sections, 4);
    sw_le_put(head + AT_SUM, sw_hash_bytes64(head, AT_SUM), 8);

    /* The header comes last: an incomplete file is not an index, even under its temporary name. */
    if (rc == SW_OK)
        rc = sw_os_pwrite_all(file.fd, head, sizeof head, 0, path, err);
    if (rc == SW_OK)
        return sw_os_new_file_commit(&file, err);

    sw_os_new_file_abandon(&file);
    return rc;
}

/* ---- Verified ---------------------------------------------------------------------------------
 */

static uint32_t at32(const struct sw_index_file *f, size_t offset)
{
    return (uint32_t)sw_le_get(f->bytes + offset, 4);
}

static uint64_t at64(const struct sw_index_file *f, size_t offset)
{
    return sw_le_get(f->bytes + offset, 8);
}

static int check_header(struct sw_index_file *f, struct sw_err *err)
{
    if (f->file_bytes < MAGIC_BYTES || memcmp(f->bytes, magic, MAGIC_BYTES) != 0)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: not an index file: expected %s as its first bytes", f->path, magic);
    if (f->file_bytes < SW_INDEX_HEADER_BYTES)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: ends after %llu bytes, inside its header of %d",
                          f->path, (ull)f->file_bytes, SW_INDEX_HEADER_BYTES);

    const uint64_t want = at64(f, AT_SUM), is = sw_hash_bytes64(f->bytes, AT_SUM);
    if (is != want)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: its header is damaged: checksum %016llx, expected %016llx", f->path,
                          (ull)is, (ull)want);
    if (at32(f, AT_VERSION) != SW_INDEX_VERSION)
        return sw_err_set(err, SW_ERR_UNSUPPORTED,
                          "%s: index version %u is not supported; this program reads version %d",
                          f->path, at32(f, AT_VERSION), SW_INDEX_VERSION);

    const uint64_t bytes = at64(f, AT_FILE_BYTES);
    if (bytes != f->file_bytes)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: has %llu bytes, expected %llu%s", f->path,
                          (ull)f->file_bytes, (ull)bytes,
                          f->file_bytes < bytes ? ": the file is truncated" : "");

    return SW_OK;
}

static void take_header(struct sw_index_file *f)
{
    f->header = (struct sw_index_header){.kind = at32(f, AT_KIND),
                                         .dims = at32(f, AT_DIMS),
                                         .bits = at32(f, AT_BITS),
                                         .metric = at32(f, AT_METRIC),
                                         .parts = at32(f, AT_PARTS),
                                         .classes = at32(f, AT_CLASSES),
                                         .count = at64(f, AT_COUNT)};
}

/* Takes entry i, whose section begins where the one before ended, at `end`. */
static int take_section(struct sw_index_file *f, uint32_t i, uint64_t *end, struct sw_err *err)
{
    const size_t entry = AT_TABLE + (size_t)i * ENTRY_BYTES;
    const uint32_t name = at32(f, entry);
    const uint64_t offset = at64(f, entry + ENTRY_OFFSET), bytes = at64(f, entry + ENTRY_SIZE);
    const uint64_t begin = sw_aligned((size_t)*end, ALIGNMENT);

    if (name < 1 || name >= SW_INDEX_SECTION_END || f->part[name].data)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: section %u of its table has number %u, expected a new one from 1 to "
                          "%d",
                          f->path, i, name, SW_INDEX_SECTION_END - 1);
    if (offset != begin || offset > f->file_bytes || bytes > f->file_bytes - offset || bytes < 1)
        return sw_err_set(
            err, SW_ERR_FORMAT,
            "%s: section %s has %llu bytes at byte %llu, expected them from byte %llu "
            "to at most %llu",
            f->path, names[name], (ull)bytes, (ull)offset, (ull)begin, (ull)f->file_bytes);

    for (uint64_t gap = *end; gap < begin; gap++)
        if (f->bytes[gap])
            return sw_err_set(err, SW_ERR_FORMAT,
                              "%s: byte %llu before section %s is %u, expected 0", f->path,
                              (ull)gap, names[name], f->bytes[gap]);

    const uint64_t want = at64(f, entry + ENTRY_SUM);
    const uint64_t is = sw_hash_bytes64(f->bytes + offset, (size_t)bytes);
    if (is != want)
        return sw_err_set(err, SW_ERR_FORMAT,
                          "%s: section %s is damaged: checksum %016llx, expected %016llx", f->path,
                          names[name], (ull)is, (ull)want);

    f->part[name] = (struct sw_index_part){f->bytes + offset, bytes};
    *end = offset + bytes;
    return SW_OK;
}

static int verify(struct sw_index_file *f, struct sw_err *err)
{
    uint64_t end = SW_INDEX_HEADER_BYTES;

    int rc = check_header(f, err);
    if (rc != SW_OK)
        return rc;

    take_header(f);

    const uint32_t sections = at32(f, AT_SECTIONS);
    if (sections < 1 || sections > SW_INDEX_MOST_SECTIONS)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: has %u sections, expected 1 to %d", f->path,
                          sections, SW_INDEX_MOST_SECTIONS);

    for (uint32_t i = 0; rc == SW_OK && i < sections; i++)
        rc = take_section(f, i, &end, err);
    if (rc == SW_OK && end != f->file_bytes)
        rc = sw_err_set(err, SW_ERR_FORMAT, "%s: has %llu bytes, but its sections end at %llu",
                        f->path, (ull)f->file_bytes, (ull)end);

    return rc;
}

/* ---- Opened -----------------------------------------------------------------------------------
 */

int sw_index_file_parse(struct sw_index_file *f, const char *name, const void *bytes,
                        uint64_t count, struct sw_err *err)
{
    *f = (struct sw_index_file){.bytes = bytes, .file_bytes = count, .fd = -1};

    f->path = sw_strdup(name);
    int rc = f->path ? verify(f, err) : sw_err_nomem(err, "the name of an index", strlen(name) + 1);
    if (rc != SW_OK)
        sw_index_file_close(f);
    return rc;
}

int sw_index_file_open(struct sw_index_file *f, const char *path, struct sw_err *err)
{
    void *bytes = NULL;

    *f = (struct sw_index_file){.fd = -1};
    f->path = sw_strdup(path);

    int rc = f->path ? sw_os_open_regular(path, &f->fd, &f->file_bytes, err)
                     : sw_err_nomem(err, "the name of an index", strlen(path) + 1);
    if (rc != SW_OK)
        goto out;

    if (f->file_bytes < SW_INDEX_HEADER_BYTES) {
        rc = sw_err_set(err, SW_ERR_FORMAT,
                        "%s: not an index file: has %llu bytes, and its header would have %d", path,
                        (ull)f->file_bytes, SW_INDEX_HEADER_BYTES);
        goto out;
    }

    bytes = sw_os()->map_file(f->fd, (size_t)f->file_bytes);
    if (!bytes) {
        rc = sw_err_set(err, SW_ERR_NOMEM, "%s: its %llu bytes cannot be mapped", path,
                        (ull)f->file_bytes);
        goto out;
    }

    f->bytes = bytes;
    rc = sw_mapped_watch(&f->watch, bytes, (size_t)f->file_bytes, err);
    if (rc != SW_OK)
        goto out;

    rc = verify(f, err);

    /* A file that was truncated meanwhile has other faults than that. */
    struct sw_err cut;
    if (rc != SW_OK && sw_index_file_check(f, &cut) != SW_OK && err)
        *err = cut;

out:
    if (rc != SW_OK)
        sw_index_file_close(f);
    return rc;
}

int sw_index_file_check(const struct sw_index_file *f, struct sw_err *err)
{
    return f->watch ? sw_mapped_check(f->watch, f->fd, f->file_bytes, f->path, err) : SW_OK;
}

void sw_index_file_close(struct sw_index_file *f)
{
    if (!f->path)
        return;

    sw_mapped_unwatch(f->watch);
    if (f->fd >= 0) {
        if (f->bytes)
            sw_os()->unmap_pages((void *)(uintptr_t)f->bytes, (size_t)f->file_bytes);
        sw_os()->close(f->fd);
    }

    sw_free(f->path);
    *f = (struct sw_index_file){.fd = -1};
}

int sw_index_file_section(const struct sw_index_file *f, int section, uint64_t bytes,
                          const char *of, const void **out, struct sw_err *err)
{
    const struct sw_index_part *p = &f->part[section];

    if (!p->data)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: section %s is missing, expected %s", f->path,
                          names[section], of);
    if (p->bytes != bytes)
        return sw_err_set(err, SW_ERR_FORMAT, "%s: section %s has %llu bytes, expected %llu: %s",
                          f->path, names[section], (ull)p->bytes, (ull)bytes, of);

    *out = p->data;
    return SW_OK;
}
