/* The keys of [job] and the checks that one option row cannot express: steps against epochs,
 * grad_clip, memory and the loss scale. The table sw_job_opts drives parsing, range errors and the
 * reference pages. Start at sw_job_apply_rules, which runs after binding and fills in defaults that
 * depend on other keys; recipe/job.h describes the struct. */
#include "recipe/job.h"
#include "base/os.h"
#include "base/str.h"
#include "base/tree.h"
#include "recipe/build.h"
#include <math.h>
#include <string.h>

static const char *const precisions[] = {"fp32", "tf32", "bf16", "fp16", NULL};
static const char *const partitions[] = {"0", "1", "1in", "none", "auto", NULL};
enum { PARTITION_AUTO = 4 };
static const char *const on_bad_record[] = {"stop", "skip", NULL};

static const char *const algorithms[] = {"bp", "bptt", "cd", NULL};     /* enum sw_algorithm */
static const char *const on_nan[] = {"stop", "skip", "rollback", NULL}; /* enum sw_on_nan */

#define FIELD(name_) .key = #name_, .offset = offsetof(struct sw_job_conf, name_)
/* The limit of a batch: far below what a 32-bit index can count. */
#define MOST_ROWS 16777216

/* An item of init_from is a file, unless it is a rule or `previous`. */
static size_t file_of_init(const char *item)
{
    return strstr(item, "->") || strcmp(item, "previous") == 0 ? strlen(item) : 0;
}

