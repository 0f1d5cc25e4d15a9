"""Every layer type's output by `predict`, against its closed form, to 1e-5: a table with a row (or
more) for each type. A type without a row fails the test, unless it has no output. Python's standard
library alone; called by predict_layers.sh with the program and a folder to work in."""
import ast, json, math, random, struct, subprocess, sys, os

PROGRAM, FOLDER = sys.argv[1:3]
ROWS, BATCH = 5, 3  # the last batch is padded
rng = random.Random(7)


# ---- arrays: (shape, values), row-major ----

def count(shape):
    return math.prod(shape)


def real(*shape, low=-1.0, high=1.0):
    """Floats that are the same as f4."""
    v = [struct.unpack("f", struct.pack("f", rng.uniform(low, high)))[0] for _ in range(count(shape))]
    return (list(shape), v)


def whole(*shape, low=0, high=5):
    return (list(shape), [rng.randrange(low, high) for _ in range(count(shape))])


def write_npy(path, array):
    shape, values = array
    ints = all(isinstance(v, int) for v in values)
    text = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (
        "<i4" if ints else "<f4", tuple(shape) if len(shape) > 1 else "(%d,)" % shape[0])
    text += " " * (-(len(text) + 11) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode())
        f.write(struct.pack("<%d%s" % (len(values), "i" if ints else "f"), *values))


def read_npy(path):
    raw = open(path, "rb").read()
    assert raw[:6] == b"\x93NUMPY"
    n, = struct.unpack("<H", raw[8:10])
    head = ast.literal_eval(raw[10:10 + n].decode())
    assert head["descr"] == "<f4" and not head["fortran_order"], head
    shape = list(head["shape"])
    return shape, list(struct.unpack("<%df" % count(shape), raw[10 + n:]))


def write_weights(path, tensors):
    head, data = {}, b""
    for name, (shape, values) in tensors.items():
        raw = struct.pack("<%df" % len(values), *values)
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(head).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)


# ---- closed forms: (sources, weights) -> (shape, values) ----

def elementwise(f):
    return lambda s, w: (s[0][0], [f(*v) for v in zip(*(x[1] for x in s))])


