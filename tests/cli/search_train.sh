# ctest-timeout: 120
# search train: every method learns codes of pairs with which partners are found, a model serves
# index, query, recall and map, MAP by Hamming distance is that of Python, and damaged models and
# wrong options are refused.
. "$(dirname "$0")/lib.sh"
have_python || skip 'there is no python3'

cd "$T" || exit 1
cat >npy.py <<'END'
import array, random, struct
def save(path, descr, rows):
    """Writes a list of rows, or of numbers, as an array."""
    columns = len(rows[0]) if isinstance(rows[0], (list, tuple)) else None
    shape = "(%d,)" % len(rows) if columns is None else "(%d, %d)" % (len(rows), columns)
    head = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, shape)
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    code = {"<f4": "f", "|u1": "B", "<i8": "q"}[descr]
    flat = rows if columns is None else [x for row in rows for x in row]
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        array.array(code, flat).tofile(f)
END
cat >make.py <<'END'
from npy import *
import json
r = random.Random(2)
means = [[r.gauss(0, 2) for k in range(4)] for c in range(5)]
def mix(dims):
    return [[r.gauss(0, 1) for k in range(4)] for d in range(dims)]
maps = {"images": mix(10), "texts": mix(14)}
def pairs(count, prefix):
    latent = [[m + r.gauss(0, 1) for m in means[i % 5]] for i in range(count)]
    for side, weights in maps.items():
        save(prefix + side + ".npy", "<f4", [[sum(w * x for w, x in zip(row, z)) + r.gauss(0, .5) for row in weights]
                                             for z in latent])
    save(prefix + "labels.npy", "<i8", [i % 5 for i in range(count)])
pairs(400, "")
pairs(150, "test_")
save("huge.npy", "<f4", [[5e37 * (-1) ** (i * j) for j in range(10)] for i in range(400)])
save("fewer.npy", "<f4", [[0.5] * 14] * 399)
# Codes of 8 bits and their MAP, averaged over ties, by adding every order's share.
codes = [r.randrange(256) for i in range(90)]
save("codes.npy", "|u1", [[c] for c in codes])
save("code_labels.npy", "<i8", [i % 3 for i in range(90)])
def ap(q):
    groups = {}
    for i, c in enumerate(codes):
        if i != q:
            groups.setdefault(bin(c ^ codes[q]).count("1"), []).append(i % 3 == q % 3)
    total, before, at = 0.0, 0, 0
    for d in sorted(groups):
        n, rel = len(groups[d]), sum(groups[d])
        for i in range(n):
            total += rel / n * (before + 1 + (i * (rel - 1) / (n - 1) if n > 1 else 0)) / (at + i + 1)
        before, at = before + rel, at + n
    return total / before
json.dump(sum(ap(q) for q in range(90)) / 90, open("want.json", "w"))
# Vectors whose bits above the median are known codes.
rows = [[r.random() for j in range(6)] for i in range(91)]
save("numbers.npy", "<f4", rows)
rows = [[float(struct.unpack("f", struct.pack("f", x))[0]) for x in row] for row in rows]
median = [sorted(row[j] for row in rows)[45] for j in range(6)]
save("numbers_codes.npy", "|u1", [[sum((row[j] > median[j]) << j for j in range(6))] for row in rows])
save("numbers_labels.npy", "<i8", [i % 4 for i in range(91)])
END
python3 make.py || fail 'the data'

map() { # OPTION...: MAP of the test pairs
    expect 0 search map --images test_images.npy --texts test_texts.npy --labels test_labels.npy --json "$@"
    python3 -c 'import json; r = json.load(open("out")); print(min(r["i2i"], r["t2t"], r["i2t"], r["t2i"]), r["metric"])'
}

# Chance is 0.2. Every method of two views finds partners by codes and by values.
for method in cvh lcmh cmssh; do
    expect 0 search train --method $method --bits 8 --images images.npy --texts texts.npy --out $method
    has out "^method +$method\$"
    has out '^vectors +images of 10 numbers, texts of 14$'
    map --model $method --hamming >found
    awk '$2 != "hamming" || $1 < .36 { exit 1 }' found || fail "$method, codes: $(cat found)"
    map --model $method >found
    awk '$2 != "euclidean" || $1 < .34 { exit 1 }' found || fail "$method, values: $(cat found)"
    cp $method first
    expect 0 search train --method $method --bits 8 --images images.npy --texts texts.npy --out $method --threads 3
    cmp -s $method first || fail "$method depends on threads"
done
expect 0 search train --method cmssh --labels labels.npy --bits 8 --images images.npy --texts texts.npy --out labelled --json
python3 -c 'import json; r = json.load(open("out"))
exit(not (r["method"] == "cmssh" and r["bits"] == 8 and r["rows"] == 400 and r["dims"] == [10, 14]))' || fail 'JSON'
map --model labelled --hamming >found
awk '$1 < .5 { exit 1 }' found || fail "labels: $(cat found)"
for method in spectral hyperplanes; do
    expect 0 search train --method $method --bits 12 --images images.npy --out $method
    has out '^vectors +10 numbers$'
    expect 0 search map --images test_images.npy --labels test_labels.npy --model $method --hamming
    awk '/^image to image/ && $4 < .4 { exit 1 }' out || fail "$method: $(cat out)"
