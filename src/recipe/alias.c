/* The table of names that other systems use, ordered by section. A row is one name in one section;
 * a name may have several rows, of which the hint takes the first whose counterpart the section
 * accepts. A unit test checks every counterpart against the schema. */
#include "recipe/alias.h"
#include <string.h>

#define KEY(name_, system_, section_, key_)                                                        \
    {                                                                                              \
        .name = name_, .system = system_, .kind = SW_ALIAS_KEY, .section = section_, .key = key_   \
    }
#define VALUE(name_, system_, section_, key_, value_, ...)                                         \
    {                                                                                              \
        .name = name_, .system = system_, .kind = SW_ALIAS_VALUE, .section = section_,             \
        .key = key_, .value = value_, __VA_ARGS__                                                  \
    }
#define LAYER(name_, system_, type_, ...)                                                          \
    VALUE(name_, system_, "layer", "type", type_, .extra = __VA_ARGS__)
#define SECTION(name_, system_, section_)                                                          \
    {                                                                                              \
        .name = name_, .system = system_, .kind = SW_ALIAS_SECTION, .section = section_            \
    }
#define NOTE(name_, system_, section_, advice_)                                                    \
    {                                                                                              \
        .name = name_, .system = system_, .kind = SW_ALIAS_NOTE, .section = section_,              \
        .value = advice_                                                                           \
    }

static const char singa[] = "SINGA", caffe[] = "Caffe", poseidon[] = "Poseidon",
                  torch[] = "PyTorch", keras[] = "Keras", others[] = "other programs",
                  caffe_torch[] = "Caffe and PyTorch", singa_caffe[] = "SINGA and Caffe";

