"""The nets of the benchmarks in PyTorch, as the reference for singa-ws.

    torch_nets.py NET BATCH [--threads N] [--layout default|channels_last] [--compile]
                  [--warmup N] [--steps N]
        times forward, backward and SGD with momentum on random data

    torch_nets.py NET BATCH --device cuda [--precision fp32|tf32|bf16|fp16] [--primitives] ...
        the same on a GPU, with cudnn.benchmark; with --primitives each convolution, GEMM and
        recurrent layer is timed separately, forward and backward, and the best times are summed

    torch_nets.py NET BATCH --weights FILE --pictures FILE --labels FILE ...
        trains from a checkpoint of singa-ws on given images (IDX files; every step uses the same
        BATCH), and prints the losses

Prints one JSON object. Needs PyTorch and the standard library only. Layers have the names of the
recipes, so that parameters have the names of a checkpoint.
"""
import argparse
import collections
import contextlib
import json
import math
import struct
import time

import torch
from torch import nn


def quick():
    """recipes/cifar10-quick.ini. ceil_mode: windows that extend over the border are clipped."""
    return nn.Sequential(collections.OrderedDict([
        ("conv1", nn.Conv2d(3, 32, 5, padding=2)),
        ("pool1", nn.MaxPool2d(3, 2, ceil_mode=True)), ("relu1", nn.ReLU(inplace=True)),
        ("conv2", nn.Conv2d(32, 32, 5, padding=2)), ("relu2", nn.ReLU(inplace=True)),
        ("pool2", nn.AvgPool2d(3, 2, ceil_mode=True)),
        ("conv3", nn.Conv2d(32, 64, 5, padding=2)), ("relu3", nn.ReLU(inplace=True)),
        ("pool3", nn.AvgPool2d(3, 2, ceil_mode=True)), ("flat", nn.Flatten()),
        ("ip1", nn.Linear(1024, 64)), ("ip2", nn.Linear(64, 10))]))


def alexnet():
    """recipes/alexnet-owt.ini."""
    def relu():
        return nn.ReLU(inplace=True)
    return nn.Sequential(collections.OrderedDict([
        ("conv1", nn.Conv2d(3, 64, 11, stride=4, padding=2)), ("relu1", relu()),
        ("pool1", nn.MaxPool2d(3, 2)),
        ("conv2", nn.Conv2d(64, 192, 5, padding=2)), ("relu2", relu()),
        ("pool2", nn.MaxPool2d(3, 2)),
        ("conv3", nn.Conv2d(192, 384, 3, padding=1)), ("relu3", relu()),
        ("conv4", nn.Conv2d(384, 256, 3, padding=1)), ("relu4", relu()),
        ("conv5", nn.Conv2d(256, 256, 3, padding=1)), ("relu5", relu()),
        ("pool5", nn.MaxPool2d(3, 2)), ("flat", nn.Flatten()),
        ("fc6", nn.Linear(9216, 4096)), ("relu6", relu()),
        ("fc7", nn.Linear(4096, 4096)), ("relu7", relu()),
        ("fc8", nn.Linear(4096, 1000))]))


def lenet():
    """recipes/lenet.ini."""
    return nn.Sequential(collections.OrderedDict([
        ("conv1", nn.Conv2d(1, 20, 5)), ("pool1", nn.MaxPool2d(2, 2)),
        ("conv2", nn.Conv2d(20, 50, 5)), ("pool2", nn.MaxPool2d(2, 2)), ("flat", nn.Flatten()),
        ("fc1", nn.Linear(800, 500)), ("relu1", nn.ReLU(inplace=True)),
        ("fc2", nn.Linear(500, 10))]))


def mlp():
    """recipes/mnist-mlp.ini."""
    return nn.Sequential(collections.OrderedDict([
        ("flat", nn.Flatten()), ("fc1", nn.Linear(784, 500)), ("relu1", nn.ReLU(inplace=True)),
        ("fc2", nn.Linear(500, 10))]))


def vgg16():
    """recipes/vgg16.ini."""
    layers, channels = [], 3
    for stage, (width, count) in enumerate(((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)), 1):
        for i in range(1, count + 1):
            layers += [("conv%d_%d" % (stage, i), nn.Conv2d(channels, width, 3, padding=1)),
                       ("relu%d_%d" % (stage, i), nn.ReLU(inplace=True))]
            channels = width
        layers.append(("pool%d" % stage, nn.MaxPool2d(2, 2)))
    layers.append(("flat", nn.Flatten()))
    for name, before, after in (("fc6", 25088, 4096), ("fc7", 4096, 4096)):
        layers += [(name, nn.Linear(before, after)), ("relu_" + name, nn.ReLU(inplace=True)),
                   ("drop_" + name, nn.Dropout(0.5))]
    return nn.Sequential(collections.OrderedDict(layers + [("fc8", nn.Linear(4096, 1000))]))


