"""Plans for the machines of the papers (singa-ws plan), for bench/papers: what the papers measured on
clusters and on several GPUs, planned and simulated for machines with the papers' figures. Nothing
is trained and nothing is timed here, so the load of this machine does not matter. --from describes
the cores of a host, whose rates are then assumed and not those of this machine.

Every sheet has the published figure, ours, the given figures of the machine with their source, and
a sentence on why both agree or not. A rate of computing is either that of a published time of one
node (Plans.rate_for finds the rate at which one worker takes that time), or a data sheet's.
"""
import json
import os
import shlex
import textwrap

import measure
import report
from common import Sheet


class Plans:
    """Runs `singa-ws plan` with an empty history, and notes each command with its result."""

    def __init__(self, bench):
        self.bench, self.log = bench, []

    def call(self, recipe, sets, words):
        argv = ["plan", recipe] + list(words)
        for text in sets:
            argv += ["--set", text]
        ended = measure.run([os.path.abspath(self.bench.options.binary)] + argv + ["--json"],
                            env=self.bench.environment(), cwd=self.bench.root)
        shown = [os.path.basename(w) if w.startswith("/") else w for w in argv]
        return json.loads(ended.out), "singa-ws " + " ".join(shlex.quote(w) for w in shown)

    def plan(self, recipe, sets, words):
        made, command = self.call(recipe, sets, words)
        self.log.append("%s: %.6g ms" % (command, made["predicted_ms"]))
        return made

    def sweep(self, recipe, sets, words, most, least=1):
        """{count: point} for `least` to `most` hosts or GPUs."""
        made, command = self.call(recipe, sets, list(words) + ["--simulate", "%d..%d" % (least, most)])
        points = {p.get("hosts", p.get("GPUs", p.get("gpus"))): p for p in made["points"]}
        self.log.append("%s: samples/s %s" % (command, " ".join(
            "%d:%.6g" % (k, p["samples_per_s"]) for k, p in points.items())))
        return points

    def rate_for(self, recipe, sets, words, published_ms):
        """The rate in Gflop/s at which one worker takes that time for a step."""
        rate = 1000.0
        for _ in range(30):
            made, _ = self.call(recipe, sets, list(words) + ["--gflops", "%.4g" % rate])
            error = made["one_worker_ms"] / published_ms
            if abs(error - 1) < 2e-3:
                return "%.4g" % rate
            rate *= error
        raise measure.Failed("no rate of computing gives a step of %g ms: the rest takes longer" % published_ms)

    def sheet(self, title, cells, *text, left=(0,)):
        body = "\n".join(t.rstrip("\n") for t in text if t)
        head = "%s\nPlanned and simulated; nothing was timed on this machine.\n" % title
        return Sheet(head + report.align(cells, left) + body + "\n", "".join("%s\n" % c for c in self.log))


def prose(text):
    return textwrap.fill(text, 118)


def total(made, key):
    return sum(layer[key] for layer in made["layers"])


def layer_of(made, name):
    return next(layer for layer in made["layers"] if layer["name"] == name)


def seconds(ms):
    return "%.3g s" % (ms / 1e3 if ms > 1e-6 else 0)


def million(floats):
    return "%.1f M" % (floats / 1e6)