/* clang-format off */
static const struct sw_alias aliases[] = {
    /* ---- Sections ---- */
    SECTION("solver", caffe, "updater"),
    SECTION("optimizer", torch, "updater"),
    SECTION("neuralnet", singa, "layer"),
    SECTION("dataset", torch, "data"),
    SECTION("dataloader", torch, "data"),

    /* ---- [job] ---- */
    KEY("train_steps", singa, "job", "steps"),
    KEY("max_iter", caffe, "job", "steps"),
    KEY("max_steps", torch, "job", "steps"),
    KEY("num_epochs", torch, "job", "epochs"),
    KEY("max_epochs", torch, "job", "epochs"),
    KEY("batchsize", singa, "job", "batch"),
    KEY("batch_size", caffe_torch, "job", "batch"),
    KEY("test_freq", singa, "job", "eval_every"),
    KEY("validate_freq", singa, "job", "eval_every"),
    KEY("test_interval", caffe, "job", "eval_every"),
    KEY("checkpoint_freq", singa, "job", "checkpoint_every"),
    KEY("snapshot", caffe, "job", "checkpoint_every"),
    KEY("disp_freq", singa, "job", "display_every"),
    KEY("display", caffe, "job", "display_every"),
    KEY("checkpoint_path", singa, "job", "init_from"),
    KEY("alg", singa, "job", "algorithm"),
    KEY("random_seed", caffe, "job", "seed"),
    KEY("manual_seed", torch, "job", "seed"),
    KEY("solver_mode", caffe, "job", "device"),
    KEY("gpu", singa, "job", "device"),
    KEY("device_id", caffe, "job", "device"),
    KEY("dtype", torch, "job", "precision"),
    KEY("clip_gradients", caffe, "job", "grad_clip"),
    KEY("max_norm", torch, "job", "grad_clip"),
    KEY("deterministic", torch, "job", "repeat_exact"),
    NOTE("test_steps", singa, "job", "an evaluation reads all records; part in [data NAME] limits them"),
    NOTE("validate_steps", singa, "job", "an evaluation reads all records; part in [data NAME] limits them"),
    NOTE("test_iter", caffe, "job", "an evaluation reads all records; part in [data NAME] limits them"),
    NOTE("snapshot_prefix", caffe, "job", "use the option --out FOLDER"),

    /* ---- [data NAME] ---- */
    KEY("path", singa, "data", "paths"),
    KEY("source", caffe, "data", "paths"),
    KEY("backend", singa_caffe, "data", "format"),
    KEY("mean_file", singa_caffe, "data", "mean_image"),
    KEY("mean_value", singa_caffe, "data", "mean"),
    KEY("std_value", singa, "data", "std"),
    KEY("crop_size", caffe, "data", "crop"),
    KEY("num_workers", torch, "data", "workers"),
    KEY("prefetch_factor", torch, "data", "prefetch"),

    /* ---- [cluster] ---- */
    KEY("nworker_groups", singa, "cluster", "worker_groups"),
    KEY("nworkers_per_group", singa, "cluster", "workers_per_group"),
    KEY("nserver_groups", singa, "cluster", "server_groups"),
    KEY("nservers_per_group", singa, "cluster", "servers_per_group"),
    KEY("sync_freq", singa, "cluster", "sync_period"),
    KEY("table_staleness", poseidon, "cluster", "staleness"),
    KEY("consistency_model", poseidon, "cluster", "consistency"),
    KEY("svb", poseidon, "cluster", "comm"),
    KEY("num_app_threads", poseidon, "cluster", "workers_per_group"),
    KEY("world_size", torch, "cluster", "workers_per_group"),
    KEY("bucket_cap_mb", torch, "cluster", "bucket_size"),
    NOTE("nworkers_per_procs", singa, "cluster", "remove it: all workers of a job are threads of one process"),
    NOTE("nservers_per_procs", singa, "cluster", "remove it: all servers of a job are threads of one process"),

    /* ---- [updater] ---- */
    KEY("learning_rate", singa, "updater", "lr"),
    KEY("base_lr", singa_caffe, "updater", "lr"),
    KEY("solver_type", caffe, "updater", "type"),
    KEY("optimizer", torch, "updater", "type"),
    KEY("lr_policy", caffe, "updater", "policy"),
    KEY("lr_scheduler", torch, "updater", "policy"),
    KEY("scheduler", torch, "updater", "policy"),
    KEY("wd", torch, "updater", "weight_decay"),
    KEY("stepsize", caffe, "updater", "step_size"),
    KEY("change_freq", singa, "updater", "step_size"),
    KEY("stepvalue", caffe, "updater", "at"),
    KEY("milestones", torch, "updater", "at"),
    KEY("step_lr", singa, "updater", "rates"),
    KEY("T_max", torch, "updater", "over"),
    KEY("eta_min", torch, "updater", "final"),
    KEY("pct_start", torch, "updater", "peak"),
    KEY("betas", torch, "updater", "beta1"),
    KEY("momentum2", caffe, "updater", "beta2"),
    KEY("rms_decay", caffe, "updater", "rho"),
    KEY("eps", torch, "updater", "delta"),
    VALUE("kSGD", singa, "updater", "type", "sgd"),
    VALUE("SGD", caffe_torch, "updater", "type", "sgd"),
    VALUE("kNesterov", singa, "updater", "type", "nesterov"),
    VALUE("Nesterov", caffe, "updater", "type", "nesterov"),
    VALUE("kAdaGrad", singa, "updater", "type", "adagrad"),
    VALUE("AdaGrad", caffe, "updater", "type", "adagrad"),
    VALUE("Adagrad", torch, "updater", "type", "adagrad"),
    VALUE("kRMSProp", singa, "updater", "type", "rmsprop"),
    VALUE("RMSProp", caffe, "updater", "type", "rmsprop"),
    VALUE("RMSprop", torch, "updater", "type", "rmsprop"),
    VALUE("kAdaDelta", singa, "updater", "type", "adadelta"),
    VALUE("AdaDelta", caffe, "updater", "type", "adadelta"),
    VALUE("Adadelta", torch, "updater", "type", "adadelta"),
    VALUE("kAdam", singa, "updater", "type", "adam"),
    VALUE("Adam", caffe_torch, "updater", "type", "adam"),
    VALUE("AdamW", torch, "updater", "type", "adamw"),
    VALUE("kAdamMax", singa, "updater", "type", "adamax"),
    VALUE("Adamax", torch, "updater", "type", "adamax"),
    VALUE("kFixed", singa, "updater", "policy", "fixed"),
    VALUE("kStep", singa, "updater", "policy", "step"),
    VALUE("StepLR", torch, "updater", "policy", "step"),
    VALUE("MultiStepLR", torch, "updater", "policy", "multistep"),
    VALUE("kFixedStep", singa, "updater", "policy", "fixed_step"),
    VALUE("kLinear", singa, "updater", "policy", "linear"),
    VALUE("LinearLR", torch, "updater", "policy", "linear"),
    VALUE("kInverse", singa, "updater", "policy", "inverse"),
    VALUE("inv", caffe, "updater", "policy", "inverse"),
    VALUE("kInverseT", singa, "updater", "policy", "inverse_t"),
    VALUE("kExponential", singa, "updater", "policy", "exponential"),
    VALUE("exp", caffe, "updater", "policy", "exponential"),
    VALUE("ExponentialLR", torch, "updater", "policy", "exponential"),
    VALUE("poly", caffe, "updater", "policy", "polynomial"),
    VALUE("PolynomialLR", torch, "updater", "policy", "polynomial"),
    VALUE("CosineAnnealingLR", torch, "updater", "policy", "cosine"),
    VALUE("OneCycleLR", torch, "updater", "policy", "one_cycle"),

    /* ---- [layer NAME]: keys ---- */
    KEY("srclayers", singa, "layer", "src"),
    KEY("bottom", caffe, "layer", "src"),
    KEY("exclude", singa, "layer", "include"),
    KEY("phase", caffe, "layer", "include"),
    KEY("partition_dim", singa, "layer", "partition"),
    KEY("unroll_len", singa, "layer", "unroll"),
    KEY("unroll_conn_type", singa, "layer", "connections"),
    KEY("lr_scale", singa, "layer", "weight.lr_mult"),
    KEY("lr_mult", caffe, "layer", "weight.lr_mult"),
    KEY("wd_scale", singa, "layer", "weight.decay_mult"),
    KEY("decay_mult", caffe, "layer", "weight.decay_mult"),
    KEY("share_from", singa, "layer", "weight.share"),
    KEY("weight_filler", caffe, "layer", "weight.init"),
    KEY("bias_filler", caffe, "layer", "bias.init"),
    KEY("num_filters", singa, "layer", "outputs"),
    KEY("num_output", singa_caffe, "layer", "outputs"),
    KEY("out_channels", torch, "layer", "outputs"),
    KEY("out_features", torch, "layer", "outputs"),
    KEY("feature_dim", singa, "layer", "outputs"),
    KEY("embedding_dim", torch, "layer", "outputs"),
    KEY("kernel_size", caffe_torch, "layer", "kernel"),
    KEY("kernel_w", caffe, "layer", "kernel_x"),
    KEY("kernel_h", caffe, "layer", "kernel_y"),
    KEY("stride_w", caffe, "layer", "stride_x"),
    KEY("stride_h", caffe, "layer", "stride_y"),
    KEY("padding", torch, "layer", "pad"),
    KEY("pad_w", caffe, "layer", "pad_x"),
    KEY("pad_h", caffe, "layer", "pad_y"),
    KEY("output_padding", torch, "layer", "output_pad"),
    KEY("group", caffe, "layer", "groups"),
    KEY("bias_term", singa_caffe, "layer", "bias"),
    KEY("pool", singa_caffe, "layer", "method"),
    KEY("global_pooling", caffe, "layer", "global"),
    KEY("ceil_mode", torch, "layer", "round"),
    KEY("count_include_pad", torch, "layer", "divide_by"),
    KEY("local_size", singa_caffe, "layer", "size"),
    KEY("norm_region", caffe, "layer", "region"),
    KEY("knorm", singa, "layer", "k"),
    KEY("dropout_ratio", singa_caffe, "layer", "ratio"),
    KEY("p", torch, "layer", "ratio"),
    KEY("negative_slope", caffe_torch, "layer", "slope"),
    KEY("moving_average_fraction", caffe, "layer", "momentum"),
    KEY("loss_weight", caffe, "layer", "weight"),
    KEY("ignore_index", torch, "layer", "ignore_label"),
    KEY("topk", singa, "layer", "top_k"),
    KEY("coeff", caffe, "layer", "coefficients"),
    KEY("vocab_size", singa, "layer", "vocabulary"),
    KEY("num_embeddings", torch, "layer", "vocabulary"),
    KEY("input_dim", caffe, "layer", "vocabulary"),
    KEY("padding_idx", torch, "layer", "padding"),
    KEY("hdim", singa, "layer", "hidden"),
    KEY("dim_hidden", singa, "layer", "hidden"),
    KEY("num_output", caffe, "layer", "hidden"),
    KEY("hidden_size", torch, "layer", "hidden"),
    KEY("num_layers", torch, "layer", "layers"),
    NOTE("name", singa_caffe, "layer", "the header names the layer: [layer NAME]"),
    NOTE("top", caffe, "layer", "remove it: other layers read this one by its name, src = NAME"),
    NOTE("in_channels", torch, "layer", "remove it: the size follows from the source"),
    NOTE("in_features", torch, "layer", "remove it: the size follows from the source"),
    NOTE("input_size", torch, "layer", "remove it: the size follows from the source"),
    NOTE("num_features", torch, "layer", "remove it: the size follows from the source"),
    NOTE("inplace", torch, "layer", "remove it: memory is reused where possible"),

    /* ---- [layer NAME]: types ---- */
    LAYER("kConvolution", singa, "convolution", NULL),
    LAYER("kCConvolution", singa, "convolution", NULL),
    LAYER("kCudnnConv", singa, "convolution", NULL),
    LAYER("Convolution", caffe, "convolution", NULL),
    LAYER("Conv2d", torch, "convolution", NULL),
    LAYER("Deconvolution", caffe, "deconvolution", NULL),
    LAYER("ConvTranspose2d", torch, "deconvolution", NULL),
    LAYER("kPooling", singa, "pooling", NULL),
    LAYER("kCPooling", singa, "pooling", NULL),
    LAYER("kCudnnPool", singa, "pooling", NULL),
    LAYER("Pooling", caffe, "pooling", NULL),
    LAYER("MaxPool2d", torch, "pooling", "method = max"),
    LAYER("AvgPool2d", torch, "pooling", "method = avg"),
    LAYER("AdaptiveAvgPool2d", torch, "pooling", "global = yes"),
    LAYER("kInnerProduct", singa, "inner_product", NULL),
    LAYER("InnerProduct", caffe, "inner_product", NULL),
    LAYER("Linear", torch, "inner_product", NULL),
    LAYER("Dense", keras, "inner_product", NULL),
    LAYER("fc", others, "inner_product", NULL),
    LAYER("conv", others, "convolution", NULL),
    LAYER("bn", others, "batch_norm", NULL),
    LAYER("BatchNormalization", keras, "batch_norm", NULL),
    LAYER("MaxPool", others, "pooling", "method = max"),
    LAYER("MaxPooling2D", keras, "pooling", "method = max"),
    LAYER("AvgPool", others, "pooling", "method = avg"),
    LAYER("AveragePooling2D", keras, "pooling", "method = avg"),
    LAYER("mse", others, "euclidean_loss", NULL),
    LAYER("cross_entropy", others, "softmax_loss", NULL),
    LAYER("kReLU", singa, "activation", "function = relu"),
    LAYER("ReLU", caffe_torch, "activation", "function = relu"),
    LAYER("LeakyReLU", torch, "activation", "function = leaky_relu"),
    LAYER("kSigmoid", singa, "activation", "function = sigmoid"),
    LAYER("Sigmoid", caffe_torch, "activation", "function = sigmoid"),
    LAYER("kSTanh", singa, "activation", "function = stanh"),
    LAYER("TanH", caffe, "activation", "function = tanh"),
    LAYER("Tanh", torch, "activation", "function = tanh"),
    LAYER("Softplus", torch, "activation", "function = softplus"),
    LAYER("GELU", torch, "activation", "function = gelu"),
    LAYER("kActivation", singa, "activation", NULL),
    LAYER("kCudnnActivation", singa, "activation", NULL),
    LAYER("kDropout", singa, "dropout", NULL),
    LAYER("Dropout", caffe_torch, "dropout", NULL),
    LAYER("kLRN", singa, "lrn", NULL),
    LAYER("kCudnnLRN", singa, "lrn", NULL),
    LAYER("LRN", caffe, "lrn", NULL),
    LAYER("LocalResponseNorm", torch, "lrn", NULL),
    LAYER("kBM", singa, "batch_norm", NULL),
    LAYER("kCudnnBM", singa, "batch_norm", NULL),
    LAYER("BatchNorm", caffe, "batch_norm", NULL),
    LAYER("BatchNorm1d", torch, "batch_norm", NULL),
    LAYER("BatchNorm2d", torch, "batch_norm", NULL),
    LAYER("LayerNorm", torch, "layer_norm", NULL),
    LAYER("kEmbedding", singa, "embedding", NULL),
    LAYER("Embed", caffe, "embedding", NULL),
    LAYER("Embedding", torch, "embedding", NULL),
    LAYER("EmbeddingBag", torch, "embedding_mean", NULL),
    LAYER("kGRU", singa, "gru", NULL),
    LAYER("GRU", torch, "gru", NULL),
    LAYER("LSTM", caffe_torch, "lstm", NULL),
    LAYER("RNN", caffe_torch, "rnn", NULL),
    LAYER("kRBMVis", singa, "rbm_visible", NULL),
    LAYER("kRBMHid", singa, "rbm_hidden", NULL),
    LAYER("kSoftmax", singa, "softmax", NULL),
    LAYER("Softmax", caffe_torch, "softmax", NULL),
    LAYER("kSoftmaxLoss", singa, "softmax_loss", NULL),
    LAYER("kCudnnSoftmaxLoss", singa, "softmax_loss", NULL),
    LAYER("SoftmaxWithLoss", caffe, "softmax_loss", NULL),
    LAYER("CrossEntropyLoss", torch, "softmax_loss", NULL),
    LAYER("kEuclideanLoss", singa, "euclidean_loss", NULL),
    LAYER("EuclideanLoss", caffe, "euclidean_loss", NULL),
    LAYER("MSELoss", torch, "euclidean_loss", NULL),
    LAYER("SigmoidCrossEntropyLoss", caffe, "sigmoid_cross_entropy", NULL),
    LAYER("BCEWithLogitsLoss", torch, "sigmoid_cross_entropy", NULL),
    LAYER("HingeLoss", caffe, "hinge_loss", NULL),
    LAYER("kAccuracy", singa, "accuracy", NULL),
    LAYER("Accuracy", caffe, "accuracy", NULL),
    LAYER("kArgSort", singa, "argsort", NULL),
    LAYER("ArgMax", caffe, "argsort", NULL),
    LAYER("kConcate", singa, "concat", NULL),
    LAYER("Concat", caffe, "concat", NULL),
    LAYER("kSlice", singa, "slice", NULL),
    LAYER("Slice", caffe, "slice", NULL),
    LAYER("kSplit", singa, "split", NULL),
    LAYER("Split", caffe, "split", NULL),
    LAYER("Eltwise", caffe, "eltwise", NULL),
    LAYER("Flatten", caffe_torch, "flatten", NULL),
    LAYER("Reshape", caffe, "reshape", NULL),
    LAYER("kOneHot", singa, "onehot", NULL),
    LAYER("kCSVOutput", singa, "csv_output", NULL),
    LAYER("kRecordOutput", singa, "record_output", NULL),
    LAYER("kStoreInput", singa, "input", NULL),
    LAYER("kRecordInput", singa, "input", NULL),
    LAYER("kCSVInput", singa, "input", NULL),
    LAYER("Input", caffe, "input", NULL),
    LAYER("Data", caffe, "input", NULL),

    /* ---- Choices ---- */
    VALUE("kBP", singa, "job", "algorithm", "bp"),
    VALUE("kBPTT", singa, "job", "algorithm", "bptt"),
    VALUE("kCD", singa, "job", "algorithm", "cd"),
    VALUE("MAX", singa_caffe, "layer", "method", "max"),
    VALUE("AVE", caffe, "layer", "method", "avg"),
    VALUE("AVG", singa, "layer", "method", "avg"),
    VALUE("ACROSS_CHANNELS", caffe, "layer", "region", "across_channels"),
    VALUE("WITHIN_CHANNEL", caffe, "layer", "region", "within_channel"),
    VALUE("TRAIN", caffe, "layer", "include", "train"),
    VALUE("TEST", caffe, "layer", "include", "eval"),
    VALUE("SUM", caffe, "layer", "operation", "sum"),
    VALUE("PROD", caffe, "layer", "operation", "product"),
    VALUE("kConstant", singa, "layer", "init", "constant"),
    VALUE("kGaussian", singa, "layer", "init", "gaussian"),
    VALUE("normal", torch, "layer", "init", "gaussian"),
    VALUE("kUniform", singa, "layer", "init", "uniform"),
    VALUE("xavier_uniform", torch, "layer", "init", "xavier"),
    VALUE("kaiming_normal", torch, "layer", "init", "msra"),
    VALUE("kaiming", torch, "layer", "init", "msra"),
    VALUE("kGaussianSqrtFanIn", singa, "layer", "init", "gaussian_sqrt_fan_in"),
    VALUE("kUniformSqrtFanIn", singa, "layer", "init", "uniform_sqrt_fan_in"),
    VALUE("kUniformSqrtFanInOut", singa, "layer", "init", "uniform_sqrt_fan_in_out"),
};
/* clang-format on */

enum { ALIASES = sizeof aliases / sizeof *aliases };

const struct sw_alias *sw_aliases(size_t *count)
{
    *count = ALIASES;
    return aliases;
}

const struct sw_alias *sw_alias_next(const struct sw_alias *last, enum sw_alias_kind kind,
                                     const char *name)
{
    for (const struct sw_alias *a = last ? last + 1 : aliases; a < aliases + ALIASES; a++)
        if (a->kind == kind && a->name[0] == name[0] && strcmp(a->name, name) == 0)
            return a;
    return NULL;
}

bool sw_alias_means(const char *section, const char *name, const char *key)
{
    const struct sw_alias *a = NULL;

    while ((a = sw_alias_next(a, SW_ALIAS_KEY, name)))
        if (strcmp(a->section, section) == 0 && strcmp(a->key, key) == 0)
            return true;

    return false;
}
