"""Compares the gradients of one update of singa-ws and of PyTorch with double precision.

    torch_exact.py NET --names
        prints the layers whose outputs are read

    torch_exact.py NET BATCH --weights FILE --after FILE --lr RATE --outputs FOLDER
                   --pictures FILE --labels FILE [--threads N] [--layout default|channels_last]
        prints the errors of the gradients of both sides relative to PyTorch in double precision

The checkpoints before and after an update by SGD at a known rate give the gradients of singa-ws;
weight decay and the factor of biases are those of the recipe, so that a wrong one counts as an
error of the gradient. The rate must be large, so that gradients are not lost in the rounding of
parameters; a power of two is exact.

Rounding decides which of two nearly equal pixels is the maximum of a pooling window, and whether a
value near zero passes a ReLU; such a choice redirects a gradient as a whole. In AlexNet with a
batch of 128 about 15 of 74 million such choices differ between float and double, and these few
change the gradients of conv1 by 0.2 to 0.4 % and those of conv2 to conv5 by 0.02 to 0.04 %, in
PyTorch as in singa-ws, with any convolution algorithm. Sides that round differently therefore
differ by that much, and neither is wrong. So each side is compared with a pass in double precision
that makes the choices of that side, which it takes from the side's outputs (FOLDER/LAYER.npy for
singa-ws); the remaining error is rounding: 5e-6 at most, in conv1. It is also measured that a
choice is a matter of rounding: by how much the chosen value is below the right one in double
precision.

Prints one JSON object. Needs PyTorch and the standard library only.
"""
import argparse
import ast
import json
import os
import struct

import torch
from torch import nn

import torch_nets as nets


def read_npy(path):
    """The float32 tensor of a .npy file, version 1, in row-major order."""
    with open(path, "rb") as f:
        raw = bytearray(f.read())
    length, = struct.unpack("<H", raw[8:10])
    header = ast.literal_eval(raw[10:10 + length].decode("ascii"))
    if raw[:7] != b"\x93NUMPY\x01" or header["descr"] != "<f4" or header["fortran_order"]:
        raise SystemExit("%s is no array of float32 in row-major order" % path)
    return torch.frombuffer(raw, dtype=torch.float32, offset=10 + length).reshape(header["shape"])


def rms_or_1(x):
    return nets.rms(x) or 1.0


# ---- Choices ------------------------------------------------------------------------------------

def decisive(model):
    """{module that chooses: the module whose output shows the choice}: for a ReLU itself, for a
    maximum the module before it.
    """
    found, before = {}, None
    for name, module in model.named_children():
        if isinstance(module, nn.ReLU):
            found[name] = name
        if isinstance(module, nn.MaxPool2d):
            found[name] = before
        before = name
    return found


class Choices:
    """The choices of one side, how often they differ from double precision, and by how much
    relative to the root mean square of the values of the layer.
    """

    def __init__(self, outputs):
        self.outputs, self.total, self.others, self.margin = outputs, 0, 0, 0.0

    def note(self, lost, values):
        """lost: by how much each chosen value is below the right one; 0 for a right choice."""
        self.total += lost.numel()
        self.others += int((lost > 0).sum())
        self.margin = max(self.margin, float(lost.max()) / rms_or_1(values))


class FollowRelu(nn.Module):
    def __init__(self, choices, source):
        super().__init__()
        self.choices, self.source = choices, source

    def forward(self, x):
        passes = self.choices.outputs[self.source] > 0
        self.choices.note(x.detach().abs() * (passes != (x.detach() > 0)), x.detach())
        return x * passes


class FollowMax(nn.Module):
    def __init__(self, choices, source, pool):
        super().__init__()
        self.choices, self.source, self.pool = choices, source, pool
        self.pool.return_indices = True

    def forward(self, x):
        _, at = self.pool(self.choices.outputs[self.source])
        largest, _ = self.pool(x.detach())
        out = x.flatten(2).gather(2, at.flatten(2)).reshape(largest.shape)
        self.choices.note(largest - out.detach(), x.detach())
        return out


# ---- Gradients ----------------------------------------------------------------------------------

def make_model(net, given, dtype=torch.float32):
    model = net["make"]().to(dtype)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(given[name])
    return model


def gradients(model, x, y):
    nn.CrossEntropyLoss()(model(x), y).backward()
    return {name: p.grad.detach().double().contiguous() for name, p in model.named_parameters()}


def exact_gradients(net, given, choices, x, y):
    model = make_model(net, given, torch.float64)
    for name, source in decisive(model).items():
        module = getattr(model, name)
        setattr(model, name, FollowRelu(choices, source) if isinstance(module, nn.ReLU)
                else FollowMax(choices, source, module))
    return gradients(model, x.double(), y)


def peer_gradients(net, given, layout, x, y):
    """Returns (gradients, outputs that determine choices) of PyTorch in single precision."""
    model, outputs = make_model(net, given), {}
    if layout == "channels_last":
        model = model.to(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)
    for name in set(decisive(model).values()):
        def keep(_, __, out, name=name):
            outputs[name] = out.detach().clone(memory_format=torch.contiguous_format)
        getattr(model, name).register_forward_hook(keep)
    return gradients(model, x, y), outputs


def gradients_of_update(net, given, after, lr):
    """The gradients of an update: the change divided by the rate, without weight decay."""
    found = {}
    for name, before in given.items():
        if name not in after or "." not in name or name.startswith(("updater.", "state.", "sw.")):
            continue
        rate = lr * (net["bias_lr"] if name.endswith("bias") else 1.0)
        found[name] = (before.double() - after[name].double()) / rate - net["decay"] * before.double()
    return found


def errors(found, exact):
    """{parameter: root mean square of the error, relative to that of the exact gradient}."""
    return {name: nets.rms(found[name] - g) / rms_or_1(g) for name, g in exact.items()}


def compare(net, given, found, outputs, x, y):
    choices = Choices(outputs)
    apart = errors(found, exact_gradients(net, given, choices, x, y))
    return {"errors": apart, "choices": choices.total, "others": choices.others,
            "margin": choices.margin}


def main():
    p = argparse.ArgumentParser(description="Gradients of a net against double precision.")
    p.add_argument("net", choices=sorted(n for n in nets.NETS if "side" in nets.NETS[n]))
    p.add_argument("batch", type=int, nargs="?")
    p.add_argument("--names", action="store_true")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--layout", choices=("default", "channels_last"), default="default")
    p.add_argument("--weights")
    p.add_argument("--after")
    p.add_argument("--lr", type=float)
    p.add_argument("--outputs")
    p.add_argument("--pictures")
    p.add_argument("--labels")
    args = p.parse_args()

    net = nets.NETS[args.net]
    names = sorted(set(decisive(net["make"]()).values()))
    if args.names:
        print(json.dumps(names))
        return
    torch.set_num_threads(args.threads)
    given, after = nets.read_safetensors(args.weights), nets.read_safetensors(args.after)
    x, y = nets.make_data(args, net)
    outputs = {name: read_npy(os.path.join(args.outputs, name + ".npy")) for name in names}
    ours = compare(net, given, gradients_of_update(net, given, after, args.lr), outputs, x, y)
    found, outputs = peer_gradients(net, given, args.layout, x, y)
    theirs = compare(net, given, found, outputs, x, y)
    print(json.dumps({"torch": torch.__version__, "ours": ours, "theirs": theirs}))


if __name__ == "__main__":
    main()
