"""The set-ups of the comparison: name -> Setup. Only what gives the same bits every time is here, so
asynchronous groups come alone, or one works while the others rest.

In arguments, `a.b=c` is short for `--set a.b=c`."""


class Setup:
    """phases: the commands, one after the other, the last of which leaves the checkpoint of the last
    step. seed: commands that the old program runs first, for both. exit: how the last phase ends.
    fit: job.memory is so many times the smallest budget that the old program names."""

    def __init__(self, recipe, arguments="", phases=None, seed=(), exit=0, fit=None):
        self.recipe, self.arguments, self.seed = recipe, arguments, list(seed)
        self.phases = phases or ["run"]
        self.exit, self.fit = exit, fit


SETUPS = {}


def add(name, recipe, arguments="", **more):
    assert name not in SETUPS, name
    SETUPS[name] = Setup(recipe, arguments, **more)


W2, W3, W4 = ("cluster.workers_per_group=%d " % n for n in (2, 3, 4))
SB, AR, CUSTOM = ("--framework %s " % f for f in ("sandblaster", "allreduce", "custom"))
DP1 = "--framework downpour cluster.worker_groups=1 "
HW1 = "--framework hogwild cluster.worker_groups=1 "
S2, S3 = "cluster.servers_per_group=2 ", "cluster.servers_per_group=3 "
SIM1, SIM2, SIM3 = ("--device sim:gpus=%d,mem=64MiB " % n for n in (1, 2, 3))
BLIND3 = "--device sim:gpus=3,mem=64MiB,peer=no "
MIXED = "--device sim:gpus=2,mem=64MiB+cpu "
ASYNC, SYNC, NONE = ("cluster.copy=%s " % c for c in ("async", "sync", "none"))
NORM = "job.grad_clip=norm:0.3 "
OVERFLOW = "job.precision=fp16 job.loss_scale=16777216 job.loss_scale_every=3 "

# Frameworks on the CPU.
add("one", "conv")
add("one-sandblaster", "conv", SB)
add("allreduce-2", "conv", AR + W2)
add("allreduce-3", "conv", AR + W3)
add("allreduce-4-no-overlap", "conv", AR + W4 + "cluster.overlap=no")
add("sandblaster-3", "conv", SB + W3)
add("sandblaster-3-servers-2", "conv", SB + W3 + S2)
add("sandblaster-3-servers-3-slices", "conv", SB + W3 + S3 + "cluster.slice_size=1024")
add("sandblaster-2-bound", "conv", SB + W2 + S2 + "cluster.bind_servers=yes")
add("sandblaster-2-no-overlap", "conv", SB + W2 + "cluster.overlap=no")
add("sandblaster-2-copy-sync", "conv", SB + W2 + SYNC)
add("allreduce-branches-3", "branches", AR + W3)
add("custom-groups-3", "conv", CUSTOM + "cluster.worker_groups=3")
add("custom-groups-2x2", "conv", CUSTOM + W2 + S2 + "cluster.worker_groups=2")
add("custom-groups-2x2-columns", "conv",
    CUSTOM + W2 + "cluster.worker_groups=2 job.partition=1")
add("custom-groups-2x2-branches", "branches",
    CUSTOM + W2 + "cluster.worker_groups=2 job.partition=1 cluster.bind_servers=yes")

# Groups that are asynchronous, one of which works.
add("downpour-1", "conv", DP1)
add("downpour-1x3", "conv", DP1 + W3 + S2)
add("downpour-1x2-ssp", "conv", DP1 + W2 + "cluster.staleness=2")
add("downpour-1x2-columns", "conv", DP1 + W2 + "job.partition=1")
add("downpour-1x2-clips", "conv", DP1 + W2 + NORM)
add("downpour-warm-up", "conv",
    "--framework downpour cluster.worker_groups=3 cluster.warmup_steps=20")
add("downpour-1-sim", "conv", DP1 + SIM1)
add("downpour-1x2-sim", "conv", DP1 + W2 + SIM2 + SYNC)
add("hogwild-1", "conv", HW1)
add("hogwild-1-bound", "conv", HW1 + "cluster.staleness=3")
add("hogwild-1-sim", "conv", HW1 + SIM1)
add("hogwild-warm-up", "branches",
    "--framework hogwild cluster.worker_groups=2 cluster.warmup_steps=20")
add("async-1x3", "conv", CUSTOM + "cluster.consistency=async " + W3)

# Layers that are split otherwise than by rows.
add("columns-2", "conv", AR + W2 + "job.partition=1")
add("columns-3-branches", "branches", AR + W3 + "job.partition=1")
add("columns-inputs", "conv", AR + W2 + "layer.fc1.partition=1in layer.fc2.partition=1")
add("columns-inputs-sandblaster", "conv",
    SB + W3 + S2 + "layer.fc1.partition=1 layer.fc2.partition=1in")
add("whole-and-location", "conv",
    AR + W3 + "layer.conv1.location=1 layer.fc1.partition=1in layer.fc2.partition=none")
