/* Writes records of any format into shards (data/shard.h); behind `singa-ws data import`. Fields
 * keep their names, types and shapes. Images are stored as they are, encoded or not, unless another
 * size or encoding is requested.
 *
 * The result is one file, or several numbered files of a given size. Each file is written
 * completely or not at all; after a failure or a stop request the complete files remain.
 *
 * Thread rule: one thread. */
#pragma once

#include "data/format.h"
#include "data/recode.h"
#include "data/subset.h"

struct sw_import_progress {
    int64_t done, records; /* done of `records` records */
    uint64_t bytes;        /* bytes written so far */
    int files;             /* complete files */
};

struct sw_import_args {
    const struct sw_records *from;  /* borrowed for the call, like all pointers below */
    const struct sw_subset *subset; /* records to import; NULL: all, in order */
    struct sw_recode_args recode;   /* how images are changed; zeroed: not at all */
    const char *origin;             /* description stored in the header */
    const char *out;     /* output file; numbered if file_bytes is set: out-00000.shard */
    uint64_t file_bytes; /* size limit of a file; 0: one file */
    bool skip_bad;       /* skip and count unreadable records */
    /* Called about ten times a second; returns true to continue. May be NULL. */
    bool (*progress)(void *user, const struct sw_import_progress *p);
    /* Called for each skipped record. May be NULL. */
    void (*bad)(void *user, const char *why);
    void *user;
};

struct sw_import_result {
    int64_t records, skipped, classes;
    uint64_t bytes;
    int files;
    char *first, *last; /* owned: names of the first and the last file */
};

/* Writes the records of a source to shards. *result is always filled as far as the import came;
 * free it with sw_import_result_fini. Errors: those of the format, prefixed with the location of
 * the record; SW_ERR_INVALID if the first of several output files exists already or a field cannot
 * be stored; SW_ERR_IO; SW_ERR_CANCELLED after progress returned false or on a stop request
 * (base/stop.h). */
int sw_import(const struct sw_import_args *args, struct sw_import_result *result,
              struct sw_err *err) SW_MUST_CHECK;
void sw_import_result_fini(struct sw_import_result *r);
