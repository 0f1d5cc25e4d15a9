# ctest-timeout: 120
# search: indexes of every kind answer as Python does, MAP is that of Equation 5.12, damaged files and
# wrong queries are refused, and a build that is killed or has no room leaves no half index.
. "$(dirname "$0")/lib.sh"
have_python || skip 'there is no python3'

cd "$T" || exit 1
cat >npy.py <<'END'
import array, math, random, struct
def save(path, descr, rows):
    """Writes a list of rows, or of numbers, as an array."""
    columns = len(rows[0]) if isinstance(rows[0], (list, tuple)) else None
    shape = "(%d,)" % len(rows) if columns is None else "(%d, %d)" % (len(rows), columns)
    head = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, shape)
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    code = {"<f4": "f", "<f8": "d", "|u1": "B", "<i8": "q"}[descr]
    flat = rows if columns is None else [x for row in rows for x in row]
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        array.array(code, flat).tofile(f)
def single(x):
    return struct.unpack("f", struct.pack("f", x))[0]
END
cat >make.py <<'END'
from npy import *
r = random.Random(1)
centers = [[r.gauss(0, 3) for d in range(16)] for c in range(12)]
def near(i):
    return [single(x + r.gauss(0, 1)) for x in centers[i % 12]]
base, query = [near(i) for i in range(600)], [near(i) for i in range(25)]
save("base.npy", "<f4", base)
save("query.npy", "<f4", query)
save("other.npy", "<f4", [q[:7] for q in query])
save("wide.npy", "<f4", [q * 4 for q in query])
save("labels.npy", "<i8", [i % 12 for i in range(600)])
save("sets.npy", "|u1", [[i % 12 == c for c in range(12)] for i in range(600)])
bad = [list(b) for b in base]
bad[3][4] = math.nan
save("nan.npy", "<f4", bad)
codes, query_codes = ([[r.randrange(256) for i in range(10)] for n in range(m)] for m in (600, 25))
save("codes.npy", "|u1", codes)
save("query_codes.npy", "|u1", query_codes)
# Pairs for MAP.
images = [[single(x / 5 + r.gauss(0, 1)) for x in centers[i % 12]] for i in range(120)]
texts = [[single(x + r.gauss(0, 1)) for x in b] for b in images]
save("images.npy", "<f4", images)
save("texts.npy", "<f8", texts)
save("texts8.npy", "<f4", [t[:8] for t in texts])
save("pair_labels.npy", "<i8", [i % 12 for i in range(120)])
save("pair_sets.npy", "|u1", [[i % 12 == c for c in range(12)] for i in range(120)])
save("query_labels.npy", "<i8", [i % 12 for i in range(25)])
save("large.npy", "<f4", [[r.random() for d in range(64)] for i in range(20000)])

# The exact answers.
def square(a, b):
    return sum((x - y) * (x - y) for x, y in zip(a, b))
def dot(a, b):
    return sum(x * y for x, y in zip(a, b))
def nearest(path, distance, queries, rows):
    save(path, "<i8", [sorted(range(len(rows)), key=lambda i: (distance(q, rows[i]), i))[:7] for q in queries])
nearest("euclidean.npy", square, query, base)
nearest("cosine.npy", lambda a, b: -dot(a, b) / math.sqrt(dot(a, a) * dot(b, b)), query, base)
nearest("dot.npy", lambda a, b: -dot(a, b), query, base)
nearest("bits.npy", lambda a, b: sum(bin(x ^ y).count("1") for x, y in zip(a, b)), query_codes, codes)
def average(query, rows, i, same):
    order = sorted((square(query, b), j) for j, b in enumerate(rows) if not (same and i == j))
    found, total = 0, 0.0
    for rank, (d, j) in enumerate(order):
        if j % 12 == i % 12:
            found += 1
            total += found / (rank + 1)
    return total / found
side = {"i": images, "t": texts}
import json
want = {}
for task in ("i2i", "t2t", "i2t", "t2i"):
    q, b = side[task[0]], side[task[2]]
    p = [average(q[i], b, i, task[0] == task[2]) for i in range(120)]
    want[task] = [sum(p) / 120] + [sum(p[c::12]) / 10 for c in range(12)]
json.dump(want, open("want.json", "w"))
END
python3 make.py || fail 'the data'

answers() { # TRUTH QUERIES INDEX-OPTION...
    truth=$1 queries=$2
    shift 2
    expect 0 search index --out index --quiet "$@"
    expect 0 search recall index --queries "$queries" -k 7 --truth "$truth"
    has out '^recall@7 +1\.0000$'
    expect 0 search query index --vectors "$queries" -k 7 --ids found.npy --quiet
    expect 0 search recall index --queries "$queries" -k 7 --truth found.npy
    has out '^recall@7 +1\.0000$'
}
for metric in euclidean cosine dot; do
    answers $metric.npy query.npy base.npy --metric $metric
done
for bits in 1 2 4 8; do
    answers euclidean.npy query.npy base.npy --kind va --bits $bits
    answers cosine.npy query.npy base.npy --kind va --bits $bits --metric cosine
done
answers bits.npy query_codes.npy codes.npy --kind codes
answers bits.npy query_codes.npy codes.npy --kind mih
expect 0 search index --out index --quiet base.npy
expect 0 search recall index --queries query.npy -k 7 --truth dot.npy
hasnt out '^recall@7 +1\.0000$' # other neighbors are noticed