def by_row(f, width=None):
    """f of each row, flattened; the shape stays, or becomes [N, width]."""
    def form(s, w):
        n = s[0][0][0]
        cut = [[x[1][i * len(x[1]) // n:(i + 1) * len(x[1]) // n] for x in s] for i in range(n)]
        out = [v for row in cut for v in f(*row)]
        return (s[0][0] if width is None else [n] + width, out)
    return form


def pixels(x):
    (n, c, h, w), v = x
    return lambda i, k, y, z: v[((i * c + k) * h + y) * w + z] if 0 <= y < h and 0 <= z < w else 0.0


def convolution(stride=1, pad=0, dilation=1, groups=1):
    def form(s, w):
        n, c, h, wd = s[0][0]
        m, cg, kh, kw = w["weight"][0]
        at, ker = pixels(s[0]), pixels(w["weight"])
        oh = (h + 2 * pad - dilation * (kh - 1) - 1) // stride + 1
        ow = (wd + 2 * pad - dilation * (kw - 1) - 1) // stride + 1
        bias = w["bias"][1] if "bias" in w else [0] * m
        return [n, m, oh, ow], [
            bias[o] + sum(at(i, o // (m // groups) * cg + k, y * stride - pad + p * dilation,
                             x * stride - pad + q * dilation) * ker(o, k, p, q)
                          for k in range(cg) for p in range(kh) for q in range(kw))
            for i in range(n) for o in range(m) for y in range(oh) for x in range(ow)]
    return form


def deconvolution(stride=1, pad=0, groups=1):
    def form(s, w):
        n, c, h, wd = s[0][0]
        _, mg, kh, kw = w["weight"][0]
        at, ker, m, cg = pixels(s[0]), pixels(w["weight"]), mg * groups, c // groups
        oh, ow = stride * (h - 1) + kh - 2 * pad, stride * (wd - 1) + kw - 2 * pad
        out = {}
        for i in range(n):
            for k in range(c):
                for y in range(h):
                    for x in range(wd):
                        for o in range(mg):
                            for p in range(kh):
                                for q in range(kw):
                                    to = (i, k // cg * mg + o, y * stride + p - pad, x * stride + q - pad)
                                    out[to] = out.get(to, 0) + at(i, k, y, x) * ker(k, o, p, q)
        return [n, m, oh, ow], [w["bias"][1][o] + out.get((i, o, y, x), 0)
                                for i in range(n) for o in range(m) for y in range(oh) for x in range(ow)]
    return form


def pooling(method, kernel, stride, pad=0, everything=False):
    """Caffe: ceil rounding, windows clipped to the padded image."""
    def form(s, w):
        n, c, h, wd = s[0][0]
        at = pixels(s[0])
        k = (h, wd) if everything else (kernel, kernel)
        def size(length, window):
            out = -(-(length + 2 * pad - window) // stride) + 1
            return out - (pad > 0 and (out - 1) * stride >= length + pad)
        oh, ow = (1, 1) if everything else (size(h, k[0]), size(wd, k[1]))
        out = []
        for i in range(n):
            for j in range(c):
                for y in range(oh):
                    for x in range(ow):
                        y0, x0 = y * stride - pad, x * stride - pad
                        y1, x1 = min(y0 + k[0], h + pad), min(x0 + k[1], wd + pad)
                        inside = [at(i, j, p, q) for p in range(max(y0, 0), min(y1, h))
                                  for q in range(max(x0, 0), min(x1, wd))]
                        out.append(max(inside) if method == "max" else
                                   sum(inside) / ((y1 - y0) * (x1 - x0)))
        return [n, c, oh, ow], out
    return form


def lrn(size, alpha, beta, k):
    def form(s, w):
        n, c, h, wd = s[0][0]
        at = pixels(s[0])
        return s[0][0], [
            at(i, j, y, x) / (k + alpha / size * sum(at(i, q, y, x) ** 2 for q in range(
                max(0, j - size // 2), min(c, j + size // 2 + 1)))) ** beta
            for i in range(n) for j in range(c) for y in range(h) for x in range(wd)]
    return form


def batch_norm(eps):
    def form(s, w):
        n, c = s[0][0][:2]
        per = count(s[0][0][2:])
        out = []
        for i, v in enumerate(s[0][1]):
            k = i // per % c
            out.append(w["scale"][1][k] * (v - w["state.mean"][1][k]) /
                       math.sqrt(w["state.variance"][1][k] + eps) + w["bias"][1][k])
        return s[0][0], out
    return form


def units(f):
    def form(s, w):
        shape, values = inner_product()(s, w)
        return shape, [f(v) for v in values]
    return form


def layer_norm(s, w):
    def row(v):
        mean = sum(v) / len(v)
        var = sum((x - mean) ** 2 for x in v) / len(v)
        return [a * (x - mean) / math.sqrt(var + 1e-5) + b
                for x, a, b in zip(v, w["scale"][1], w["bias"][1])]
    return by_row(row)(s, w)


def inner_product(transposed=False):
    def form(s, w):
        m = w["weight"][0][1 if transposed else 0]
        f = w["weight"][0][0 if transposed else 1]
        at = (lambda o, k: w["weight"][1][k * m + o]) if transposed else \
             (lambda o, k: w["weight"][1][o * f + k])
        bias = w["bias"][1] if "bias" in w else [0] * m
        return by_row(lambda v: [bias[o] + sum(at(o, k) * v[k] for k in range(f))
                                 for o in range(m)], [m])(s, w)
    return form


def softmax(v):
    most = max(v)
    e = [math.exp(x - most) for x in v]
    return [x / sum(e) for x in e]


def log_softmax(v):
    return [math.log(p) for p in softmax(v)]


def affine(v, weight, bias):
    (rows, n), w = weight
    return [bias[1][i] + sum(w[i * n + k] * v[k] for k in range(n)) for i in range(rows)]


def word_weights(home, classes, words):
    return {home + "weight_class": real(classes, 7), home + "bias_class": real(classes),
            home + "weight": real(words, 7), home + "bias": real(words)}


def word_classes(s, w):
    return by_row(lambda v, label: softmax(affine(v, w["weight_class"], w["bias_class"])), [3])(s, w)


def word_scores(home, begin):
    """Log probabilities of words, where class c has words begin[c] to begin[c + 1] - 1."""
    def form(s, w):
        def row(v, label):
            classes = log_softmax(affine(v, w[home + "weight_class"], w[home + "bias_class"]))
            words = affine(v, w[home + "weight"], w[home + "bias"])
            return [p + x for c, p in enumerate(classes)
                    for x in log_softmax(words[begin[c]:begin[c + 1]])]
        return by_row(row, [begin[-1]])(s, w)
    return form


def two_gibbs_steps(s, w):
    (h, n), weight = w["hid.weight"]
    down = ([n, h], [weight[j * n + i] for i in range(n) for j in range(h)])
    def row(v):
        for _ in range(2):
            hidden = [sigmoid(x) for x in affine(v, w["hid.weight"], w["hid.bias"])]
            v = [sigmoid(x) for x in affine(hidden, down, w["vis.bias"])]
        return v
    return by_row(row)(s, w)


def softmax_channels(s, w):
    n, c = s[0][0][:2]
    per = count(s[0][0][2:])
    def row(v):
        columns = [softmax([v[k * per + p] for k in range(c)]) for p in range(per)]
        return [columns[p][k] for k in range(c) for p in range(per)]
    return by_row(row)(s, w)


def embedding(s, w):
    width = w["weight"][0][1]
    vec = lambda t: w["weight"][1][t * width:(t + 1) * width]
    return s[0][0] + [width], [x for t in s[0][1] for x in vec(t)]


def embedding_mean(s, w):
    width = w["weight"][0][1]
    def row(tokens):
        some = [t for t in tokens if t >= 0]
        return [sum(w["weight"][1][t * width + k] for t in some) / max(1, len(some))
                for k in range(width)]
    return by_row(row, [width])(s, w)


def skip_gram(s, w):
    """A text of one word: every neighbor predicts it. All drawn words are surely none (or the tree
    has one node, whose branch 1 leads to word 0)."""
    n, steps, width = s[0][0]
    o = w["output"][1][:width]
    def row(v, _):
        scores = [sum(o[k] * v[t * width + k] for k in range(width)) for t in range(steps)]
        return [sum((1 + (0 < t < steps - 1)) * math.log1p(math.exp(-x)) for t, x in enumerate(scores))]
    return by_row(row, [])(s, w)


def recurrent(kind, last=False, relu=False):
    """Gates as PyTorch has them, biases added up; gru's candidate has a second bias."""
    def form(s, w):
        rows, steps, inputs = s[0][0]
        hidden = w["recurrent"][0][1]
        def product(name, row, v):
            return sum(w[name][1][row * len(v) + k] * x for k, x in enumerate(v))
        def gate(g, j, x, h):
            row = g * hidden + j
            return product("weight", row, x) + product("recurrent", row, h) + w["bias"][1][row]
        def step(x, h, c):
            if kind == "rnn":
                a = [gate(0, j, x, h) for j in range(hidden)]
                return [max(v, 0.0) if relu else math.tanh(v) for v in a], c
            if kind == "gru":
                out = []
                for j in range(hidden):
                    r, z = sigmoid(gate(0, j, x, h)), sigmoid(gate(1, j, x, h))
                    row = 2 * hidden + j
                    q = product("recurrent", row, h) + w["bias"][1][3 * hidden + j]
                    n = math.tanh(product("weight", row, x) + w["bias"][1][row] + r * q)
                    out.append((1 - z) * n + z * h[j])
                return out, c
            i, f, o = ([sigmoid(gate(g, j, x, h)) for j in range(hidden)] for g in (0, 1, 3))
            g = [math.tanh(gate(2, j, x, h)) for j in range(hidden)]
            c = [f[j] * c[j] + i[j] * g[j] for j in range(hidden)]
            return [o[j] * math.tanh(c[j]) for j in range(hidden)], c
        out = []
        for row in range(rows):
            h, c = [0.0] * hidden, [0.0] * hidden
            for t in range(steps):
                at = (row * steps + t) * inputs
                h, c = step(s[0][1][at:at + inputs], h, c)
                out += h if not last or t == steps - 1 else []
        return [rows, hidden] if last else [rows, steps, hidden], out
    return form


def cell(gates, biases, inputs=3, hidden=4):
    return {"weight": real(gates * hidden, inputs), "recurrent": real(gates * hidden, hidden),
            "bias": real(biases * hidden)}


def concat(s, w):
    n = s[0][0][0]
    shape = [n, sum(x[0][1] for x in s)] + s[0][0][2:]
    return shape, by_row(lambda *v: [x for part in v for x in part])(s, w)[1]


def hinge(v, label):
    """The gradient of the sum of margins, which is the output."""
    return [(-1.0 if 1 - x > 0 else 0.0) if k == label[0] else (1.0 if 1 + x > 0 else 0.0)
            for k, x in enumerate(v)]


def ranking(v, targets):
    """The same for ranking with several labels of a row: their mean score, by their weights."""
    total = sum(targets)
    mean = sum(t * x for t, x in zip(targets, v)) / max(total, 1)
    slope = [1.0 if total and not t and 1 - mean + x > 0 else 0.0 for t, x in zip(targets, v)]
    return [-sum(slope) * t / total if t else s for t, s in zip(targets, slope)]


def poisson(z, counts):
    return [sum(counts) * p for p in softmax(z)]


sigmoid = lambda x: 1 / (1 + math.exp(-x))
image = lambda c=3, h=5, w=6: real(ROWS, c, h, w)
vector = lambda n=7: real(ROWS, n)
label = lambda n=7: whole(ROWS, high=n)

# type, keys, sources, parameters, closed form
CASES = [
    ("input", "", [], {}, None),
    *[("activation", "function = " + name, [image()], {}, elementwise(f)) for name, f in [
        ("relu", lambda x: max(x, 0.0)), ("leaky_relu", lambda x: x if x > 0 else 0.01 * x),
        ("sigmoid", sigmoid), ("tanh", math.tanh), ("stanh", lambda x: 1.7159 * math.tanh(2 / 3 * x)),
        ("softplus", lambda x: math.log1p(math.exp(x))),
        ("gelu", lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))))]],
    ("argsort", "top_k = 3", [vector()], {},
     by_row(lambda v: [float(i) for i in sorted(range(len(v)), key=lambda i: (-v[i], i))[:3]], [3])),
    ("batch_norm", "eps = 1e-3", [image()], {
        "scale": real(3), "bias": real(3), "state.mean": real(3),
        "state.variance": real(3, low=0.5, high=2)}, batch_norm(1e-3)),
    ("concat", "", [image(2), image(3)], {}, concat),
    ("convolution", "outputs = 4\nkernel = 3\nstride = 2\npad = 1", [image()],
     {"weight": real(4, 3, 3, 3), "bias": real(4)}, convolution(stride=2, pad=1)),
    ("convolution", "outputs = 4\nkernel = 2\ngroups = 2\ndilation = 2\nbias = no", [image(4)],
     {"weight": real(4, 2, 2, 2)}, convolution(groups=2, dilation=2)),
    ("convolution", "outputs = 32\nkernel = 3", [image(16)],
     {"weight": real(32, 16, 3, 3), "bias": real(32)}, convolution()),
    ("deconvolution", "outputs = 2\nkernel = 3\nstride = 2\npad = 1", [image(3, 3, 4)],
     {"weight": real(3, 2, 3, 3), "bias": real(2)}, deconvolution(stride=2, pad=1)),
    ("dropout", "ratio = 0.5", [image()], {}, elementwise(lambda x: x)),
    ("eltwise", "operation = sum\ncoefficients = 0.5, -2", [image(), image()], {},
     elementwise(lambda a, b: 0.5 * a - 2 * b)),
    ("eltwise", "operation = product", [vector(), vector()], {}, elementwise(lambda a, b: a * b)),
    ("eltwise", "operation = max", [vector(), vector()], {}, elementwise(max)),
    ("class_softmax", "src = a, loss\nvocabulary = 11\n[layer loss]\ntype = class_softmax_loss\n"
     "src = a, b\nvocabulary = 11\nclasses = 3", [vector(), whole(ROWS, high=11)],
     word_weights("loss.", 3, 11), word_scores("loss.", [0, 1, 4, 11])),
    ("class_softmax_loss", "vocabulary = 11\nclasses = 3\nbins = equal",
     [vector(), whole(ROWS, high=11)], word_weights("", 3, 11), word_classes),
    ("embedding", "vocabulary = 6\noutputs = 4", [whole(ROWS, 3, high=6)], {"weight": real(6, 4)},
     embedding),
    ("embedding_mean", "vocabulary = 6\noutputs = 4", [whole(ROWS, 5, low=-1, high=6)],
     {"weight": real(6, 4)}, embedding_mean),
    ("euclidean_loss", "", [vector(), vector()], {}, elementwise(lambda a, b: a - b)),
    ("flatten", "", [image()], {}, by_row(lambda v: v, [90])),
    ("gibbs_chain", "src = vis, hid\nk = 2\nsampled = no\n[layer vis]\ntype = rbm_visible\nsrc = a\n"
     "[layer hid]\ntype = rbm_hidden\nsrc = vis\nhidden = 4", [vector()],
     {"hid.weight": real(4, 7), "hid.bias": real(4), "vis.bias": real(7)}, two_gibbs_steps),
    ("gru", "hidden = 4", [real(ROWS, 6, 3)], cell(3, 4), recurrent("gru")),
    ("gru", "hidden = 4\noutput = last", [real(ROWS, 6, 3)], cell(3, 4), recurrent("gru", True)),
    ("hierarchical_softmax", "vocabulary = 2\nwindow = 1\nsubsample = 0",
     [real(ROWS, 6, 3), whole(ROWS, 6, high=1)], {"output": real(1, 3)}, skip_gram),
    ("hinge_loss", "", [vector(), label()], {}, by_row(hinge)),
    ("hinge_loss", "method = ranking", [vector(), whole(ROWS, 7, high=3)], {}, by_row(ranking)),
    ("inner_product", "outputs = 6", [image()], {"weight": real(6, 90), "bias": real(6)},
     inner_product()),
    ("inner_product", "outputs = 2\naxis = 2", [real(ROWS, 3, 7)],
     {"weight": real(2, 7), "bias": real(2)},
     lambda s, w: ([ROWS, 3, 2], inner_product()(([([ROWS * 3, 7], s[0][1])]), w)[1])),
    ("inner_product", "outputs = 6\ntranspose = yes\nbias = no", [vector()], {"weight": real(7, 6)},
     inner_product(True)),
    ("layer_norm", "", [vector()], {"scale": real(7), "bias": real(7)}, layer_norm),
    ("lrn", "size = 3\nalpha = 0.5\nbeta = 0.75\nk = 2", [image(6)], {}, lrn(3, 0.5, 0.75, 2)),
    ("lstm", "hidden = 4", [real(ROWS, 6, 3)], cell(4, 4), recurrent("lstm")),
    ("negative_sampling", "vocabulary = 3\nwindow = 1\nsubsample = 0",
     [real(ROWS, 6, 3, low=0.1), whole(ROWS, 6, high=1)],
     {"output": ([3, 3], real(1, 3)[1] + 6 * [-500.0])}, skip_gram),
    ("noise", "method = gaussian\nstd = 2", [image()], {}, elementwise(lambda x: x)),
    ("onehot", "classes = 5", [whole(ROWS, 2)], {},
     lambda s, w: (s[0][0] + [5], [float(t == k) for t in s[0][1] for k in range(5)])),
    ("poisson_loss", "", [vector(), whole(ROWS, 7)], {}, by_row(poisson)),
    ("pooling", "method = max\nkernel = 3\nstride = 2", [image()], {}, pooling("max", 3, 2)),
    ("pooling", "method = avg\nkernel = 3\nstride = 2\npad = 1", [image(3, 6, 6)], {},
     pooling("avg", 3, 2, 1)),
    ("pooling", "method = avg\nglobal = yes", [image()], {}, pooling("avg", 0, 1, 0, True)),
    ("rbm_hidden", "hidden = 4", [vector()], {"weight": real(4, 7), "bias": real(4)},
     units(sigmoid)),
    ("rbm_hidden", "hidden = 4\nunits = gaussian", [vector()],
     {"weight": real(4, 7), "bias": real(4)}, units(lambda x: x)),
    ("rbm_hidden", "hidden = 4\ndoubled = up", [vector()], {"weight": real(4, 7), "bias": [[4], [0] * 4]},
     units(lambda x: sigmoid(2 * x))),
    ("rbm_visible", "", [image()], {}, by_row(lambda v: v, [90])),
    ("reshape", "shape = 6, -1", [image()], {}, lambda s, w: ([ROWS, 6, 15], s[0][1])),
    ("rnn", "hidden = 4", [real(ROWS, 6, 3)], cell(1, 1), recurrent("rnn")),
    ("rnn", "hidden = 4\nfunction = relu", [real(ROWS, 6, 3)], cell(1, 1),
     recurrent("rnn", relu=True)),
    ("sigmoid_cross_entropy", "", [vector(), real(ROWS, 7, low=0)], {},
     elementwise(lambda x, t: sigmoid(x))),
    ("slice", "from = 2\nto = 5", [vector()], {}, by_row(lambda v: v[2:5], [3])),
    ("softmax", "", [image()], {}, softmax_channels),
    ("softmax_loss", "", [vector(), label()], {}, by_row(lambda v, l: softmax(v))),
    ("sparsity", "", [vector()], {}, elementwise(lambda x: x)),
    ("split", "", [image()], {}, elementwise(lambda x: x)),
]


# ---- running them ----

def recipe(kind, keys, sources):
    text = ("[job]\nbatch = 2\nsteps = 1\neval_batch = %d\n[updater]\ntype = sgd\nlr = 1\n"
            "[data train]\nformat = synthetic\n" % BATCH)
    names = "abc"[:max(1, len(sources))]
    for name in names:
        text += "[layer %s]\ntype = input\nfield = %s\n" % (name, name)
    text += "[layer x]\ntype = %s\n" % kind
    if kind == "input":
        text += "field = a\n"
    elif "src = " in keys: # with the layers that it reads
        text += keys + "\n"
    else:
        text += "src = %s\n%s\n" % (", ".join(names), keys)
    if "rbm_hidden" in keys: # a machine is trained without a loss
        return text.replace("[job]\n", "[job]\nalgorithm = cd\n")
    # A recipe has a loss; it is not run, and its field is not there.
    return text + ("[layer absent]\ntype = input\nfield = absent\n"
                   "[layer end]\ntype = softmax_loss\nsrc = a, absent\n")


def run(number, case):
    kind, keys, sources, weights, form = case
    here = os.path.join(FOLDER, str(number))
    os.mkdir(here)
    if kind == "input":
        sources = [image()]
    open(here + "/x.ini", "w").write(recipe(kind, keys, sources))
    write_weights(here + "/w.safetensors", {
        ("state.x." + k[6:] if k.startswith("state.") else k if "." in k else "x." + k): v
        for k, v in weights.items()})
    command = [PROGRAM, "predict", here + "/x.ini", "--weights", here + "/w.safetensors", "--layer",
               "x", "--output", here + "/y.npy", "--quiet"]
    for name, array in zip("abc", sources):
        write_npy("%s/%s.npy" % (here, name), array)
        command += ["--input", "%s=%s/%s.npy" % (name, here, name)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return "exit %d: %s" % (done.returncode, done.stderr)
    shape, values = read_npy(here + "/y.npy")
    want_shape, want = form(sources, weights) if form else sources[0]
    if shape != want_shape:
        return "shape %s, not %s" % (shape, want_shape)
    for i, (a, b) in enumerate(zip(values, want)):
        if not abs(a - b) <= 1e-5 * max(1, abs(b)):
            return "value %d is %.9g, not %.9g" % (i, a, b)
    return None


def main():
    kinds = {t["name"]: t for t in json.loads(
        subprocess.run([PROGRAM, "layers", "--json"], capture_output=True, text=True).stdout)["layers"]}
    bad = 0
    for number, case in enumerate(CASES):
        problem = run(number, case)
        if problem:
            bad += 1
            print("%s %s: %s" % (case[0], case[1].replace("\n", ", "), problem))
    for name in sorted(set(kinds) - {c[0] for c in CASES}):
        if kinds[name]["role"] not in ("metric", "output"):
            bad += 1
            print("%s: no row in the table of %s" % (name, sys.argv[0]))
    print("%d cases, %d wrong" % (len(CASES), bad))
    sys.exit(bad > 0)


main()