class Bottleneck(nn.Module):
    def __init__(self, before, width, stride):
        super().__init__()
        after = 4 * width

        def conv(a, b, kernel, step=1):
            return nn.Sequential(nn.Conv2d(a, b, kernel, step, kernel // 2, bias=False),
                                 nn.BatchNorm2d(b))
        self.reduce, self.middle = conv(before, width, 1, stride), conv(width, width, 3)
        self.expand = conv(width, after, 1)
        self.shortcut = conv(before, after, 1, stride) if before != after else nn.Identity()
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.expand(self.relu(self.middle(self.relu(self.reduce(x)))))
        return self.relu(y + self.shortcut(x))


def resnet50():
    """recipes/resnet50.ini: the stride is in the first convolution of a block, as He et al. had
    it."""
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
              nn.MaxPool2d(3, 2, ceil_mode=True)]
    channels = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            layers.append(Bottleneck(channels, width, stride if i == 0 else 1))
            channels = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


class CharRnn(nn.Module):
    """recipes/char-rnn.ini: 512 gated recurrent units read rows of 50 characters."""

    def __init__(self):
        super().__init__()
        self.gru, self.scores = nn.GRU(101, 512, batch_first=True), nn.Linear(512, 101)

    def forward(self, x):
        codes = nn.functional.one_hot(x, 101).to(self.scores.weight.dtype)
        return self.scores(self.gru(codes)[0]).flatten(0, 1)


# mean and std are those of the recipe; momentum, decay, lr and the factor of biases are those of
# its [updater].
NETS = {
    "quick": dict(make=quick, side=32, classes=10, mean=(125.3, 123.0, 113.9), std=1.0, lr=0.001,
                  momentum=0.9, decay=0.004, bias_lr=2.0),
    "alexnet": dict(make=alexnet, side=224, classes=1000, mean=(127.5, 127.5, 127.5), std=64.0,
                    lr=0.01, momentum=0.9, decay=0.0005, bias_lr=1.0),
    "lenet": dict(make=lenet, side=28, classes=10, mean=(0.0,), std=256.0, lr=0.01, momentum=0.9,
                  decay=0.0005, bias_lr=2.0),
    "mlp": dict(make=mlp, side=28, classes=10, mean=(0.0,), std=255.0, lr=0.3, momentum=0.0,
                decay=0.0, bias_lr=1.0),
    "vgg16": dict(make=vgg16, side=224, classes=1000, mean=(127.5,) * 3, std=64.0, lr=0.01,
                  momentum=0.9, decay=0.0005, bias_lr=1.0),
    "resnet50": dict(make=resnet50, side=224, classes=1000, mean=(127.5,) * 3, std=64.0, lr=0.1,
                     momentum=0.9, decay=0.0001, bias_lr=1.0),
    "charrnn": dict(make=CharRnn, length=50, classes=101, lr=0.002),
}


# ---- Files --------------------------------------------------------------------------------------

def read_safetensors(path):
    """{name: float32 tensor} of a safetensors file (8 bytes of header length, JSON, values)."""
    with open(path, "rb") as f:
        length, = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(length))
        data = bytearray(f.read())
    out = {}
    for name, entry in header.items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        first, last = entry["data_offsets"]
        values = torch.frombuffer(data, dtype=torch.float32, count=(last - first) // 4,
                                  offset=first)
        out[name] = values.reshape(entry["shape"])
    return out


def read_idx(path):
    """An IDX file of unsigned bytes as a tensor."""
    with open(path, "rb") as f:
        raw = bytearray(f.read())
    shape = struct.unpack(">%dI" % raw[3], raw[4:4 + 4 * raw[3]])
    return torch.frombuffer(raw, dtype=torch.uint8, offset=4 + 4 * raw[3]).reshape(shape)


def rms(x):
    return float(x.double().square().mean().sqrt())


# ---- Training -----------------------------------------------------------------------------------

def make_updater(model, net):
    if "length" in net:  # char-rnn
        return torch.optim.RMSprop(model.parameters(), net["lr"], alpha=0.95), "rmsprop"
    return make_sgd(model, net)


def make_sgd(model, net):
    """SGD with momentum. singa-ws has the rate inside the velocity (Caffe's form), which is the
    same as long as the rate does not change."""
    groups = [{"params": [p for n, p in model.named_parameters() if n.endswith("weight")]},
              {"params": [p for n, p in model.named_parameters() if n.endswith("bias")],
               "lr": net["lr"] * net["bias_lr"]}]
    keys = dict(lr=net["lr"], momentum=net["momentum"], weight_decay=net["decay"])
    for how in ("fused", "foreach", None):  # the quickest that this version has on the CPU
        try:
            updater = torch.optim.SGD(groups, **keys, **({how: True} if how else {}))
            return updater, how or "plain"
        except (TypeError, RuntimeError):
            continue
    raise RuntimeError("there is no SGD")


def make_data(args, net):
    if "length" in net:
        shape = (args.batch, net["length"])
        return (torch.randint(0, net["classes"], shape),
                torch.randint(0, net["classes"], shape).flatten())
    if not args.pictures:
        torch.manual_seed(1)
        return (torch.randn(args.batch, len(net["mean"]), net["side"], net["side"]),
                torch.randint(0, net["classes"], (args.batch,)))
    mean = torch.tensor(net["mean"]).reshape(1, -1, 1, 1)
    x = (read_idx(args.pictures)[:args.batch].float() - mean) * (1.0 / net["std"])
    return x, read_idx(args.labels)[:args.batch].long()