const struct sw_opt sw_job_opts[] = {
    {FIELD(name), .type = SW_OPT_STRING,
     .help = "name of the run in the history, not digits only; the recipe file's unless given"},
    {FIELD(seed), .type = SW_OPT_INT, .def = "1", .min = 0, .max = INFINITY,
     .help = "seed of initial values, shuffling, augmentation and dropout"},
    {FIELD(steps), .type = SW_OPT_INT, .min = 1, .max = INFINITY, .help = "number of updates"},
    {FIELD(epochs), .type = SW_OPT_REAL, .min = 0, .max = INFINITY, .above_min = true,
     .help = "passes over the training records, instead of steps"},
    {FIELD(batch), .type = SW_OPT_INT, .min = 1, .max = MOST_ROWS, .required = true,
     .help = "samples per update"},
    {FIELD(eval_batch), .type = SW_OPT_INT, .min = 1, .max = MOST_ROWS,
     .help = "samples per forward pass in evaluation; default: batch"},
    {FIELD(algorithm), .type = SW_OPT_ENUM, .def = "bp", .choices = algorithms,
     .help = "how gradients are computed: bp, back-propagation; bptt, the same through time, over "
             "recurrent layers; cd, contrastive divergence, of restricted Boltzmann machines"},
    {FIELD(eval_every), .type = SW_OPT_INT, .def = "0", .min = 0, .max = INFINITY,
     .help = "steps between evaluations; 0: only at the end"},
    {FIELD(checkpoint_every), .type = SW_OPT_INT, .def = "0", .min = 0, .max = INFINITY,
     .help = "steps between checkpoints; 0: only at the ends"},
    {FIELD(checkpoint_ends), .type = SW_OPT_BOOL, .def = "yes",
     .help =
         "also write checkpoints at step 0 and at the end; no: a run that ends leaves no weights, "
         "but one that is stopped still writes a checkpoint"},
    {FIELD(display_every), .type = SW_OPT_INT, .def = "0", .min = 0, .max = INFINITY,
     .help = "steps between lines of output; 0: by time"},
    {FIELD(keep_checkpoints), .type = SW_OPT_INT, .def = "0", .min = 0, .max = 1000000,
     .help = "number of newest checkpoints to keep, besides the best; 0: all"},
    {FIELD(checkpoint_best), .type = SW_OPT_BOOL, .def = "no",
     .help = "also write a checkpoint when an evaluation is the best so far"},
    {FIELD(best_by), .type = SW_OPT_STRING,
     .help =
         "metric that selects the best checkpoint; default: accuracy if the net has it, else loss"},
    {FIELD(patience), .type = SW_OPT_INT, .def = "0", .min = 0, .max = 1000000,
     .help =
         "ends the run, or its stage, when best_by has not improved in this many evaluations in "
         "a row; it then has the parameters of the best evaluation; 0: never"},
    {FIELD(init_from), .type = SW_OPT_PATHS, .path_at = file_of_init,
     .help = "checkpoints to start from, by the same names or by rules behind a file: "
             "a.weight -> b.weight, a.weight^T -> c.weight, a.* -> b.*"},
    {FIELD(reset), .type = SW_OPT_STRINGS,
     .help = "layers or parameters that init_from does not set, such as a new head: LAYER or "
             "LAYER.PARAM, with * and ?; they start from their initial values"},
    {FIELD(freeze), .type = SW_OPT_STRINGS,
     .help = "parameters that are not trained: LAYER.PARAM or LAYER, with * and ?"},
    {FIELD(grad_clip), .type = SW_OPT_STRING,
     .help = "gradient clipping: value:X limits each element to X, norm:X scales all gradients "
             "down if their global norm is above X"},
    {FIELD(on_nan), .type = SW_OPT_ENUM, .def = "stop", .choices = on_nan,
     .help = "when a loss, gradient or parameter is not finite: stop; skip the update; rollback to "
             "the values of the last checkpoint and continue with the next batch"},
    {FIELD(stop_at), .type = SW_OPT_STRINGS,
     .help = "ends the run when one of these conditions holds: accuracy>=0.99, loss<=0.1, "
             "grad_norm<=1e-4; train. or the name of an evaluation as a prefix selects where the "
             "metric is checked"},
    {FIELD(precision), .type = SW_OPT_ENUM, .def = "fp32", .choices = precisions,
     .help = "of matrix products: fp32, or inputs rounded to tf32 (10-bit mantissa), bf16 (7) or "
             "fp16 (10, and a small range); parameters, sums and updates are fp32"},
    {FIELD(loss_scale), .type = SW_OPT_REAL, .def = "65536", .min = 1, .max = 16777216,
     .help = "with precision = fp16: initial factor of the gradients in the backward pass, a power "
             "of 2; an update whose gradients overflow is skipped and halves it"},
    {FIELD(loss_scale_every), .type = SW_OPT_INT, .def = "2000", .min = 0, .max = INFINITY,
     .help = "with precision = fp16: updates without an overflow after which the loss scale "
             "doubles; 0: never"},
    {FIELD(partition), .type = SW_OPT_ENUM, .def = "0", .choices = partitions,
     .help = "how workers split layers that have no partition key: 0 rows, 1 columns where "
             "possible, none; auto: run searches the fastest plan, other verbs use 0"},
    {FIELD(replan), .type = SW_OPT_BOOL, .def = "no",
     .help =
         "of a run that follows a plan (run --plan, partition = auto): when its steps take more "
         "than 20 % longer or shorter than predicted, 50 steps on end, and another plan would "
         "be faster with the times that were measured, the run goes on under that plan after "
         "the next evaluation; no: it only says so"},
    {FIELD(repeat_exact), .type = SW_OPT_BOOL, .def = "no",
     .help = "bit-identical results with any number of workers, servers and threads on this "
             "machine, at some cost: a batch is always computed in the same microbatches"},
    {FIELD(virtual_workers), .type = SW_OPT_INT, .def = "8", .min = 1, .max = SW_TREE_LEAVES,
     .help = "with repeat_exact: number of microbatches of a batch, which the workers share; "
             "larger values are reduced to the number of rows"},
    {FIELD(on_bad_record), .type = SW_OPT_ENUM, .def = "stop", .choices = on_bad_record,
     .help = "when a record cannot be read: stop the run, or skip to the next valid record"},
    {FIELD(memory), .type = SW_OPT_STRING, .def = "default",
     .help = "fit:SIZE limits the memory that training uses on every device (on cpu: of the job) "
             "by recomputing activations and, on devices with their own memory, offloading them to "
             "the host; the results do not change"},
    {FIELD(tune), .type = SW_OPT_BOOL, .def = "no",
     .help = "selects the algorithms of convolutions and inner products by measurement instead of "
             "by rules, and saves the choices for the machine; checkpoints store them for resume; "
             "not with repeat_exact"},
    {FIELD(winograd), .type = SW_OPT_BOOL, .def = "yes",
     .help = "convolutions may use Winograd's algorithm, which is faster but has rounding errors "
             "about 10 times as large; check -v shows which layers use it"},
    {FIELD(graphs), .type = SW_OPT_BOOL, .def = "yes",
     .help = "on devices with their own memory: a step is captured as a graph once and then "
             "launched as a whole, which saves host time; the results do not change"},
    {FIELD(streams), .type = SW_OPT_INT, .def = "4", .min = 1, .max = 16,
     .help = "on devices with their own memory: number of independent layers (branches of an "
             "inception block) that may run at the same time, each on its own stream; not with "
             "repeat_exact or memory = fit; the results do not change"},
    {FIELD(device), .type = SW_OPT_STRING, .def = "auto",
     .help = "where to compute: cpu, cuda, cuda:0,2 (GPUs by number), sim:gpus=N; with +cpu after "
             "the GPUs, workers without a GPU compute on cores; auto: GPUs that pass a test, or "
             "else cpu"},
    {FIELD(cores), .type = SW_OPT_INT, .def = "0", .min = 0, .max = 1024,
     .help = "number of processor cores that the run uses, free ones first; 0: all that other runs "
             "do not use"},
    {FIELD(db), .type = SW_OPT_PATH, .written = true, .help = "history database, a file"},
    {.key = NULL},
};

