/* The checkpoints of a run from which `resume` and `eval` choose: those of the history whose files
 * exist, and those that are only in the folder of the run. The history is written after the
 * checkpoint, so a kill or a power cut may lose its last rows while the file is safe on disk; such
 * a file counts if its metadata show the recipe, overrides and fallback of the run. One owner. */
#pragma once

#include "history/reader.h"

struct sw_checkpoint_file {
    int64_t step;
    char *path;     /* owned */
    char *checksum; /* owned: as stored; NULL: unknown */
    bool best;      /* according to the history */
};

struct sw_checkpoints {
    struct sw_checkpoint_file *items; /* owned; highest step first */
    int count;
    int missing; /* in the history, but the file is gone */
};

/* Lists the checkpoint files of a run. Errors: SW_ERR_NOTFOUND when no file is left, SW_ERR_NOMEM,
 * those of the history. Free *out with sw_checkpoints_fini in any case. */
int sw_checkpoints_find(struct sw_history_reader *reader, const struct sw_run *run,
                        struct sw_checkpoints *out, struct sw_err *err) SW_MUST_CHECK;
/* Lists the checkpoint files in a folder, whoever wrote them. Errors: SW_ERR_NOTFOUND when there is
 * none, SW_ERR_NOMEM. Free *out in any case. */
int sw_checkpoints_in(const char *folder, struct sw_checkpoints *out,
                      struct sw_err *err) SW_MUST_CHECK;
/* Finds the newest undamaged checkpoint that the run itself wrote; prints each one that is skipped
 * on stderr with the reason. *path is borrowed from c. Errors: those of the last file. */
int sw_checkpoints_newest(const struct sw_checkpoints *c, const char **path,
                          struct sw_err *err) SW_MUST_CHECK;
/* Checks that the file is undamaged and belongs to the run. Errors: those of sw_st_open;
 * SW_ERR_FORMAT. */
int sw_checkpoint_check_file(const struct sw_checkpoint_file *c, struct sw_err *err) SW_MUST_CHECK;
void sw_checkpoints_fini(struct sw_checkpoints *c);
