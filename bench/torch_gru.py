"""The model of recipes/char-rnn.ini in PyTorch, as the reference for singa-ws.

    torch_gru.py [--threads N] [--hidden H] [--warmup N] [--steps N]
        times forward, backward, clipping and RMSProp on random tokens

    torch_gru.py --weights FILE --tokens FILE --lr LR [--expect FILE] ...
        trains from a checkpoint of singa-ws by plain SGD on given tokens (bytes less FIRST, which
        every row reads from its own part of the file), prints the losses and the difference of the
        parameters from those of another checkpoint

Prints one JSON object. Sequences are step-major and one-hot, with which torch.nn.GRU is fastest.
"""
import argparse
import json
import math
import sys
import time

import torch
from torch import nn

from torch_nets import read_safetensors

ROWS, LENGTH, CLASSES, FIRST = 50, 50, 101, 27


class Model(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.gru = nn.GRU(CLASSES, hidden)
        self.scores = nn.Linear(hidden, CLASSES)

    def forward(self, x, h):
        y, h = self.gru(x, h)
        return self.scores(y), h.detach()


def parameters_of(model):
    """The names in a checkpoint, and the slices of our parameters that form each tensor: its bias
    holds the sum of both biases of PyTorch, except the recurrent bias of the candidate.
    """
    g, n = model.gru, model.gru.hidden_size
    return {"gru.weight": g.weight_ih_l0, "gru.recurrent": g.weight_hh_l0,
            "gru.bias": torch.cat([g.bias_ih_l0, g.bias_hh_l0[2 * n:]]),
            "scores.weight": model.scores.weight, "scores.bias": model.scores.bias}


def load(model, path):
    given, g, n = read_safetensors(path), model.gru, model.gru.hidden_size
    with torch.no_grad():
        g.weight_ih_l0.copy_(given["gru.weight"])
        g.weight_hh_l0.copy_(given["gru.recurrent"])
        g.bias_ih_l0.copy_(given["gru.bias"][:3 * n])
        g.bias_hh_l0.zero_()
        g.bias_hh_l0[2 * n:] = given["gru.bias"][3 * n:]
        model.scores.weight.copy_(given["scores.weight"])
        model.scores.bias.copy_(given["scores.bias"])
    mask = torch.zeros_like(g.bias_hh_l0)
    mask[2 * n:] = 1
    g.bias_hh_l0.register_hook(lambda gradient: gradient * mask)


def difference(model, path):
    """Largest |a - b| / max(|b|, rms(b) / 10) over parameters a of the model and b of a file."""
    expected, worst = read_safetensors(path), 0.0
    for name, a in parameters_of(model).items():
        b = expected[name]
        floor = max(0.1 * float(b.square().mean().sqrt()), 1e-12)
        worst = max(worst, float(((a.detach() - b).abs() / b.abs().clamp(min=floor)).max()))
    return worst


def batches(args):
    """(tokens, targets) of every step, [LENGTH, ROWS]."""
    if args.tokens:
        with open(args.tokens, "rb") as f:
            text = torch.tensor(list(f.read())) - FIRST
    else:
        torch.manual_seed(1)
        text = torch.randint(0, CLASSES, (ROWS * LENGTH * 8 + 1,))
    each = (len(text) - 1) // (ROWS * LENGTH)
    while True:
        for step in range(each):
            at = torch.arange(ROWS) * each * LENGTH + step * LENGTH
            places = at.unsqueeze(0) + torch.arange(LENGTH).unsqueeze(1)
            yield text[places], text[places + 1]


def make_updater(model, args):
    if args.weights:
        return torch.optim.SGD(model.parameters(), lr=args.lr)
    keys = dict(lr=0.002, alpha=0.95, eps=1e-8)
    for how in ("foreach", None):
        try:
            return torch.optim.RMSprop(model.parameters(), **keys, **({how: True} if how else {}))
        except TypeError:
            continue
    raise RuntimeError("there is no RMSprop")


def main():
    p = argparse.ArgumentParser(description="The model of recipes/char-rnn.ini in PyTorch.")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--hidden", type=int, default=512)
    p.add_argument("--warmup", type=int, default=2)
    p.add_argument("--steps", type=int, default=5)
    p.add_argument("--lr", type=float, default=0.1)
    p.add_argument("--weights")
    p.add_argument("--tokens")
    p.add_argument("--expect")
    args = p.parse_args()

    torch.set_num_threads(args.threads)
    model = Model(args.hidden)
    if args.weights:
        load(model, args.weights)
    updater, measure = make_updater(model, args), nn.CrossEntropyLoss()
    h = torch.zeros(1, ROWS, args.hidden)
    losses, times = [], []
    for tokens, targets in batches(args):
        begin = time.perf_counter()
        updater.zero_grad(set_to_none=True)
        x = nn.functional.one_hot(tokens, CLASSES).float()
        scores, h = model(x, h)
        loss = measure(scores.reshape(-1, CLASSES), targets.reshape(-1))
        loss.backward()
        if not args.weights:
            nn.utils.clip_grad_value_(model.parameters(), 5)
        updater.step()
        losses.append(float(loss.detach()))
        times.append(time.perf_counter() - begin)
        if len(times) == args.warmup + args.steps:
            break
    times = sorted(times[args.warmup:])
    answer = {"torch": torch.__version__, "losses": losses,
              "samples_per_s": ROWS / times[len(times) // 2]}
    if args.expect:
        answer["difference"] = difference(model, args.expect)
        if not math.isfinite(answer["difference"]):
            sys.exit("the parameters are not finite")
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