done
# Both views of as many numbers share a model.
expect 0 search train --method spectral --bits 6 --images texts.npy --texts test_texts.npy --out both
has out '^rows +550$'

# Indexes of codes and of values; queries of the other view.
expect 0 search index test_texts.npy --kind codes --model cvh --view text --labels test_labels.npy --out codes.index
has out '^codes +8 bits$'
expect 0 search query codes.index --vectors test_images.npy --model cvh --view image -k 5 --json
python3 -c 'import json; r = json.load(open("out"))
hits = sum(n["labels"] == [i % 5] for i, q in enumerate(r["neighbors"]) for n in q)
exit(not (r["distance"] == "bits" and r["queries"] == 150 and hits > 300))' || fail 'queries of the other view'
expect 0 search recall codes.index --queries test_images.npy --model cvh --view image -k 5
has out '^recall@5 +1\.0000$'
expect 0 search index test_texts.npy --kind va --model cvh --view text --out values.index
has out '^vectors +8 floats, euclidean$'
expect 0 search recall values.index --queries test_images.npy --model cvh --view image -k 5
has out '^recall@5 +1\.0000$'
expect 0 search index test_images.npy --kind mih --model spectral --out one.index

# MAP of codes, and of vectors by their medians.
expect 0 search map --images codes.npy --labels code_labels.npy --hamming --json
python3 -c 'import json; r, want = json.load(open("out")), json.load(open("want.json"))
exit(not (abs(r["i2i"] - want) < 1e-9 and r["metric"] == "hamming"))' || fail 'MAP of codes'
expect 0 search map --images numbers.npy --labels numbers_labels.npy --hamming --json
cp out by_median
expect 0 search map --images numbers_codes.npy --labels numbers_labels.npy --hamming --json
cmp -s out by_median || fail 'codes by medians'

# Refused.
expect 0 search train --help
has out 'data section; default: train$'
expect 2 search train --images images.npy --texts texts.npy --out bad
has err '--method is missing'
expect 2 search train --method pca --images images.npy --texts texts.npy --out bad
has err 'must be cvh, lcmh, cmssh, spectral or hyperplanes'
expect 2 search train --method cvh --images images.npy --out bad
has err '--texts is missing'
expect 2 search train --method cvh --images images.npy --texts texts.npy
has err '--out=MODEL is missing'
expect 2 search train --method cvh --images images.npy --texts fewer.npy --out bad
has err '400 rows of one view, 399 of the other'
for method in cvh lcmh cmssh; do
    expect 2 search train --method $method --bits 4 --images huge.npy --texts texts.npy --out bad
    has err 'the first view has a number of size 5e\+37, expected at most 1e\+18: divide its vectors'
done
expect 2 search train --method cvh --bits 11 --images images.npy --texts texts.npy --out bad
has err '11 bits, expected at most the 10 dimensions'
expect 2 search train --method cvh --labels labels.npy --images images.npy --texts texts.npy --out bad
has err 'method cvh takes no --labels'
for method in cvh spectral; do
    expect 2 search train --method $method --seed 3 --images images.npy --texts texts.npy --out bad
    has err "method $method takes no --seed"
done
expect 2 search train --method cvh --ridge -1 --images images.npy --texts texts.npy --out bad
has err '--ridge=-1: must be 1e-12 to 1e\+06'
expect 2 search train --method spectral --images images.npy --texts texts.npy --out bad
has err 'images of 10 numbers and texts of 14'
expect 2 search train --method spectral --images LAYER --split train --images images.npy --out bad
has err '--split needs --recipe'
expect 2 search index test_texts.npy --kind codes --model cvh --out bad
has err '--view=image or --view=text is missing'
expect 2 search index test_texts.npy --kind codes --view text --out bad
has err '--view needs --model'
expect 2 search index test_texts.npy --kind codes --model cvh --view sound --out bad
has err 'must be image or text'
expect 2 search index test_texts.npy --kind codes --model cvh --view image --out bad
has err 'vectors of 14 numbers, expected vectors of 10 numbers for cvh'
expect 2 search map --images codes.npy --labels code_labels.npy --hamming --metric cosine
has err '--metric and --hamming are mutually exclusive'
expect 3 search index test_texts.npy --kind codes --model codes.index --view text --out bad
has err 'codes.index: an index, expected a model of codes'
expect 3 search query cvh --vectors test_images.npy
has err 'cvh: a model of codes, expected an index'
head -c 1500 cvh >cut
expect 3 search map --images test_images.npy --labels test_labels.npy --model cut
has err 'cut: has 1500 bytes, expected [0-9]+: the file is truncated'
python3 -c 'b = bytearray(open("cvh", "rb").read()); b[-3] ^= 4; open("flipped", "wb").write(b)'
expect 3 search map --images test_images.npy --labels test_labels.npy --model flipped
has err 'flipped: section planes 2 is damaged: checksum'
[ -e bad ] && fail 'a refused training left a file'
exit 0