bool sw_job_name_is_number(const char *name)
{
    return *name && !name[strspn(name, "0123456789")];
}

/* The file's name without folders and its last extension; "recipe-7" of 7.ini. */
static const char *stem_of(struct sw_recipe *r)
{
    const char *path = sw_recipe_path(r), *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path, *dot = strrchr(base, '.');
    const char *stem =
        sw_pool_copy(&r->pool, base, dot && dot > base ? (size_t)(dot - base) : strlen(base));

    return stem && sw_job_name_is_number(stem) ? sw_pool_format(&r->pool, "recipe-%s", stem) : stem;
}

int sw_job_check_name(struct sw_recipe *r, const struct sw_job_conf *job, struct sw_err *err)
{
    if (job->name && sw_job_name_is_number(job->name)) {
        sw_recipe_error(r, sw_recipe_find(r, "job", NULL), "name",
                        "digits only would be read as the number of a run");
        sw_recipe_hint(r, "name = run-%s", job->name);
    }

    return sw_recipe_status(r, err);
}

/* In a recipe with stages only the stages say how long they run. */
static void check_staged(struct sw_recipe *r, const struct sw_section *s)
{
    static const char *const keys[] = {"steps", "epochs"};
    const struct sw_draft *n = (const struct sw_draft *)s;

    for (int i = 0; i < 2; i++) {
        const struct sw_value *v = sw_draft_find(n, keys[i]);

        while (v && v->stage)
            v = v->below;
        if (!v)
            continue;

        sw_value_error(r, n, v, 0, 0, "a recipe with stages sets this key in each [stage NAME]");
        sw_recipe_hint(r, "set stage.%s.%s; --steps N ends the run at step N",
                       sw_recipe_stage_name(r, 0), keys[i]);
    }
}

/* steps and epochs exclude each other; the one of higher precedence counts. */
static void settle_length(struct sw_recipe *r, const struct sw_section *s, struct sw_job_conf *job)
{
    if (sw_recipe_stage_count(r) > 0) {
        check_staged(r, s);
        /* A recipe that lacks both has already been reported. */
        if (!sw_section_is_set(s, "steps") && !sw_section_is_set(s, "epochs"))
            return;
    }

    int steps = sw_section_precedence(s, "steps"), epochs = sw_section_precedence(s, "epochs");
    if (steps > epochs) {
        job->epochs = 0;
    } else if (epochs > steps) {
        job->steps = 0;
    } else if (steps) {
        sw_recipe_error(r, s, "epochs", "conflicts with steps");
        sw_recipe_hint(r, "set steps or epochs, not both");
    } else if (((const struct sw_draft *)s)->written) {
        sw_recipe_error(r, s, NULL, "steps is missing");
        sw_recipe_hint(r, "set steps or epochs");
    }
}

/* "norm:5", "value:1". */
static void settle_clip(struct sw_recipe *r, const struct sw_section *s, struct sw_job_conf *job)
{
    const char *text = job->grad_clip, *colon = text ? strchr(text, ':') : NULL;
    double limit = 0;

    if (!text)
        return;

    bool value = colon && colon - text == 5 && memcmp(text, "value", 5) == 0;
    bool norm = colon && colon - text == 4 && memcmp(text, "norm", 4) == 0;
    if ((!value && !norm) || !sw_parse_real(colon + 1, &limit) || !(limit > 0) || isinf(limit)) {
        sw_recipe_error(r, s, "grad_clip", "must be value:X or norm:X with X above 0");
        sw_recipe_hint(r, "grad_clip = norm:5");
        return;
    }

    *(value ? &job->clip.value : &job->clip.norm) = limit;
}