# ---- GPUs ---------------------------------------------------------------------------------------

HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}


def set_precision(args):
    """Sets the flags that match singa-ws for this precision: tf32 in GEMMs and convolutions or
    nowhere.
    """
    allowed = args.precision != "fp32"
    torch.backends.cuda.matmul.allow_tf32 = allowed
    torch.backends.cudnn.allow_tf32 = allowed
    torch.backends.cudnn.benchmark = True


class Clock:
    """Measures milliseconds between two marks, on the device if there is one."""

    def __init__(self, device):
        self.cuda = device == "cuda"

    def time_ms(self, what, repeats):
        what()
        if not self.cuda:
            begin = time.perf_counter()
            for _ in range(repeats):
                what()
            return (time.perf_counter() - begin) * 1e3 / repeats
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        for _ in range(repeats):
            what()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) / repeats


def primitives(model, x, args):
    """{layer: ms} of every separate convolution, GEMM and recurrent layer, forward and backward, in
    the better of the two layouts.
    """
    shapes, hooks, clock = {}, [], Clock(args.device)

    def note(name):
        def hook(module, given, out):
            shapes[name] = (module, given[0].shape)
        return hook
    for name, module in model.named_modules():
        if isinstance(module, (nn.Conv2d, nn.Linear, nn.GRU)):
            hooks.append(module.register_forward_hook(note(name)))
    with torch.no_grad(), autocast(args):
        model(x)
    for hook in hooks:
        hook.remove()
    times = {}
    for index, (name, (module, shape)) in enumerate(shapes.items()):
        layouts = [torch.contiguous_format]
        layouts += [torch.channels_last] if isinstance(module, nn.Conv2d) else []
        for layout in layouts:
            given = torch.randn(shape, device=args.device).contiguous(memory_format=layout)
            given.requires_grad_(index > 0)  # the gradient of the input is not needed
            one = module.to(memory_format=layout) if len(shape) == 4 else module

            def run():
                with autocast(args):
                    out = one(given)
                out = out[0] if isinstance(out, tuple) else out
                out.backward(torch.ones_like(out))
            times[name] = min(times.get(name, math.inf), clock.time_ms(run, max(1, args.steps)))
    return times


def autocast(args):
    if args.precision in HALF:
        return torch.autocast(args.device, dtype=HALF[args.precision])
    return contextlib.nullcontext()


def main():
    p = argparse.ArgumentParser(description="The nets of the benchmarks in PyTorch.")
    p.add_argument("net", choices=sorted(NETS))
    p.add_argument("batch", type=int)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--layout", choices=("default", "channels_last"), default="default")
    p.add_argument("--compile", action="store_true")
    p.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    p.add_argument("--precision", choices=("fp32", "tf32", "bf16", "fp16"), default="fp32")
    p.add_argument("--primitives", action="store_true")
    p.add_argument("--warmup", type=int, default=2)
    p.add_argument("--steps", type=int, default=5)
    p.add_argument("--lr", type=float, help="learning rate, instead of the recipe's")
    p.add_argument("--weights")
    p.add_argument("--pictures")
    p.add_argument("--labels")
    args = p.parse_args()

    torch.set_num_threads(args.threads)
    set_precision(args)
    net = dict(NETS[args.net])
    net["lr"] = args.lr or net["lr"]
    model = net["make"]()
    if args.weights:
        given = read_safetensors(args.weights)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(given[name])
    x, y = make_data(args, net)
    model, x, y = model.to(args.device), x.to(args.device), y.to(args.device)
    if args.primitives:
        times = primitives(model, x, args)
        print(json.dumps({"torch": torch.__version__, "layers_ms": times,
                          "sum_ms": sum(times.values())}))
        return
    if args.layout == "channels_last" and x.dim() == 4:
        model = model.to(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)
    updater, how = make_updater(model, net)
    step_model = torch.compile(model) if args.compile else model
    measure = nn.CrossEntropyLoss()
    scaler = torch.cuda.amp.GradScaler(enabled=args.precision == "fp16")

    losses, times = [], []
    for _ in range(args.warmup + args.steps):
        begin = time.perf_counter()
        updater.zero_grad(set_to_none=True)
        with autocast(args):
            loss = measure(step_model(x), y)
        scaler.scale(loss).backward()
        if "length" in net:
            nn.utils.clip_grad_value_(model.parameters(), 5)
        scaler.step(updater)
        scaler.update()
        losses.append(float(loss))
        times.append(time.perf_counter() - begin)
    times = sorted(times[args.warmup:])
    answer = {"torch": torch.__version__, "sgd": how, "losses": losses,
              "parameters": sum(p.numel() for p in model.parameters()),
              "samples_per_s": args.batch / times[len(times) // 2]}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