add("columns-clips", "conv", AR + W2 + "job.partition=1 " + NORM)
add("columns-sim", "conv", AR + SIM2 + "job.partition=1")
add("columns-sim-none", "conv", AR + SIM2 + NONE + "job.partition=1")
add("columns-sim-none-clips", "conv", AR + SIM2 + NONE + NORM + "layer.fc1.partition=1")
add("columns-sim-branches", "branches", AR + SIM3 + "job.partition=1")
add("columns-sim-no-peer", "branches", SB + BLIND3 + "job.partition=1")
add("location-sim", "conv", AR + SIM2 + "layer.conv1.location=1 layer.fc1.partition=1in")

# Factors in place of gradients.
for way in "ps", "sfb", "adam":
    add("comm-%s-allreduce" % way, "conv", AR + W3 + "cluster.comm=" + way)
    add("comm-%s-sandblaster" % way, "conv", SB + W3 + S2 + "cluster.comm=" + way)
    add("comm-%s-sim" % way, "conv", AR + BLIND3 + "cluster.comm=" + way)
    add("comm-%s-sim-servers" % way, "conv", SB + SIM2 + S2 + "cluster.comm=" + way)
add("comm-sfb-sim-none", "conv", AR + SIM3 + NONE + "cluster.comm=sfb")
add("comm-adam-sim-none", "conv", SB + SIM3 + NONE + "cluster.comm=adam")
add("comm-mixed-sim-none", "conv", AR + SIM3 + NONE + "layer.fc1.comm=sfb layer.fc2.comm=ps")
add("comm-sfb-no-overlap", "conv", SB + SIM2 + "cluster.comm=sfb cluster.overlap=no")
add("comm-adam-clips", "conv", AR + W3 + NORM + "cluster.comm=adam")
add("comm-adam-columns", "conv", AR + W2 + "layer.fc1.comm=adam layer.fc2.partition=1")

# What travels between host and simulated devices.
for copy, text in ("async", ASYNC), ("sync", SYNC), ("none", NONE):
    add("sim-1-%s" % copy, "conv", SIM1 + text)
    add("sim-2-%s-allreduce" % copy, "conv", AR + SIM2 + text)
    add("sim-3-%s-sandblaster" % copy, "branches", SB + SIM3 + S2 + text)
add("sim-3-none-buckets", "branches", AR + SIM3 + NONE + "cluster.bucket_size=64")
add("sim-3-none-copies", "conv", AR + SIM3 + NONE + "cluster.all_reduce=copies")
add("sim-3-none-library", "conv", AR + SIM3 + NONE + "cluster.all_reduce=library")
add("sim-3-none-no-peer", "conv", AR + BLIND3 + NONE)
add("sim-2-none-no-overlap", "conv", AR + SIM2 + NONE + "cluster.overlap=no")
add("sim-2-async-no-overlap", "conv", SB + SIM2 + ASYNC + "cluster.overlap=no")
add("sim-2-none-groups", "conv", CUSTOM + SIM2 + NONE + "cluster.worker_groups=2")
add("sim-1-streams-1", "branches", SIM1 + NONE + "job.streams=1")
add("sim-2-slow-link", "conv", AR + "--device sim:gpus=2,mem=64MiB,pcie=50MB/s,latency=20us")
add("mixed-async", "conv", SB + MIXED + W3 + ASYNC)
add("mixed-sync", "branches", AR + MIXED + W3 + SYNC)
add("mixed-clips", "conv", AR + MIXED + W3 + NORM)

# The same bits whoever computes.
EXACT = "job.repeat_exact=yes "
add("exact-1", "conv", EXACT)
add("exact-3", "branches", EXACT + AR + W3)
add("exact-sandblaster", "conv", EXACT + SB + W2 + S2)
add("exact-parts", "conv", EXACT + AR + W2 + "job.virtual_workers=5")
add("exact-groups", "conv", EXACT + CUSTOM + "cluster.worker_groups=2")
add("exact-sim", "conv", EXACT + AR + SIM2)
add("exact-sim-none", "conv", EXACT + AR + SIM3 + NONE)
add("exact-lstm", "lstm", EXACT + AR + W2)

# A budget of memory.
add("fit", "branches", fit=1)
add("fit-2", "branches", AR + W2, fit=1.05)
add("fit-sim", "branches", SIM1 + "job.streams=1", fit=1.05)

# Updates that look at all gradients, and updaters.
for name, text in (("cpu", AR + W3), ("servers", SB + W2 + S2), ("sim-async", SB + SIM2 + ASYNC),
                   ("sim-none", AR + SIM3 + NONE), ("sim-1", SIM1 + NONE)):
    add("clips-%s" % name, "conv", text + NORM)
    add("skips-%s" % name, "conv", text + "job.on_nan=skip updater.lr=1e18")
    add("scale-%s" % name, "conv", text + OVERFLOW)
    add("lars-%s" % name, "conv", text + "updater.type=lars updater.lr=0.5 updater.trust=0.01")
    add("adam-%s" % name, "branches", text + "updater.type=adam updater.lr=0.002")
