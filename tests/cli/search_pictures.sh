# ctest-timeout: 120
# Pictures of searches: curves, points and contact sheets are PNG or SVG of the expected size with the
# expected names; numbers are those of Python; lists, labels and images that do not fit are refused, and
# leave no file. Queries are also words, in the vocabulary of the trained net.
. "$(dirname "$0")/lib.sh"
have_python || skip 'there is no python3'

cd "$T" || exit 1
cat >make.py <<'END2'
import os, random, struct, zlib
r = random.Random(1)
def save(path, descr, rows):
    columns = len(rows[0]) if isinstance(rows[0], list) else None
    shape = "(%d,)" % len(rows) if columns is None else "(%d, %d)" % (len(rows), columns)
    head = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, shape)
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    flat = rows if columns is None else [x for row in rows for x in row]
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        f.write(struct.pack("<%d%s" % (len(flat), {"<f4": "f", "<i4": "i", "|u1": "B"}[descr]), *flat))
def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
def png(path, color, w, h):
    rows = b"".join(b"\0" + bytes(color) * w for _ in range(h))
    open(path, "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, 8, 2, 0, 0, 0)) +
                           chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
os.mkdir("photos")
names = "red", "green", "blue"
words = [["rose", "fire"], ["leaf", "grass"], ["sea", "sky"]]
for part, count in ("train", 60), ("test", 30):
    with open(part + ".list", "w") as f:
        for i in range(count):
            c = i % 3
            color = [40 + r.randrange(30)] * 3
            color[c] = 200 + r.randrange(50)
            png(f"photos/{part}{i}.png", color, 8, 8)
            f.write(f"photos/{part}{i}.png\t{' '.join(r.sample(words[c] + ['day'], 2))}\t{names[c]}\n")
open("pictures.list", "w").writelines(f"photos/test{i}.png\n" for i in range(30))
open("texts.list", "w").writelines(l.split("\t")[1] + "\n" for l in open("test.list"))
open("short.list", "w").write("photos/test0.png\n")
open("names.txt", "w").write("rote\ngruene\nblaue\n")
png("wide.png", [255, 0, 0], 300, 50)
open("photos/broken.png", "wb").write(open("photos/test0.png", "rb").read()[:60])
open("broken.list", "w").writelines(f"photos/{'broken' if i == 3 else 'test%d' % i}.png\n" for i in range(30))
open("missing.list", "w").writelines(f"photos/none{i}.png\n" for i in range(30))
points = [[3 * (i % 3 == d) + r.random() for d in range(5)] for i in range(30)]
save("points.npy", "<f4", points)
save("moved.npy", "<f4", [[x + 0.1 for x in p] for p in points])
save("narrow.npy", "<f4", [p[:4] for p in points])
save("queries.npy", "<f4", points[:4])
save("labels.npy", "<i4", [i % 3 for i in range(30)])
save("query_labels.npy", "<i4", [0, 1, 2, 1])
save("sets.npy", "|u1", [[int(i % 3 == c) for c in range(3)] for i in range(4)])
save("codes.npy", "|u1", [[255 if i % 3 == d % 3 else r.randrange(3) for d in range(4)] for i in range(30)])
END2
python3 make.py || fail 'the data'
cat >is.py <<'END2'
# is.py FILE WIDTH HEIGHT: a PNG that decodes, or an SVG that parses, of that size.
import struct, sys, zlib, xml.etree.ElementTree as tree
path, want = sys.argv[1], (int(sys.argv[2]), int(sys.argv[3]))
data = open(path, "rb").read()
if path.endswith(".svg"):
    root = tree.fromstring(data)
    assert (int(root.get("width")), int(root.get("height"))) == want, root.attrib
    sys.exit()
assert data[:8] == b"\x89PNG\r\n\x1a\n"
at, body = 8, b""
while at < len(data):
    n, kind = struct.unpack(">I4s", data[at:at + 8])
    part = data[at + 8:at + 8 + n]
    assert zlib.crc32(kind + part) == struct.unpack(">I", data[at + 8 + n:at + 12 + n])[0]
    head, body = (part if kind == b"IHDR" else head if at > 8 else None), body + (part if kind == b"IDAT" else b"")
    at += 12 + n
size = struct.unpack(">II", head[:8])
assert size == want, size
assert len(zlib.decompress(body)) >= 3 * size[0] * size[1]
END2
picture() { # FILE WIDTH HEIGHT ARGUMENT...: draws FILE.svg, and FILE.png in a build with cairo
    file=$1 width=$2 height=$3
    shift 3
    expect 0 "$@" "$file.svg"
    python3 is.py "$file.svg" "$width" "$height" || fail "$file.svg"
    if "$SW" "$@" "$file.png" >"$T/out" 2>"$T/err"; then
        python3 is.py "$file.png" "$width" "$height" || fail "$file.png"
    else
        has err 'without cairo'
    fi
}
counts() { # COUNT PATTERN FILE
    [ "$(grep -cE -- "$2" "$3")" = "$1" ] || fail "$(grep -cE -- "$2" "$3") times /$2/ in $3, not $1"
}

# Curves: a chart for each measure, a line for each search.
picture curves 1560 420 search map --images points.npy --texts moved.npy --labels labels.npy --plot
for name in 'image to image' 'text to text' 'image to text' 'text to image'; do
    counts 3 ">$name<" curves.svg
done
counts 1 '>precision at scope<' curves.svg
expect 0 search map --images points.npy --labels labels.npy --plot one.svg
counts 3 '>image to image<' one.svg
expect 0 search map --images points.npy --labels labels.npy --json
python3 - <<'END2' || fail 'precision at scope'
import json
s = json.load(open("out"))["details"]["i2i"]["scope"]
assert s["k"] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 25, 29]
assert all(p == 1 for p in s["precision"][:9]) # ten of each class, far from the others
assert abs(s["precision"][-1] - 9 / 29) < 1e-12 and abs(s["recall"][-1] - 1) < 1e-12
assert abs(s["recall"][3] - 4 / 9) < 1e-12 and abs(s["precision"][9] - .9) < 1e-12
END2
expect 2 search map --images points.npy --labels labels.npy --plot curves.gif
has err 'must end in .png or .svg'

