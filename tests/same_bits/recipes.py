"""The recipes of the comparison: small nets on synthetic data that have, together, everything that an
exchange of gradients can meet. All train for STEPS steps and evaluate twice."""

STEPS = 20

JOB = """
[job]
name = same
batch = %(batch)d
eval_batch = 8
steps = %(steps)d
eval_every = 10
checkpoint_every = 10
"""
PICTURES = """
[data train]
format = synthetic
classes = 4
records = 120
channels = 3
height = 12
width = 12
mean = 127
std = 64
crop = 10
mirror = yes
shuffle = yes
[data test]
format = synthetic
classes = 4
records = 19
channels = 3
height = 12
width = 12
mean = 127
std = 64
crop = 10
"""
SGD = """
[updater]
type = sgd
lr = 0.02
policy = inverse
gamma = 0.01
power = 0.75
momentum = 0.9
weight_decay = 0.0005
[updater *.bias]
lr_mult = 2
"""
INPUTS = """
[layer image]
type = input
field = image
[layer label]
type = input
field = label
"""
SCORES = """
[layer loss]
type = softmax_loss
src = fc2, label
[layer accuracy]
type = accuracy
src = fc2, label
include = eval
"""

# Convolutions, dropout, fully-connected layers.
CONV = JOB % dict(batch=13, steps=STEPS) + PICTURES + SGD + INPUTS + """
[layer conv1]
type = convolution
src = image
outputs = 8
kernel = 3
[layer relu1]
type = activation
src = conv1
function = relu
[layer pool1]
type = pooling
src = relu1
method = max
kernel = 2
stride = 2
[layer fc1]
type = inner_product
src = pool1
outputs = 32
[layer relu2]
type = activation
src = fc1
function = relu
[layer drop]
type = dropout
src = relu2
ratio = 0.3
[layer fc2]
type = inner_product
src = drop
outputs = 4
""" + SCORES

# Branches with normalization, running statistics, and layers that join what lies side by side.
BRANCHES = JOB % dict(batch=14, steps=STEPS) + PICTURES + SGD + INPUTS + """
[layer conv1]
type = convolution
src = image
outputs = 6
kernel = 3
pad = 1
[layer norm1]
type = batch_norm
src = conv1
[layer left]
type = convolution
src = norm1
outputs = 5
kernel = 3
pad = 1
[layer right]
type = convolution
src = norm1
outputs = 6
kernel = 1
[layer act]
type = activation
src = right
function = tanh
[layer both]
type = concat
src = left, act
[layer pool]
type = pooling
src = both
method = avg
kernel = 2
stride = 2
[layer fc1]
type = inner_product
src = pool
outputs = 12
[layer act1]
type = activation
src = fc1
function = tanh
[layer fc2]
type = inner_product
src = act1
outputs = 4
""" + SCORES

# An auto-encoder whose decoder reads the weights of the encoder.
TIED = JOB % dict(batch=13, steps=STEPS) + PICTURES + SGD.replace("0.02", "0.002") + INPUTS + """
[layer flat]
type = flatten
src = image
[layer enc1]
type = inner_product
src = flat
outputs = 20
[layer code1]
type = activation
function = sigmoid
src = enc1
[layer enc2]
type = inner_product
src = code1
outputs = 9
[layer code2]
type = activation
function = sigmoid
src = enc2
[layer dec2]
type = inner_product
src = code2
outputs = 20
transpose = yes
weight.share = enc2.weight
[layer undo2]
type = activation
function = sigmoid
src = dec2
[layer dec1]
type = inner_product
src = undo2
outputs = 300
transpose = yes
weight.share = enc1.weight
[layer loss]
type = euclidean_loss
src = dec1, flat
"""

# Two stages; the second freezes what the first has learned.
STAGED = TIED.replace("steps = %d\n" % STEPS, "").replace("checkpoint_every = 10\n",
                                                           "checkpoint_every = 4\n") + """
[stage first]
steps = 9
[stage second]
steps = 11
batch = 10
freeze = enc1.*
updater.type = adam
updater.lr = 0.002
"""


def text(path, kind, more=""):
    """A recurrent model of a text, whose state goes on from batch to batch."""
    return JOB % dict(batch=6, steps=STEPS) + """
[updater]
type = rmsprop
lr = 0.01
[data train]
format = text
paths = %(path)s
length = 8
streams = 6
[data test]
format = text
paths = %(path)s
length = 8
streams = 8
[layer tokens]
type = input
field = tokens
[layer target]
type = input
field = target
[layer vectors]
type = embedding
src = tokens
vocabulary = 20
outputs = 9
[layer cell]
type = %(kind)s
src = vectors
hidden = 11
stateful = yes
%(more)s
[layer scores]
type = inner_product
src = cell
outputs = 20
axis = 2
[layer loss]
type = softmax_loss
src = scores, target
""" % dict(path=path, kind=kind, more=more)


def unrolled(path):
    """Two cells that are unrolled, each on a worker of its own: the upper works a step behind."""
    cells = text(path, "gru", "layers = 1")
    below, above = cells.split("[layer cell]")
    above = above[above.index("[layer scores]"):]
    cell = """[layer %s]
type = gru
src = %s, %s
connections = one-to-one, stateful
unroll = 8
hidden = 7
location = %d
"""
    return (below.replace("[layer vectors]\n", "[layer vectors]\nlocation = 0\n") +
            cell % ("low", "vectors", "low", 0) + cell % ("high", "low", "high", 1) +
            above.replace("src = cell", "src = high\nlocation = 1")
                 .replace("src = scores, target", "src = scores, target\nlocation = 1"))


# A Boltzmann machine whose chains go on from batch to batch; what measures it reads all
# of its weight.
MACHINE = JOB % dict(batch=13, steps=STEPS) + """
[data train]
format = synthetic
classes = 4
records = 120
height = 6
width = 6
scale = 0.00392156863
shuffle = yes
[data test]
format = synthetic
classes = 4
records = 19
height = 6
width = 6
scale = 0.00392156863
[updater]
type = sgd
lr = 0.05
momentum = 0.5
[layer image]
type = input
field = image
[layer vis]
type = rbm_visible
src = image
binary = yes
[layer rbm]
type = rbm_hidden
src = vis
hidden = 14
persistent = yes
weight.init = gaussian
weight.std = 0.05
"""
MACHINE = MACHINE.replace("[job]\n", "[job]\nalgorithm = cd\n")
MACHINE_METRICS = """[layer down]
type = rbm_visible
src = vis, rbm
include = eval
[layer error]
type = reconstruction_error
src = vis, down
include = eval
[layer energy]
type = free_energy
src = vis, rbm
include = eval
"""


def letters():
    """The text that `text` and `unrolled` read."""
    s, words = 7, []
    for _ in range(900):
        s = (s * 75 + 74) % 65537
        words.append("for (i = 0; i < n; i++)\n" if s % 5 == 0 else
                     "\tx += y;\n" if s % 5 < 3 else "}\n")
    return "".join(words)


RECIPES = {
    "conv": CONV,
    "branches": BRANCHES,
    "tied": TIED,
    "staged": STAGED,
    "rnn": text("text", "rnn"),
    "gru": text("text", "gru"),
    "lstm": text("text", "lstm", "layers = 2"),
    "unrolled": unrolled("text"),
    "machine": MACHINE + MACHINE_METRICS,
    "machine-alone": MACHINE,
}