/* "default", "fit:4GB". */
static void settle_memory(struct sw_recipe *r, const struct sw_section *s, struct sw_job_conf *job)
{
    if (sw_str_eq(job->memory, "default"))
        return;
    if (sw_str_starts(job->memory, "fit:") &&
        sw_parse_bytes(job->memory + strlen("fit:"), &job->memory_bytes) && job->memory_bytes > 0)
        return;

    sw_recipe_error(r, s, "memory", "must be default or fit:SIZE");
    sw_recipe_hint(r, "memory = fit:4GB");
}

/* The loss scale is for fp16 only, and must be a power of 2 so that scaling changes exponents
 * only. */
static void settle_scale(struct sw_recipe *r, const struct sw_section *s, struct sw_job_conf *job)
{
    static const char *const keys[] = {"loss_scale", "loss_scale_every"};

    /* Contrastive divergence has no loss to scale: its gradients are means of states. */
    bool needed = sw_str_eq(precisions[job->precision], "fp16") &&
                  !sw_str_eq(algorithms[job->algorithm], "cd");
    int exponent;

    if (frexp(job->loss_scale, &exponent) != 0.5) {
        sw_recipe_error(r, s, keys[0], "must be a power of 2");
        sw_recipe_hint(r, "loss_scale = %.0f", ldexp(1, exponent - 1));
    }

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!needed && sw_section_precedence(s, keys[i])) {
            sw_recipe_error(r, s, keys[i],
                            "only back-propagation with precision = fp16 needs a loss scale");
            sw_recipe_hint(r, "remove the key: fp32, tf32 and bf16 have the same range");
        }

    if (!needed)
        job->loss_scale = 0;
}

/* A rollback and the next stage begin from a checkpoint, and early stopping ends with one. */
static void check_ends(struct sw_recipe *r, const struct sw_section *s,
                       const struct sw_job_conf *job)
{
    if (job->checkpoint_ends)
        return;

    if (sw_recipe_stage_count(r) > 0) {
        sw_recipe_error(r, s, "checkpoint_ends", "no is not possible in a recipe with stages");
        sw_recipe_hint(r, "a stage begins from the checkpoint at the end of the previous one");
    } else if (job->on_nan == SW_ON_NAN_ROLLBACK) {
        sw_recipe_error(r, s, "checkpoint_ends", "no conflicts with on_nan = rollback");
        sw_recipe_hint(r, "a rollback needs the checkpoint of step 0: on_nan = stop or skip");
    } else if (job->patience > 0) {
        sw_recipe_error(r, s, "checkpoint_ends",
                        "no conflicts with patience, which ends with a checkpoint of the best "
                        "parameters");
    }
}

/* The best evaluation must have a checkpoint: the run ends with its parameters. */
static void settle_patience(struct sw_recipe *r, const struct sw_section *s,
                            struct sw_job_conf *job)
{
    if (job->patience == 0)
        return;

    if (job->eval_every == 0) {
        sw_recipe_error(r, s, "patience",
                        "evaluations are counted, and there is only one, at the end");
        sw_recipe_hint(r, "set eval_every, the steps between evaluations");
    }
    if (sw_section_precedence(s, "checkpoint_best") && !job->checkpoint_best)
        sw_recipe_error(r, s, "checkpoint_best",
                        "no conflicts with patience, which ends with the best checkpoint");

    job->checkpoint_best = true;
}

int sw_job_apply_rules(struct sw_recipe *r, const struct sw_job_conf **out, struct sw_err *err)
{
    const struct sw_section *s = sw_recipe_find(r, "job", NULL);
    struct sw_job_conf *job = s->common;

    settle_length(r, s, job);
    settle_clip(r, s, job);
    settle_memory(r, s, job);
    settle_scale(r, s, job);
    settle_patience(r, s, job);
    check_ends(r, s, job);

    job->auto_partition = job->partition == PARTITION_AUTO;
    if (job->auto_partition)
        job->partition = 0; /* until a plan sets the layers' own keys */
    if (!job->eval_batch)
        job->eval_batch = job->batch;
    if (!job->name)
        job->name = stem_of(r);
    if (!job->name)
        return sw_err_nomem(err, "job.name", strlen(sw_recipe_path(r)));

    *out = job;
    return sw_recipe_status(r, err);
}
