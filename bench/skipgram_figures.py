"""The figures of bench/skipgram."""
import json
import os
import re
import sys

import measure
from common import Row, Sheet, Skipped

EPOCHS = 5
SETTINGS = dict(dimensions=100, window=5, negatives=5, subsample=1e-3, lr=0.025, final=0.0001,
                min_count=5)
# Where the recipe has them.
KEYS = dict(dimensions="layer.words.outputs", window="layer.loss.window",
            negatives="layer.loss.negatives", subsample="layer.loss.subsample", lr="updater.lr",
            final="updater.final", min_count="data.train.min_count", epochs="job.epochs",
            seed="job.seed", threads="cluster.worker_groups")
RECIPE = "skipgram.ini"
PARTS = ("semantic", "syntactic", "total")
TRIAL_BYTES = 300000  # of the text


def gensim_python(bench):
    """A Python with gensim; installs it once if none is given."""
    if bench.options.gensim:
        try:
            measure.run([bench.options.gensim, "-c", "import gensim"])
        except (OSError, measure.Failed) as e:
            raise Skipped("%s has no gensim (--gensim PYTHON)" %
                          os.path.basename(bench.options.gensim)) from e
        return bench.options.gensim

    folder = bench.path("gensim")
    python = os.path.join(folder, "bin", "python")
    if not os.path.exists(python):
        bench.say("installing gensim in a temporary environment")
        try:
            measure.run([sys.executable, "-m", "venv", folder])
            measure.run([python, "-m", "pip", "install", "--quiet", "gensim"])
        except (OSError, measure.Failed) as e:
            raise Skipped("gensim cannot be installed: %s" % e) from e
    return python


def data_folder(bench):
    """The folder of the text; in a trial one with a short text."""
    given = os.path.abspath(bench.options.data)
    for name in ("text8-head", "questions-words.txt"):
        if not os.path.exists(os.path.join(given, "text", name)):
            raise Skipped("there is no %s in %s (--data DIR)" %
                          (os.path.join("text", name), os.path.basename(given)))
    if not bench.options.trial:
        return given

    short = bench.path("short")
    os.makedirs(os.path.join(short, "text"), exist_ok=True)
    for name, most in (("text8-head", TRIAL_BYTES), ("questions-words.txt", -1)):
        with open(os.path.join(given, "text", name)) as f, \
                open(os.path.join(short, "text", name), "w") as out:
            out.write(f.read(most))
    return short


def questions_file(data):
    return os.path.join(data, "text", "questions-words.txt")


def questions(bench, vectors, data):
    """How many analogies vectors answer, as `search words` counts, whoever trained them."""
    return json.loads(measure.run([bench.options.binary, "search", "words", vectors, "questions",
                                   questions_file(data), "--json"], env=bench.environment()).out)


def recipe_length(path):
    """Words of a record."""
    with open(path) as f:
        return int(re.search(r"^length\s*=\s*(\d+)", f.read(), re.M).group(1))


def ours(bench, settings, data):
    """Returns (words/s of the training, seconds of the program, score)."""
    folder = bench.path("ours-%d-%d" % (settings["threads"], settings["seed"]))
    argv = [bench.options.binary, "run", bench.recipe(RECIPE), "--out", folder, "--name",
            os.path.basename(folder), "--json", "--no-ui"]
    for name, value in settings.items():
        argv += ["--set", "%s=%s" % (KEYS[name], value)]
    ended = measure.run(argv, env=bench.environment(1, data))
    summary = json.loads(ended.out.splitlines()[-1])
    score = questions(bench, summary["checkpoint"], data)
    bench.drop(os.path.basename(folder))
    return recipe_length(bench.recipe(RECIPE)) * summary["samples_per_s"], ended.seconds, score


def theirs(bench, python, settings, data):
    """Returns (JSON of skipgram_peer.py, seconds of the program, score)."""
    def peer(*words):
        return measure.run([python, os.path.join(bench.root, "bench", "skipgram_peer.py"), *words],
                           env={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})

    vectors = bench.path("gensim.txt")
    ended = peer("train", os.path.join(data, "text", "text8-head"), json.dumps(settings), vectors)
    score = questions(bench, vectors, data)
    said = json.loads(ended.out)
    said["counts"] = json.loads(peer("score", vectors, questions_file(data)).out)
    return said, ended.seconds, score


def percent(score, part="total"):
    return 100 * (score[part]["accuracy"] or 0)


def accuracy_sheet(title, scores):
    """scores: {program: [score of each seed]}."""
    first = next(iter(scores.values()))[0]
    text = "Analogies, %s: share of correct ones among those whose words all have vectors\n" % title
    text += "%-10s" % ""
    for part in PARTS:
        text += "  %30s" % ("%s (%d of %d)" % (part, first[part]["covered"],
                                               first[part]["questions"]))
    text += "\n"
    for program, of_seeds in scores.items():
        text += "%-10s" % program
        for part in PARTS:
            least, median, most = measure.spread([percent(s, part) for s in of_seeds])
            text += "  %30s" % ("%.2f %% (%.2f to %.2f)" % (median, least, most))
        text += "\n"
    return Sheet(text)


def beside_gensim(bench, threads):
    o, data, python = bench.options, data_folder(bench), gensim_python(bench)
    title = "skip-gram, %d thread%s" % (threads, "s" * (threads > 1))
    epochs = 1 if o.trial else o.epochs
    speed, whole = ([], []), ([], [])
    scores = {"singa-ws": [], "gensim": []}
    agree, foreign = True, measure.Foreign()

    for seed in range(1, o.repeats + 1):
        settings = dict(SETTINGS, epochs=epochs, threads=threads, seed=seed)
        rate, seconds, score = ours(bench, settings, data)
        said, their_seconds, their_score = theirs(bench, python, settings, data)
        if score["words"] != their_score["words"]:
            raise measure.Failed("other words: %d here, %d in gensim" % (score["words"],
                                                                         their_score["words"]))
        total = their_score["total"]
        agree = agree and said["counts"] == {"correct": total["correct"],
                                             "covered": total["covered"]}

        words = said["words"] * epochs
        speed[0].append(rate)
        speed[1].append(words / said["seconds"])
        whole[0].append(words / seconds)
        whole[1].append(words / their_seconds)
        scores["singa-ws"].append(score)
        scores["gensim"].append(their_score)
        bench.say("%s, seed %d: %.4g words/s, %.2f %%; gensim %.4g words/s, %.2f %%" %
                  (title, seed, rate, percent(score), speed[1][-1], percent(their_score)))

    note = "gensim %s%s; %d words of %d kinds, %d epochs; gensim counts %s correct answers of its " \
        "vectors; foreign load %.0f %%" % (
            said["gensim"], "" if said["compiled"] else " (NOT COMPILED)", said["words"],
            score["words"], epochs, "as many" if agree else "OTHER", 100 * foreign.share())
    return [Row(title, "gensim", "words/s", *speed, None, note=note),
            Row(title + ", text to vectors", "gensim", "words/s", *whole, None),
            accuracy_sheet(title, scores)]


FIGURES = {"one": lambda bench: beside_gensim(bench, 1),
           "all": lambda bench: beside_gensim(bench, max(2, bench.threads))}
