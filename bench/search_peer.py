"""FAISS and NumPy for bench/search, in a Python that has them. Prints JSON.

    search_peer.py random KIND ROWS COLUMNS QUERIES FOLDER    writes base.npy and query.npy
    search_peer.py wikipedia SOURCE FOLDER                    writes them for images and for texts
    search_peer.py time INDEX FOLDER K THREADS REPEATS        seconds of all queries; writes truth.npy
"""
import json
import os
import sys
import time

import numpy as np


def save(folder, base, query):
    os.makedirs(folder, exist_ok=True)
    np.save(os.path.join(folder, "base.npy"), np.ascontiguousarray(base))
    np.save(os.path.join(folder, "query.npy"), np.ascontiguousarray(query))


def random(kind, rows, columns, queries, folder):
    r = np.random.RandomState(1)
    rows, columns, queries = int(rows), int(columns), int(queries)
    total = rows + queries
    if kind == "codes":
        x = r.randint(0, 256, (total, columns)).astype(np.uint8)
    elif kind == "uniform":
        x = r.rand(total, columns).astype(np.float32)
    else:  # a mixture, as latent features are: classes that overlap
        x = r.randn(100, columns)[r.randint(0, 100, total)] + 0.5 * r.randn(total, columns)
        x = x.astype(np.float32)
    save(folder, x[:rows], x[rows:])


def wikipedia(source, folder):
    import scipy.io
    m = scipy.io.loadmat(os.path.join(source, "wikipedia-xmodal", "raw_features.mat"))
    for name, key in (("images", "I"), ("texts", "T")):
        save(os.path.join(folder, name), m[key + "_tr"].astype(np.float32),
             m[key + "_te"].astype(np.float32))


def timed(name, folder, k, threads, repeats):
    import faiss
    faiss.omp_set_num_threads(int(threads))
    base, query = (np.load(os.path.join(folder, f + ".npy")) for f in ("base", "query"))
    index = faiss.IndexBinaryFlat(8 * base.shape[1]) if name == "binary" else \
        faiss.IndexFlatL2(base.shape[1])
    index.add(base)
    distances, ids = index.search(query, int(k))
    np.save(os.path.join(folder, "truth.npy"), ids.astype(np.int64))
    seconds = []
    for _ in range(int(repeats)):
        began = time.perf_counter()
        index.search(query, int(k))
        seconds.append(time.perf_counter() - began)
    print(json.dumps({"seconds": seconds, "faiss": faiss.__version__}))


if __name__ == "__main__":
    {"random": random, "wikipedia": wikipedia, "time": timed}[sys.argv[1]](*sys.argv[2:])
