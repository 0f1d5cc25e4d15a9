"""gensim for bench/skipgram, in a Python that has it. Prints JSON.

    skipgram_peer.py train TEXT SETTINGS VECTORS     trains with SETTINGS (JSON), writes the vectors as
                                                     text of word2vec; seconds of the training alone
    skipgram_peer.py score VECTORS QUESTIONS         how many questions gensim says that they answer
"""
import json
import sys
import time

import gensim
from gensim.models import KeyedVectors, Word2Vec
from gensim.models.word2vec import FAST_VERSION, Text8Corpus


def train(text, settings, vectors):
    s = json.loads(settings)
    sentences = list(Text8Corpus(text))
    model = Word2Vec(sg=1, vector_size=s["dimensions"], window=s["window"],
                     negative=s["negatives"], sample=s["subsample"], alpha=s["lr"],
                     min_alpha=s["final"], min_count=s["min_count"], workers=s["threads"],
                     seed=s["seed"])
    model.build_vocab(sentences)
    began = time.perf_counter()
    model.train(sentences, total_examples=model.corpus_count, epochs=s["epochs"])
    seconds = time.perf_counter() - began
    model.wv.save_word2vec_format(vectors)
    words = sum(int(model.wv.get_vecattr(w, "count")) for w in model.wv.index_to_key)
    print(json.dumps({"gensim": gensim.__version__, "compiled": FAST_VERSION >= 0,
                      "seconds": seconds, "words": words}))


def score(vectors, questions):
    # gensim's case_insensitive makes upper case of both; the words of the text are in lower case.
    lower = vectors + ".questions"
    with open(questions) as f, open(lower, "w") as out:
        out.write(f.read().lower())
    _, sections = KeyedVectors.load_word2vec_format(vectors).evaluate_word_analogies(
        lower, restrict_vocab=None, case_insensitive=False)
    total = sections[-1]
    print(json.dumps({"correct": len(total["correct"]),
                      "covered": len(total["correct"]) + len(total["incorrect"])}))


if __name__ == "__main__":
    {"train": train, "score": score}[sys.argv[1]](*sys.argv[2:])