# Points: names, kinds, connected pairs; the same numbers as by power iteration.
picture points 900 700 search project points.npy --labels labels.npy --class-names names.txt --plot
counts 1 '>gruene<' points.svg
counts 33 '<circle' points.svg # 30 points and the legend
picture pairs 900 700 search project points.npy moved.npy --labels labels.npy --pairs 7 --plot
counts 1 '>moved.npy<' pairs.svg
counts 7 '#cc3311' pairs.svg
expect 0 search project points.npy moved.npy --plot unlabeled.svg --pairs 0
counts 2 '>moved.npy<' unlabeled.svg
counts 0 '#cc3311' unlabeled.svg
expect 0 search project points.npy --output xy.npy --json
cat >xy.py <<'END2'
import json, struct
def load(path, kind):
    data = open(path, "rb").read()
    n = 10 + struct.unpack("<H", data[8:10])[0]
    return struct.unpack("<%d%s" % ((len(data) - n) // 4, kind), data[n:])
flat = load("points.npy", "f")
rows = [flat[5 * i:5 * i + 5] for i in range(30)]
mean = [sum(r[d] for r in rows) / 30 for d in range(5)]
rows = [[x - m for x, m in zip(r, mean)] for r in rows]
c = [[sum(r[i] * r[j] for r in rows) / 30 for j in range(5)] for i in range(5)]
total, xy, share = sum(c[d][d] for d in range(5)), load("xy.npy", "f"), json.load(open("out"))["variance"]
for axis in range(2):
    v = [1.0, .9, .8, .7, .6]
    for _ in range(3000):
        v = [sum(c[i][j] * v[j] for j in range(5)) for i in range(5)]
        size = sum(x * x for x in v) ** .5
        v = [x / size for x in v]
    if max(v) < -min(v):
        v = [-x for x in v]
    for i, r in enumerate(rows):
        assert abs(sum(a * b for a, b in zip(r, v)) - xy[2 * i + axis]) < 1e-3, (axis, i)
    assert abs(share[axis] - size / total) < 1e-6
    c = [[c[i][j] - size * v[i] * v[j] for j in range(5)] for i in range(5)]
END2
python3 xy.py || fail 'principal components'
expect 0 search index codes.npy --kind codes --labels labels.npy --out codes.index --quiet
expect 0 search project codes.index --plot codes.svg
has out '^rows +30 of 32 numbers, codes.index$'
# Labels are those of whichever set has them.
expect 0 search index points.npy --labels labels.npy --out labeled.index
expect 0 search project points.npy labeled.index --class-names names.txt --plot two.svg
counts 33 '<circle' codes.svg
expect 2 search project points.npy narrow.npy --plot bad.svg
has err '5 and of 4 dimensions'
expect 2 search project queries.npy --labels labels.npy --plot bad.svg
has err '30 labels of 4 rows in queries.npy'
expect 2 search project points.npy
expect 2 search project --plot bad.svg
expect 3 search project names.txt --plot bad.svg
has err 'not an index file'
expect 2 search project points.npy --layer fc --plot bad.svg
expect 2 search project points.npy --class-names names.txt --plot bad.svg
has err 'the rows have no labels'
for sets in 'points.npy' 'points.npy queries.npy'; do
    expect 2 search project $sets --pairs 3 --plot bad.svg --output bad.svg.npy
    has err 'pairs are rows of two sets of the same size'
done
[ -e bad.svg ] || [ -e bad.svg.npy ] && fail 'a picture of nothing'
for unused in '--pairs 3' '--class-names names.txt'; do
    expect 2 search project points.npy --labels labels.npy --output bad.svg.npy $unused
    has err "${unused%% *} needs --plot"
done

# Contact sheets: four queries, five results each; frames only where labels are known.
expect 0 search index points.npy --labels labels.npy --out labeled --quiet
expect 0 search index points.npy --out plain --quiet
picture sheet 682 538 search query labeled --vectors queries.npy -k 5 --quiet --pictures pictures.list \
    --query-labels query_labels.npy --sheet
counts 1 '>4 of 4 queries, 5 nearest, 75.0 % share a label<' sheet.svg
counts 20 '<image ' sheet.svg
counts 15 '#009e73' sheet.svg
counts 5 '#d55e00' sheet.svg
expect 0 search query plain --vectors queries.npy -k 5 --pictures pictures.list --texts texts.list --sheet both.svg --quiet
counts 20 '<image ' both.svg
counts 0 '#009e73' both.svg
[ "$(grep -oE '>[a-z]+ [a-z]+<' both.svg | wc -l)" = 20 ] || fail 'the texts below images'
expect 0 search query plain --vectors queries.npy -k 30 --texts texts.list --sheet many.svg --quiet
counts 1 '>4 of 4 queries, 20 nearest<' many.svg # not more than 20 are drawn
for wrong in '--sheet bad.svg' '--pictures pictures.list' '--sheet bad.pdf --pictures pictures.list' '--query-labels l.npy'; do
    expect 2 search query plain --vectors queries.npy $wrong
    has err '^singa-ws search query: --'
done
refused() { # CODE PATTERN OPTION...
    code=$1 pattern=$2
    shift 2
    expect "$code" search query labeled --vectors queries.npy -k 5 --quiet --sheet bad.svg "$@"
    has err "$pattern"
    [ -e bad.svg ] && fail "a sheet with $*"
}
refused 2 'short.list: 1 lines, expected 30, one for each row of the index' --pictures short.list
refused 2 'short.list: 1 lines, expected 4, one for each query' --texts texts.list --query-pictures short.list
refused 3 'photos/none0.png' --pictures missing.list
refused 3 'photos/broken.png: ' --pictures broken.list
refused 3 'nowhere.list' --pictures nowhere.list
refused 2 'labels.npy: 30 labels of 4 queries' --pictures pictures.list --query-labels labels.npy
refused 2 'differ in their form' --pictures pictures.list --query-labels sets.npy
expect 2 search query plain --vectors queries.npy --sheet bad.svg --pictures pictures.list --query-labels query_labels.npy
has err 'the index has no labels'

# A net of images and words: an image or words find images, in one command.
data() {
    printf '[data %s]\nformat = pairs\npaths = %s.list\nvocabulary_from = train.list\n' "$1" "$1"
    printf 'classes = red, green, blue\nlabel_sets = no\nscale = 0.01\n'
}
{
    data train
    data test
    cat <<'INI'
[job]
name = words
batch = 30
steps = 300
seed = 2
[updater]
type = adam
lr = 0.02
[layer image]
type = input
field = image
[layer tags]
type = input
field = tags
[layer label]
type = input
field = label
[layer image_code]
type = inner_product
src = image
outputs = 4
[layer image_scores]
type = inner_product
src = image_code
outputs = 3
[layer image_loss]
type = softmax_loss
src = image_scores, label
[layer text_code]
type = embedding_mean
src = tags
vocabulary = 7
outputs = 4
[layer distance]
type = euclidean_loss
src = image_code, text_code
INI
} >words.ini
expect 0 run words.ini --out words --name words --quiet
expect 0 search index --recipe words --layer image_code --out photos.index --quiet
asks() { # CLASS OPTION...: the four nearest photos have this class
    class=$1
    shift
    expect 0 search query photos.index --recipe words -k 4 --json "$@"
    python3 -c 'import json, sys
n = json.load(open("out"))["neighbors"]
exit(not (len(n) == 1 and all(x["labels"] == [int(sys.argv[1])] for x in n[0])))' "$class" || fail "$*: not class $class"
}
asks 2 --layer text_code --text 'sea sky'
asks 1 --layer text_code --text 'grass unheard leaf'
has err "'unheard' is not among the 7 words of the net"
asks 0 --layer image_code wide.png
mkdir gone && mv train.list test.list gone
asks 0 --layer text_code --text rose # the vocabulary is in the checkpoint
mv gone/* .
picture words 470 416 search query photos.index --recipe words --layer text_code -k 3 --quiet \
    --text 'sea sky' --text fire --text leaf --pictures pictures.list --sheet
counts 1 '>sea sky<' words.svg
counts 9 '<image ' words.svg
expect 0 search query photos.index --recipe words --layer image_code -k 3 --quiet --pictures pictures.list \
    --sheet asked.svg wide.png photos/test1.png
counts 8 '<image ' asked.svg # two queries beside six results
expect 0 search query photos.index --recipe words --layer text_code -k 3 --quiet --pictures pictures.list --sheet split.svg
has split.svg '>30 of 30 queries, 3 nearest, [0-9.]+ % share a label<'
expect 0 search project --recipe words --plot net.svg
counts 1 '>green<' net.svg
counts 1 '>text_code<' net.svg
counts 25 '#cc3311' net.svg
expect 0 search index --recipe words --layer text_code --text 'sea sky' --text rose --out texts.index
has out '^rows +2$'

# The same by arrays for the fields.
expect 0 predict words --layer text_code --output codes.npy
expect 0 predict words --layer tags --output tags.npy
python3 - <<'END2' || fail 'the tags as integers'
import re, struct
data = open("tags.npy", "rb").read()
n = 10 + struct.unpack("<H", data[8:10])[0]
values = struct.unpack("<%df" % ((len(data) - n) // 4), data[n:])
open("ids.npy", "wb").write(data[:n].replace(b"<f4", b"<i4") + struct.pack("<%di" % len(values), *map(int, values)))
END2
expect 0 search query photos.index --recipe words --layer text_code -k 3 --ids by_input.npy --quiet --input tags=ids.npy
expect 0 search query photos.index --vectors codes.npy -k 3 --ids by_file.npy --quiet
cmp -s by_input.npy by_file.npy || fail 'the queries of --input differ'
for wrong in '--text sea' '--input ids.npy' '--recipe words --text sea --input ids.npy' '--recipe words --text sea wide.png' \
    '--recipe words --split test --input ids.npy' '--recipe words --split test wide.png'; do
    expect 2 search query photos.index $wrong
    has err '^singa-ws search query: --'
done
expect 2 search query photos.index --recipe words --layer text_code --text 'unheard of'
has err "the net knows none of these words"
expect 2 search query photos.index --recipe words --layer text_code --text ''
has err "'': the net knows none of these words"
expect 2 search query photos.index --recipe words --layer image_code --text sea
has err 'layer image_code reads the field image'
expect 3 search query photos.index --recipe words --layer text_code --input tags=none.npy
exit 0