# Results do not depend on threads; labels are shown; few vectors are read.
expect 0 search index base.npy --kind va --bits 8 --labels sets.npy --out va
has out '^classes +12$'
for threads in 1 3; do
    expect 0 search query va --vectors query.npy --threads $threads
    mv out out.$threads
done
cmp -s out.1 out.3 || fail 'threads change the answer'
cp out.1 out
[ "$(wc -l <out)" = 251 ] || fail 'not 25 queries of 10 neighbors'
has out '^ +0 +[0-9]+ +[0-9.]+  0$'
expect 0 search recall va --queries query.npy --json
python3 -c 'import json; r = json.load(open("out")); exit(not (r["recall"] == 1 and 0 < r["read_share"] < .2))' ||
    fail 'a VA-file reads too much'
expect 0 search query va --vectors query.npy -k 2 --json
python3 -c 'import json; r = json.load(open("out")); n = r["neighbors"]
exit(not (len(n) == 25 and n[3][0]["labels"] == [3] and n[3][0]["distance"] <= n[3][1]["distance"]))' || fail 'JSON'

# Codes of vectors find most neighbors among candidates, and are the same ones for the same seed.
expect 0 search index base.npy --kind mih --bits 64 --out mih
cp mih mih.first
expect 0 search recall mih --queries query.npy --candidates 200
awk '/^recall/ { exit !($2 > .9) }' out || fail 'codes lose neighbors'
expect 0 search index base.npy --kind mih --bits 64 --out mih
cmp -s mih mih.first || fail 'the same seed makes another file'
expect 0 search index base.npy --kind mih --bits 64 --seed 2 --out mih
cmp -s mih mih.first && fail 'another seed makes the same file'

# MAP.
cat >map.py <<'END'
import json
got, want = json.load(open("map.json")), json.load(open("want.json"))
for task, p in want.items():
    assert abs(got[task] - p[0]) < 1e-9, (task, got[task], p[0])
    classes = got["details"][task]["classes"]
    assert [c["class"] for c in classes] == list(range(12))
    for c in classes:
        assert abs(c["map"] - p[1 + c["class"]]) < 1e-9 and c["queries"] == 10, c
    levels = got["details"][task]["precision_at_recall"]
    assert len(levels) == 11 and levels == sorted(levels, reverse=True)
assert abs(got["mean"] - sum(p[0] for p in want.values()) / 4) < 1e-9
END
for labels in pair_labels.npy pair_sets.npy; do
    expect 0 search map --images images.npy --texts texts.npy --labels $labels --json
    mv out map.json
    python3 map.py || fail "MAP with $labels"
done
expect 0 search map --images images.npy --labels pair_labels.npy
has out '^image to image +0\.[0-9]+ +120 +0$'
hasnt out 'text to'
expect 0 search map --images images.npy --labels pair_labels.npy --query-images query.npy --query-labels query_labels.npy
has out '^image to image +0\.[0-9]+ +25 +0$'
expect 2 search map --images images.npy --texts texts8.npy --labels pair_labels.npy
has err 'image to text: the queries have 16 dimensions, expected 8'
expect 2 search map --images base.npy
has err 'labels=L.npy is missing'
expect 2 search map --images query.npy --labels labels.npy
has err '600 labels of 25 queries'

# Refused, with what was expected.
expect 2 search query va --vectors other.npy
has err 'va: the queries have 7 dimensions, expected 16'
expect 2 search query va --vectors query.npy -k 601
has err '601 neighbors, expected 1 to 600'
expect 2 search query va --vectors query.npy --candidates 20
has err '--candidates is for indexes of codes; va has kind va'
expect 3 search index nan.npy --out bad
has err 'nan.npy: .*finite'
expect 2 search index codes.npy --kind codes --metric cosine --out bad
expect 2 search index base.npy --kind va --bits 3 --out bad
expect 2 search index base.npy --kind tree --out bad
has err 'must be exact, va, codes or mih'
expect 3 search query base.npy --vectors query.npy
has err 'base.npy: not an index file'
expect 3 search index labels.npy --out bad
has err 'labels.npy: an array of 600, expected one of ROWSxCOLUMNS'
head -c 5000 va >cut
expect 3 search query cut --vectors query.npy
has err 'cut: has 5000 bytes, expected [0-9]+: the file is truncated'
python3 -c 'b = bytearray(open("va", "rb").read()); b[9000] ^= 4; open("flipped", "wb").write(b)'
expect 3 search query flipped --vectors query.npy
has err 'flipped: section vectors is damaged: checksum [0-9a-f]+, expected'
[ -e bad ] && fail 'a refused build left a file'

# Killed while it builds: the old index or the new one, and never a half one.
cp va kept
for pause in 0 0.02 0.05 0.1 0.15 0.2 0.3 0.5; do
    start search index large.npy --kind va --out kept --threads 1
    sleep $pause
    kill -9 "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
    queries=query.npy
    [ "$(wc -c <kept)" = "$(wc -c <va)" ] || queries=wide.npy
    expect 0 search recall kept --queries $queries -k 1
done
expect 0 search index large.npy --kind va --out kept --quiet
expect 0 search recall kept --queries wide.npy -k 1

# A full disk: the old index stays.
[ "$(id -u)" = 0 ] && mkdir disk && mount -t tmpfs -o size=2m tmpfs disk 2>/dev/null && mounted=$T/disk
if [ -n "${mounted:-}" ]; then
    cp va disk/index
    expect 1 search index large.npy --out disk/index
    has err 'No space left'
    cmp -s va disk/index || fail 'the old index is gone'
    [ "$(ls disk)" = index ] || fail "left on the full disk: $(ls disk)"
fi
cd /
exit 0
