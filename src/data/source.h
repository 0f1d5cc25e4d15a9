/* A data source: one [data] section opened for one use (training or evaluation). It turns "sample
 * s" into finished rows: which record that is (shuffle), and the record's fields after crop, mirror
 * and (x - mean) / std * scale, in plain [C, H, W] order.
 *
 * Samples are numbered globally: batch n of B rows covers samples n*B .. n*B+B-1. In training the
 * numbers never end: sample s is place s % records of epoch s / records, so batches are always full
 * and run over an epoch's end; with shuffle the place goes through a permutation keyed by (seed,
 * epoch). In evaluation sample = record, each exactly once. Order and augmentation are pure
 * functions of (seed, split, sample): no state, any number of workers, any thread.
 *
 * Thread rule: frozen after sw_source_open; sw_source_fetch may be called from any thread with a
 * reader of its own. */
#pragma once

#include "base/philox.h"
#include "data/data.h"
#include "data/format.h"
#include "data/permute.h"
#include "data/subset.h"
#include "data/transform.h"
#include <string.h>

/* What a source is made of; everything is borrowed until sw_source_close. */
struct sw_source_args {
    const char *name;                 /* the section's name: train, test */
    const struct sw_data_conf *conf;  /* common keys */
    const struct sw_format *format;   /* the one to use: the fallback's, when that applies */
    const void *format_conf;          /* its own filled struct */
    const struct sw_format *replaced; /* what a fallback stands in for, else NULL */
    uint64_t seed;                    /* job.seed: shuffle and augmentation */
    bool training; /* endless, shuffled, augmented; or each record once, as it is */
    /* job.on_bad_record = skip: a record that cannot be read is replaced by the next one of the
     * section, in the order of the files, that can. Each is told once, from the thread that met
     * it: text says where it lies and what is wrong with it. report_bad may be NULL. */
    bool skip_bad;
    void (*report_bad)(void *user, const char *text);
    void *report_user;
};

/* The records that were found to be bad; touched by all threads that fetch. */
struct sw_bad_records {
    bool skip;
    void (*report)(void *user, const char *text);
    void *user;
    unsigned char *bits; /* owned; atomic, a bit for each place of the section; NULL unless skip */
    int64_t count;       /* atomic */
};

struct sw_source {
    char name[64];
    bool training;
    int64_t records, classes;               /* records: of the section's part */
    uint64_t naming;                        /* as in sw_records: sources of one job must agree */
    const struct sw_vocabulary *vocabulary; /* as there */
    int unit;
    int64_t streams;           /* batches have this many rows, each a run of records; 0: any */
    int64_t workers, prefetch; /* of the section */
    int field_count;
    struct sw_field field[SW_MAX_FIELDS]; /* after transforms: `image` f32 [C, H, W], `label` i32 */
    /* the rest is private to source.c */
    bool shuffle;
    struct sw_subset subset;
    struct sw_philox shuffle_key, augment_key;
    struct sw_bad_records *bad;    /* owned; the one thing that changes after open */
    struct sw_transform transform; /* of the image field */
    struct sw_records raw;         /* owned */
};

/* Opens the files and checks conf against them (crop and channels). Errors: those of the format,
 * and SW_ERR_INVALID where a key does not fit the pictures; the message begins with "data NAME: ".
 */
int sw_source_open(const struct sw_source_args *args, struct sw_source **out,
                   struct sw_err *err) SW_MUST_CHECK;
void sw_source_close(struct sw_source *s); /* NULL is accepted */

/* How many different records were skipped so far. Any thread. */
int64_t sw_source_skipped(const struct sw_source *s);

/* Index of a field by name, or -1. */
static inline int sw_source_find(const struct sw_source *s, const char *field)
{
    for (int f = 0; f < s->field_count; f++)
        if (strcmp(s->field[f].name, field) == 0)
            return f;
    return -1;
}

/* Batches of `batch` rows in one evaluation pass: the last may be partly filled. */
int64_t sw_source_batches(const struct sw_source *s, int64_t batch);
/* ceil(epochs * records / batch): the steps of `job.epochs`. */
int64_t sw_source_steps(const struct sw_source *s, double epochs, int64_t batch);

/* Working memory of one thread that fetches. Only pictures of no fixed size make it grow. */
struct sw_reader {
    const struct sw_source *source; /* borrowed */
    unsigned char *block;           /* owned; scratch and what aligns it */
    unsigned char *scratch; /* in block; `rows` raw records, each field aligned to 64 bytes */
    size_t scratch_bytes, row_bytes, field_offset[SW_MAX_FIELDS];
    int64_t rows;               /* how many records are read before they are transformed */
    int64_t *place;             /* owned; [rows], where each stands in the section */
    const void **raw;           /* owned; [rows, SW_MAX_FIELDS] */
    struct sw_decoder *decoder; /* owned; NULL where nothing is to be decoded */
    struct sw_room room;        /* of the bytes of a picture */
    struct sw_picture picture;  /* the one that was read, where the format has pictures */
    struct sw_transform_work work;
    struct sw_permutation order; /* of the epoch asked last */
    double read_ms, decode_ms;   /* of the last sw_source_fetch */
};

/* Takes the memory for reading from an opened source, which must outlive it. Errors: SW_ERR_NOMEM;
 * sw_reader_fini is not needed then. */
int sw_reader_init(struct sw_reader *r, const struct sw_source *s,
                   struct sw_err *err) SW_MUST_CHECK;
void sw_reader_fini(struct sw_reader *r); /* a zeroed one is accepted */

/* The sides of the first picture of the section that is not damaged. Errors: as sw_source_fetch. */
int sw_reader_peek(struct sw_reader *r, int64_t *height, int64_t *width,
                   struct sw_err *err) SW_MUST_CHECK;

/* The record behind a sample, good or bad. */
int64_t sw_source_record(struct sw_reader *r, int64_t sample);

/* Fills `count` rows of every field with the samples from `first` on: field_out[f] points at the
 * first row, rows are contiguous [count, ...] of s->field[f]. A NULL field_out[f] is left out. In
 * evaluation first + count must not exceed the records. Errors: those of the format, with "data
 * NAME: " in front. */
int sw_source_fetch(struct sw_reader *r, int64_t first, int64_t count,
                    void *const field_out[SW_MAX_FIELDS], struct sw_err *err) SW_MUST_CHECK;
