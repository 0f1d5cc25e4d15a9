# The files of NUS-WIDE: imported to shards and read directly, the same records; a net for images and
# tags learns from them; damage is refused with file and line.
. "$(dirname "$0")/lib.sh"
have_python || skip 'there is no python3'

cd "$T" || exit 1
# A set in the layout of the published archives: 4 concepts, 40 tags, features of 16 and 9 values. An
# image has one or two concepts; its features and most of its tags depend on them.
cat >make.py <<'END'
import os, random, struct, zlib
rnd = random.Random(5)
CONCEPTS, TAGS, SETS = ["sky", "sea", "animal", "snow"], 40, {"CH": 16, "EDH": 9}
mean = {s: [[rnd.gauss(0, 1) for _ in range(n)] for _ in CONCEPTS] for s, n in SETS.items()}
def write(path, lines):
    os.makedirs(os.path.dirname("nus/" + path), exist_ok=True)
    open("nus/" + path, "w").write("".join(line + "\n" for line in lines))
def png(path, gray):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    chunk = lambda t, d: struct.pack(">I", len(d)) + t + d + struct.pack(">I", zlib.crc32(t + d))
    open(path, "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 6, 4, 8, 0, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress((b"\0" + bytes([gray]) * 6) * 4)) + chunk(b"IEND", b""))
for split, n in ("Train", 400), ("Test", 120):
    labels = [rnd.sample(range(4), rnd.choice([1, 1, 2])) for _ in range(n)]
    labels[1] = []                                     # an image without a concept
    names = [CONCEPTS[l[0] if l else 0] + "\\%04d_%d.png" % (i, rnd.randrange(10**9)) for i, l in enumerate(labels)]
    write("ImageList/%sImagelist.txt" % split, names)
    rows = []
    for i, l in enumerate(labels):
        row = [0] * TAGS
        for _ in range(6 if i != 2 else 0):            # an image without a tag
            row[rnd.choice(l or [0]) * 10 + rnd.randrange(10) if rnd.random() < .8 else rnd.randrange(TAGS)] = 1
        rows.append("\t".join(map(str, row)) + "\t")
    write("NUS_WID_Tags/%s_Tags1k.dat" % split, rows)
    for c, concept in enumerate(CONCEPTS):
        write("Groundtruth/TrainTestLabels/Labels_%s_%s.txt" % (concept, split), [str(int(c in l)) for l in labels])
    for s, m in mean.items():
        write("NUS_WID_Low_Level_Features/Low_Level_Features/%s_Normalized_%s.dat" % (split, s),
              [" ".join("%.6f" % (sum(m[c][k] for c in l) + rnd.gauss(0, .7)) for k in range(len(m[0]))) + " " for l in labels])
    for i, name in enumerate(names[:9]):
        png("photos/" + name.replace("\\", "/"), 20 * i)
write("ConceptsList/Concepts81.txt", CONCEPTS)
write("NUS_WID_Tags/TagList1k.txt", ["tag%d" % t for t in range(TAGS)])
END
python3 make.py || fail 'make.py'

# Imported; the folder is recognized.
for split in train test; do
    expect 0 data import nus --split $split --set features=CH,EDH --out $split.shard --json
    grep -q '"records":[0-9]*8,' out || fail "records: $(cat out)" # 398 and 118: two are incomplete
done
expect 0 data inspect train.shard --verify
has out '398'
expect 0 data import --format nus_wide nus --set features=CH --set keep=all --out all.shard --json
has out '"records":400,.*"classes":4'
expect 0 data import --format nus_wide nus --set features=CH --set keep=single --set vectors=no --out one.shard --json
hasnt out '"records":398,'
# Images in place of features; of those that do not exist any more, the records are left out.
expect 0 data import nus --set images=photos --resize 5x5 --skip-bad --out images.shard --json
has out '"records":7,"skipped":391,'

# A net for both sides, from the shards and from the files.
side() { # NAME FIELD TYPE KEYS
    printf '[layer %s]\ntype = input\nfield = %s\n[layer %s_1]\ntype = %s\nsrc = %s\noutputs = 16\n%b' "$1" "$2" "$1" "$3" "$1" "$4"
    printf '[layer %s_code]\ntype = inner_product\nsrc = %s_1\noutputs = 4\n' "$1" "$1"
    printf '[layer %s_loss]\ntype = softmax_loss\nsrc = %s_code, label\n' "$1" "$1"
}
recipe() { # DATA
    printf '[job]\nname = nus\nbatch = 50\neval_batch = 59\nsteps = 120\n[updater]\ntype = adam\nlr = 0.02\n'
    printf '[data train]\nshuffle = yes\n%b[data test]\n%b' "$1" "$2"
    printf '[layer label]\ntype = input\nfield = label\n'
    side image image inner_product ''
    side text tags embedding_mean 'vocabulary = 40\n'
    printf '[layer distance]\ntype = euclidean_loss\nsrc = image_code, text_code\nweight = 0.02\n'
}
recipe 'format = shard\npaths = train.shard\n' 'format = shard\npaths = test.shard\n' >shard.ini
files='format = nus_wide\npaths = nus\nfeatures = CH, EDH\n'
recipe "$files" "$files" >files.ini
for ini in shard files; do
    expect 0 search map --recipe $ini.ini --train --out $ini --metric cosine --json
    cp out $ini.json
done
cat >check.py <<'END'
import json
a, b = (json.load(open(n + ".json")) for n in ("shard", "files"))
for task in ("i2i", "t2t", "i2t", "t2i"): # chance is 0.46: labels of a pair are shared so often
    assert a["details"][task] == b["details"][task], task
    assert .75 < a[task] <= 1, a
END
python3 check.py || fail "MAP: $(cat shard.json files.json)"
expect 0 check files.ini
has out 'train: nus_wide, 398 records of 25x1x1, 4 classes, tags, tags of 6|train: nus_wide, 398 records of 25x1x1, 4 classes'

# Damage.
cp -r nus bad
printf '0\n7\n' >bad/Groundtruth/TrainTestLabels/Labels_sea_Train.txt
expect 3 data import bad --set features=CH --out bad.shard
has err "Labels_sea_Train.txt:2: value 1 is '7', expected 0 or 1"
[ ! -e bad.shard ] || fail 'a shard of damaged files'
cp nus/Groundtruth/TrainTestLabels/Labels_sea_Test.txt bad/Groundtruth/TrainTestLabels/Labels_sea_Train.txt
expect 3 data import bad --set features=CH --out bad.shard
has err 'Labels_sea_Train.txt: has 120 rows, expected 400, as many as .*TrainImagelist.txt'
rm bad/NUS_WID_Tags/Train_Tags1k.dat
expect 3 data import bad --set features=CH --out bad.shard
has err 'NUS_WID_Tags/Train_Tags1k.dat'
expect 2 data import nus nus --set features=CH --out bad.shard
has err 'paths: 2 names, expected one folder'
