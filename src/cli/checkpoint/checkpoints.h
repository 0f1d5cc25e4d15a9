/* The checkpoints of a run from which `resume` and `eval` choose: those of the history whose files
 * are there, and those that are only in the run's folder. The history writes behind the training,
 * so a kill or a power cut may lose its last rows while the file is safe on disk; such a file
 * counts when its metadata say that it was written with the run's recipe, overrides and fallback.
 * One owner. */
#pragma once

#include "history/reader.h"

struct sw_checkpoint_file {
    int64_t step;
    char *path;     /* owned */
    char *checksum; /* owned: as stored; NULL: unknown */
    bool best;      /* so says the history */
};

struct sw_checkpoints {
    struct sw_checkpoint_file *items; /* owned; highest step first */
    int count;
    int missing; /* in the history, but the file is gone */
};

/* Errors: SW_ERR_NOTFOUND when no file is left, SW_ERR_NOMEM, those of the history. Free *out with
 * sw_checkpoints_fini in any case. */
int sw_checkpoints_find(struct sw_history_reader *reader, const struct sw_run *run,
                        struct sw_checkpoints *out, struct sw_err *err) SW_MUST_CHECK;
/* The newest one that is whole and that the run itself wrote; each that is passed over is named on
 * stderr with the reason. *path is borrowed from c. Errors: those of the last file. */
int sw_checkpoints_newest(const struct sw_checkpoints *c, const char **path,
                          struct sw_err *err) SW_MUST_CHECK;
/* Is it whole, and the run's own? Errors: those of sw_st_open; SW_ERR_FORMAT. */
int sw_checkpoints_look(const struct sw_checkpoint_file *c, struct sw_err *err) SW_MUST_CHECK;
void sw_checkpoints_fini(struct sw_checkpoints *c);