add("clips-values", "conv", AR + W2 + "job.grad_clip=value:0.01")
# With several workers, which of them tells first is not the same every time.
add("stops", "conv", "updater.lr=1e18", exit=4)
add("stops-sim", "conv", SIM1 + NONE + "updater.lr=1e18", exit=4)
add("bf16", "conv", AR + W2 + "job.precision=bf16")
add("bf16-sim", "branches", AR + SIM2 + NONE + "job.precision=bf16")
add("tf32", "conv", "job.precision=tf32")
add("bf16-lstm", "lstm", "job.precision=bf16")
for updater in "nesterov", "adagrad", "rmsprop", "adadelta", "adamw", "adamax":
    add("updater-" + updater, "conv", SB + W2 + S2 + "updater.lr=0.003 updater.type=" + updater)

# Parameters that stay, and those that layers share.
for name, text in (("cpu", AR + W2), ("servers", SB + W3 + S2), ("sim-async", AR + SIM2),
                   ("sim-sync", SB + SIM2 + SYNC), ("sim-none", AR + SIM2 + NONE)):
    add("frozen-%s" % name, "branches", text + "job.freeze=norm1,left.weight")
    add("shared-%s" % name, "tied", text)
add("shared-1", "tied")
add("shared-clips", "tied", AR + W2 + NORM)
add("shared-downpour", "tied", DP1 + W2)
add("frozen-sfb", "conv", AR + W2 + "job.freeze=conv1 cluster.comm=sfb")

# Stages, and going on.
HALF = ["run --steps 9", "resume --steps 20"]
add("stages-1", "staged")
add("stages-3", "staged", SB + W3 + S2)
add("stages-sim-none", "staged", AR + SIM2 + NONE)
add("stages-halfway", "staged", AR + W2, phases=["run --steps 5", "resume --steps 12",
                                                 "resume --steps 20"])
add("resume-1", "conv", phases=HALF)
add("resume-sandblaster", "branches", SB + W2 + S2, phases=HALF)
add("resume-sim-none", "branches", AR + SIM2 + NONE, phases=HALF)
add("resume-scale", "conv", AR + SIM2 + NONE + OVERFLOW, phases=HALF)
add("resume-hogwild", "conv", HW1, phases=HALF)
add("resume-with-more", "branches",
    phases=["run --steps 9", "resume --steps 20 cluster.workers_per_group=3"])
add("resume-exact", "conv", EXACT + AR + W2,
    phases=["run --steps 9", "resume --steps 20 cluster.workers_per_group=3"])
# A checkpoint of the old program.
for name, recipe, text in (("cpu", "branches", AR + W2), ("sim", "conv", AR + SIM2 + NONE),
                           ("lstm", "lstm", ""), ("machine", "machine", W2),
                           ("sfb", "conv", AR + BLIND3 + "cluster.comm=sfb")):
    add("resume-old-%s" % name, recipe, text, seed=["run --steps 9"], phases=["resume --steps 20"])
# Rows by speed: moved in a run of the old program, and kept until the next evaluation.
add("rebalanced", "conv",
    AR + "--device sim:gpus=2,mem=64MiB,slow=3 cluster.rebalance=yes job.eval_every=10",
    seed=["run --steps 11"], phases=["resume --steps 19"])
add("rebalanced-none", "branches",
    AR + "--device sim:gpus=2,mem=64MiB,slow=3 cluster.rebalance=yes job.eval_every=10 " + NONE,
    seed=["run --steps 11"], phases=["resume --steps 19"])

# State that goes on from batch to batch.
for kind in "rnn", "gru", "lstm":
    add(kind, kind)
    add(kind + "-2", kind, AR + W2)
    add(kind + "-halfway", kind, SB + W3 + S2, phases=HALF)
add("lstm-sim", "lstm", AR + SIM2)
add("lstm-sim-none", "lstm", AR + SIM2 + NONE)
add("unrolled", "unrolled", AR + W2)
add("unrolled-sim", "unrolled", AR + SIM2)

# Boltzmann machines.
add("machine-1", "machine")
add("machine-3", "machine", SB + W3)
add("machine-columns", "machine-alone", AR + W2 + "job.partition=1")
add("machine-sim", "machine", AR + SIM2)
add("machine-sim-none", "machine", AR + SIM2 + NONE)
add("machine-halfway", "machine", AR + W2, phases=HALF)
add("machine-downpour", "machine", DP1 + W2)

# What is refused.
add("refused-exact-hogwild", "conv", EXACT + "--framework hogwild", exit=2)
add("refused-exact-sfb", "conv", EXACT + W2 + "cluster.comm=sfb", exit=2)
add("refused-adam-without-servers", "conv", AR + SIM2 + NONE + "cluster.comm=adam", exit=2)
add("refused-mixed-none", "conv", AR + MIXED + W3 + NONE, exit=2)
add("refused-none-async", "conv", DP1 + SIM1 + NONE, exit=2)
add("refused-columns", "conv", AR + W2 + "layer.loss.partition=1", exit=2)
add("refused-warm-up", "conv", AR + "cluster.warmup_steps=5", exit=2)
add("refused-one-server", "conv", AR + W3 + "cluster.servers_per_group=1", exit=2)
add("refused-rows", "conv", AR + "job.batch=2 " + W3, exit=2)
