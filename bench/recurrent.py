"""recipes/char-rnn.ini (512 gated recurrent units, 50 rows of 50 characters) against PyTorch:
forward, backward and update, after a check that both sides compute the same.
"""
import random
import re

import measure
from common import Row, Skipped, in_turn
from torch_peer import SETTINGS, Torch

# The same as in torch_gru.py, which cannot be imported without PyTorch.
ROWS, LENGTH, CLASSES, FIRST = 50, 50, 101, 27
NET = dict(recipe="char-rnn.ini", batch=ROWS, warmup=5, steps=30)
HIDDEN, TRIAL_HIDDEN = 512, 32


def hidden_of(bench):
    return TRIAL_HIDDEN if bench.options.trial else HIDDEN


def write_text(bench, records):
    """Writes that many records of random tokens for every row, some tokens more frequent than
    others, and the vocabulary.
    """
    draw, text, names = random.Random(1), bench.path("tokens"), bench.path("vocabulary")
    with open(text, "wb") as f:
        f.write(bytes(FIRST + draw.randrange(CLASSES) ** 2 // CLASSES for _ in range(ROWS * LENGTH * records + 1)))
    with open(names, "w") as f:
        f.write("".join("\\x%02x\n" % (FIRST + i) for i in range(CLASSES)))
    return text, names


def with_text(bench, text, names):
    """The recipe with its [data] sections replaced by the text."""
    with open(bench.recipe(NET["recipe"])) as f:
        sections = re.split(r"(?m)^(?=\[)", f.read())
    kept = [s for s in sections if not s.startswith(("[data ", "[fallback]"))]
    kept.append("[data train]\nformat = text\npaths = %s\nunit = bytes\nvocabulary = %s\n"
                "length = %d\nstreams = %d\n" % (text, names, LENGTH, ROWS))
    path = bench.path("same-" + NET["recipe"])
    with open(path, "w") as f:
        f.write("".join(kept))
    return path


def call(torch, bench, setting, extra):
    return torch.run("torch_gru.py", setting,
                     ["--threads", str(bench.threads), "--hidden", str(hidden_of(bench))] + extra)


def same_net(bench, torch, recipe, text):
    """Both train by SGD from the same values on the same text, with a recurrent state that
    continues from step to step: the losses up to the one after 10 updates, and the parameters after
    2, agree to 1e-3.
    """
    short, updates, limit, least_change, rate = 2, 10, 1e-3, 1e-2, 0.5
    sets = ["updater.type=sgd", "updater.lr=%g" % rate, "layer.gru.hidden=%d" % hidden_of(bench)]
    few, _ = bench.train(recipe, short, sets)
    given = ["--weights", bench.path(few, "checkpoint-0.safetensors"), "--tokens", text,
             "--lr", "%g" % rate, "--warmup", "0"]
    difference, _ = call(torch, bench, "as it comes", given + ["--steps", str(short), "--expect", bench.path(
        few, "checkpoint-%d.safetensors" % short)])
    theirs, _ = call(torch, bench, "as it comes", given + ["--steps", str(updates + 1)])
    bench.drop(few)
    many, _ = bench.train(recipe, updates + 1, sets)
    bench.drop(many)
    ours = [float(r[0]) for r in bench.sql(
        "SELECT value FROM metrics WHERE split = 'train' AND name = 'loss' AND run_id ="
        " (SELECT id FROM runs WHERE name = '%s') ORDER BY step" % many)]
    worst = max(abs(a - b) for a, b in zip(ours, theirs["losses"]))
    note = ("same net: losses within %.1e over %d updates (%.4f to %.4f), parameters within %.1e "
            "after %d" % (worst, updates, ours[0], ours[-1], difference["difference"], short))
    if len(ours) != updates + 1 or not max(worst, difference["difference"]) <= limit:
        raise measure.Failed("not the %s: losses %s and %s" % (note, ours, theirs["losses"]))
    if abs(ours[0] - ours[-1]) < least_change:
        raise measure.Failed("the loss changed from %g to %g only, which compares nothing" %
                             (ours[0], ours[-1]))
    return note


def timed(torch, bench, net, setting):
    answer, peak = call(torch, bench, setting,
                        ["--warmup", str(net["warmup"]), "--steps", str(net["steps"])])
    return LENGTH * answer["samples_per_s"], peak


def best_setting(torch, bench, net):
    speed = {s: timed(torch, bench, net, s)[0] for s in SETTINGS}
    for setting, value in speed.items():
        bench.say("torch %s, %s: %.6g characters/s" % (torch.version, setting, value))
    return max(speed, key=speed.get)


def figure(bench):
    net = dict(NET, **(dict(warmup=1, steps=2) if bench.options.trial else {}))
    text, names = write_text(bench, 16)
    recipe, rows, reasons = with_text(bench, text, names), [], []
    sets = ["layer.gru.hidden=%d" % hidden_of(bench)]

    def ours():
        speed, peak = bench.ours(dict(net, recipe=recipe), sets=sets)
        return LENGTH * speed, peak
    for python in bench.options.torch:
        try:
            torch = Torch(bench, python)
        except Skipped as e:
            reasons.append(str(e))
            continue
        note, setting = same_net(bench, torch, recipe, text), best_setting(torch, bench, net)
        title, other = "char-rnn, GRU %d, 50 x 50" % hidden_of(bench), "PyTorch " + torch.version
        a, b, foreign = in_turn(bench, "%s | %s" % (title, other), ours,
                                lambda t=torch, s=setting: timed(t, bench, net, s))
        note = "foreign load %.0f %%; best of the grid: %s; %s" % (100 * foreign, setting, note)
        rows += [Row(title, other, "characters/s", [x[0] for x in a], [x[0] for x in b], 1.35,
                     note=note),
                 Row(title + ", memory", other, "MB", [x[1] / 1e6 for x in a],
                     [x[1] / 1e6 for x in b], 1.0, at_most=True, note="peak resident")]
    if not rows:
        raise Skipped("; ".join(reasons))
    return rows
