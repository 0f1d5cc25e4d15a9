/* Index files: a header, and sections of numbers (vectors, codes, tables), little-endian, each with
 * a checksum (XXH3-64). A file is mapped read-only, and its header, the place of every section and
 * all checksums are verified when it is opened; what the numbers mean is checked by search/index.h.
 * It is written under a temporary name and renamed, so there is a whole file or none.
 *
 *     0  "SINGAIDX"    8  u32 version    12  u32 kind      16  u64 bytes of the file
 *    24  u64 count    32  u32 dims       36  u32 bits      40  u32 metric   44  u32 parts
 *    48  u32 classes  52  u32 sections   56  8 bytes zero
 *    64  a table of 16 sections: u32 name, u32 zero, u64 offset, u64 bytes, u64 checksum
 *  1016  u64 checksum of the bytes before
 *
 * Sections begin behind the header, at multiples of 64, in the order of the table. */
#pragma once

#include "base/err.h"
#include "base/mapped.h"
#include <stddef.h>
#include <stdint.h>

enum { SW_INDEX_HEADER_BYTES = 1024, SW_INDEX_MOST_SECTIONS = 16, SW_INDEX_VERSION = 1 };

enum sw_index_section {
    SW_INDEX_VECTORS = 1, /* f32 [count][dims] */
    SW_INDEX_LABELS,      /* i32 [count] */
    SW_INDEX_LABEL_SETS,  /* u64 [count][sw_label_words(classes)] */
    SW_INDEX_MARKS,       /* f32 [dims][2^bits + 1] (va_file.h) */
    SW_INDEX_CELLS,       /* u8 [sw_va_cells] */
    SW_INDEX_CODES,       /* u64 [count][sw_code_words(bits)] */
    SW_INDEX_CENTER,      /* f32 [dims] (encoder.h) */
    SW_INDEX_PLANES,      /* f32 [bits][dims] */
    SW_INDEX_BEGINS,      /* u32 [sw_multi_index_begins] (multi_index.h) */
    SW_INDEX_ROWS,        /* u32 [parts][count] */
    SW_INDEX_METHOD,      /* u8: the name of a method (code_model.h) */
    SW_INDEX_SHIFTS,      /* f32 [bits] */
    SW_INDEX_WAVES,       /* f32 [bits] */
    SW_INDEX_ANCHORS,     /* f32 [anchors][dims] */
    SW_INDEX_CENTER_2,    /* those of a second view, in the same order */
    SW_INDEX_PLANES_2,
    SW_INDEX_SHIFTS_2,
    SW_INDEX_WAVES_2,
    SW_INDEX_ANCHORS_2,
    SW_INDEX_SECTION_END,
};

/* The kind of a file that is no index, but a model of codes. */
enum { SW_INDEX_KIND_MODEL = 1 << 16 };

/* The numbers of the header. Which of them a kind needs is its own matter. */
struct sw_index_header {
    uint32_t kind, dims, bits, metric, parts, classes;
    uint64_t count;
};

struct sw_index_part {
    const void *data; /* borrowed; NULL in a file that has no such section */
    uint64_t bytes;
};

/* --- written --- */

/* Writes PATH: sections are those of part[name] whose data is not NULL.
 * Errors: SW_ERR_IO, SW_ERR_NOMEM, SW_ERR_CANCELLED; PATH is then as it was. */
int sw_index_file_write(const char *path, const struct sw_index_header *h,
                        const struct sw_index_part part[SW_INDEX_SECTION_END],
                        struct sw_err *err) SW_MUST_CHECK;

/* --- read --- */

struct sw_index_file {
    struct sw_index_header header;
    struct sw_index_part part[SW_INDEX_SECTION_END]; /* data is in the mapping */
    char *path;                                      /* owned */
    const unsigned char *bytes;                      /* the mapping, or memory of the caller */
    uint64_t file_bytes;
    int fd; /* -1: memory of the caller */
    struct sw_mapped *watch;
};

/* Opens and verifies a file; close it with sw_index_file_close.
 * Errors: SW_ERR_NOTFOUND, SW_ERR_IO, SW_ERR_NOMEM, SW_ERR_FORMAT, SW_ERR_UNSUPPORTED (version). */
int sw_index_file_open(struct sw_index_file *f, const char *path, struct sw_err *err) SW_MUST_CHECK;
/* The same for the bytes of a file in memory, which are borrowed until close and aligned to 8. */
int sw_index_file_parse(struct sw_index_file *f, const char *name, const void *bytes,
                        uint64_t count, struct sw_err *err) SW_MUST_CHECK;
/* Whether the file is still as long as it was when it was opened: called after every search, whose
 * results mean nothing otherwise (base/mapped.h). Errors: SW_ERR_FORMAT, SW_ERR_IO. */
int sw_index_file_check(const struct sw_index_file *f, struct sw_err *err) SW_MUST_CHECK;
void sw_index_file_close(struct sw_index_file *f); /* a zeroed struct is accepted */

/* "vectors", "codes", ... */
const char *sw_index_section_name(int section);
/* Returns the data of a section that must have so many bytes; NULL if the file has none and it is
 * optional. `of` says what it holds: "5 vectors of 3 floats". Errors: SW_ERR_FORMAT. */
int sw_index_file_section(const struct sw_index_file *f, int section, uint64_t bytes,
                          const char *of, const void **out, struct sw_err *err) SW_MUST_CHECK;
