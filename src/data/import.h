/* Records of any format written into shards (data/shard.h): what `singa-ws data import` does.
 * Fields keep their names, types and shapes; pictures stay as they are, encoded ones too, unless
 * another size or form is asked for.
 *
 * The result is one file, or several of a given size, which are numbered. Each appears whole or not
 * at all; when something fails, or a stop is asked for, the files that are complete stay.
 *
 * Thread rule: one thread. */
#pragma once

#include "data/format.h"
#include "data/recode.h"
#include "data/subset.h"

struct sw_import_progress {
    int64_t done, records; /* of `records` that will be looked at */
    uint64_t bytes;        /* written so far */
    int files;             /* complete */
};

struct sw_import_args {
    const struct sw_records *from;  /* borrowed for the call, as all below */
    const struct sw_subset *subset; /* which records; NULL: all in their order */
    struct sw_recode_args recode;   /* of pictures; zeroed: as they are */
    const char *origin;             /* stands in the header, for people */
    const char *out;                /* the file; with file_bytes it is numbered: out-00000.shard */
    uint64_t file_bytes;            /* a file ends before it would be larger; 0: one file */
    bool skip_bad;                  /* records that cannot be read are left out and counted */
    /* Called now and then; answers true to go on. NULL: nobody asks. */
    bool (*progress)(void *user, const struct sw_import_progress *p);
    /* Called for each record that is left out; NULL: nobody asks. */
    void (*bad)(void *user, const char *why);
    void *user;
};

struct sw_import_result {
    int64_t records, skipped, classes;
    uint64_t bytes;
    int files;
    char *first, *last; /* owned: names of the first and last file */
};

/* Errors: those of the format, with the record's place in front; SW_ERR_INVALID where `out` names
 * the first of several files and that exists already, or a field cannot be stored; SW_ERR_IO;
 * SW_ERR_CANCELLED after progress answered false, or a request to stop (base/stop.h). *result is
 * filled as far as it came in any case; free it with sw_import_result_fini. */
int sw_import(const struct sw_import_args *args, struct sw_import_result *result,
              struct sw_err *err) SW_MUST_CHECK;
void sw_import_result_fini(struct sw_import_result *r);
