# search words: near words, analogies and files of questions with vectors whose answers are known, from
# word2vec's text, an array and a checkpoint; exports are read again; wrong words and damaged files are
# refused with what was expected.
. "$(dirname "$0")/lib.sh"
have_python || skip 'there is no python3'

cd "$T" || exit 1
cat >few.txt <<'END'
7 3
man 2 0 0
woman 0 5 0
king 1 0 2
queen 0 1 2
ruler 2 0 4
apple 0 0 -1
nothing 0 0 0
END

# Nearest: cosines by hand; equal ones by row.
expect 0 search words few.txt nearest king -k 3
printf 'word  neighbor  cosine\nking  ruler     1.0000\nking  queen     0.8000\nking  man       0.4472\n' >want
cmp -s out want || fail 'the neighbors of king'
expect 0 search words few.txt nearest King apple --neighbors 1 # also in lower case
printf 'word   neighbor  cosine\nking   ruler     1.0000\napple  man       0.0000\n' >want
cmp -s out want || fail 'the neighbors of two words'
cp want want2
expect 0 search words few.txt nearest king # as many as there are
[ "$(wc -l <out)" = 7 ] || fail 'not all other words'

# The same in the other formats: of GloVe, and of word2vec in binary, with line ends and without, as .gz.
sed 1d few.txt >glove.txt
python3 - <<'END' || fail 'no binary files'
import gzip, struct
head, *rows = open("few.txt").read().splitlines()
for name, end in ("few.bin", b"\n"), ("few.bin.gz", b""):
    with (gzip.open if name.endswith("gz") else open)(name, "wb") as f:
        f.write(head.encode() + b"\n")
        for row in rows:
            word, *numbers = row.split()
            f.write(word.encode() + b" " + struct.pack("<3f", *map(float, numbers)) + end)
END
for other in glove.txt few.bin few.bin.gz; do
    expect 0 search words $other nearest King apple -k 1
    cmp -s out want2 || fail "other neighbors from $other"
done
expect 0 search words few.bin export --word2vec again.txt
cmp -s again.txt few.txt || fail 'binary vectors exported as text'

expect 0 search words few.txt analogy man king woman -k 1
printf 'neighbor  cosine\nqueen     0.8595\n' >want
cmp -s out want || fail 'man is to king as woman is to queen'
expect 0 search words few.txt analogy WOMAN queen man -k 2 --json
python3 -c 'import json; r = json.load(open("out")); q, = r["queries"]; n = q["neighbors"]
exit(not (r["words"] == 7 and r["dimensions"] == 3 and q["query"] == ["woman", "queen", "man"] and
          [x["word"] for x in n] == ["king", "ruler"] and [x["row"] for x in n] == [2, 4] and
          abs(n[0]["cosine"] - n[1]["cosine"]) < 1e-6))' || fail 'JSON of an analogy'

# Questions: the second of the first section has a wrong answer, and one word is unknown; the vector of a
# word of the second section is zero; of the last no word is known.
cat >questions.txt <<'END'
: family
man king woman queen
man king woman apple
man king woman empress

: gram1-of-nothing
Woman Queen Man King
man king nothing queen
: gram2-unknown
a b c d
END
expect 0 search words few.txt questions questions.txt
cat >want <<'END'
section           questions  covered  correct  accuracy
family                    3        2        1    0.5000
gram1-of-nothing          2        1        1    1.0000
gram2-unknown             1        0        0        --
semantic                  3        2        1    0.5000
syntactic                 3        1        1    1.0000
total                     6        3        2    0.6667
END
cmp -s out want || fail 'the table of questions'
expect 0 search words few.txt questions questions.txt --json
python3 -c 'import json; r = json.load(open("out")); s = r["sections"]
exit(not (r["total"]["correct"] == 2 and r["syntactic"]["accuracy"] == 1 and s[2]["accuracy"] is None and
          s[1]["name"] == "gram1-of-nothing" and s[1]["syntactic"] and not s[0]["syntactic"]))' || fail 'JSON of questions'

# Beside comparing every word, of many random words.
cat >many.py <<'END'
import math, random
r = random.Random(4)
v = [[r.gauss(0, 1) for d in range(6)] for w in range(90)]
with open("many.txt", "w") as f:
    f.write("90 6\n" + "".join("w%d %s\n" % (i, " ".join(map(repr, x))) for i, x in enumerate(v)))
unit = [[x / math.sqrt(sum(y * y for y in row)) for x in row] for row in v]
right = 0
with open("many.questions", "w") as f:
    f.write(": random\n")
    for n in range(400):
        a, b, c = (r.randrange(90) for i in range(3))
        q = [y - x + z for x, y, z in zip(unit[a], unit[b], unit[c])]
        d = max((i for i in range(90) if i not in (a, b, c)), key=lambda i: sum(x * y for x, y in zip(q, unit[i])))
        if n % 4 == 0:
            d = (d + 1) % 90
        right += n % 4 != 0
        f.write("w%d w%d w%d w%d\n" % (a, b, c, d))
print("random 400 400 %d %.4f" % (right, right / 400))
END
python3 many.py >want
for threads in 1 3; do
    expect 0 search words many.txt questions many.questions --threads $threads
    grep '^random' out | tr -s ' ' >got
    cmp -s got want || fail "other answers than by comparing all, $threads threads"
done

# Exports are read again, to the same answers.
expect 0 search words many.txt nearest w5 w77 -k 20
mv out want
expect 0 search words many.txt export --npy many.npy --vocabulary many.words --word2vec again.txt
has out '^90 words, 6 dimensions$'
[ "$(head -n 1 again.txt)" = '90 6' ] && [ "$(sed -n 90p many.words)" = w89 ] || fail 'exported files'
expect 0 search words again.txt nearest w5 w77 -k 20
cmp -s out want || fail 'other neighbors by exported text'
expect 0 search words many.npy --vocabulary many.words nearest w5 w77 -k 20
cmp -s out want || fail 'other neighbors by the exported array'
gzip -c again.txt >again.gz
expect 0 search words again.gz nearest w5 w77 -k 20
cmp -s out want || fail 'other neighbors by a .gz'

# A checkpoint: the vectors of its first embedding, of the words of its text; the table has rows to spare.
export OMP_NUM_THREADS=1
awk 'BEGIN { s = 7; for (i = 0; i < 400; i++) { s = (s * 75 + 74) % 65537; printf "the w%d sees w%d\n", s % 13, s % 5 } }' >text
cat >words.ini <<'END'
[job]
name = words
batch = 8
steps = 3
[data train]
format = text
paths = text
unit = words
length = 4
[updater]
type = sgd
lr = 0.1
[layer tokens]
type = input
field = tokens
[layer label]
type = input
field = label
[layer code]
type = embedding
src = tokens
vocabulary = 20
outputs = 5
[layer scores]
type = inner_product
src = code
outputs = 20
[layer loss]
type = softmax_loss
src = scores, label
END
expect 0 run words.ini --quiet --out run
expect 0 weights words export --output arrays
cat >rows.py <<'END'
import struct, subprocess, sys
with open("arrays/code.weight.npy", "rb") as f:
    head = f.read(10)
    f.read(struct.unpack("<H", head[8:])[0])
    v = struct.unpack("<100f", f.read(400))
rows = [line.split() for line in open("run.txt")]
assert rows[0] == ["15", "5"] and len(rows) == 16, rows[0]
assert {r[0] for r in rows[1:]} == {"the", "sees"} | {"w%d" % i for i in range(13)}
for i, r in enumerate(rows[1:]):
    assert tuple(struct.unpack("<5f", struct.pack("<5f", *map(float, r[1:])))) == v[5 * i:5 * i + 5], i
END
expect 0 search words words export --word2vec run.txt --quiet
[ -s out ] && fail 'quiet prints'
python3 rows.py || fail 'the vectors of a run'
expect 0 search words run.txt nearest w3
mv out want
for vectors in words @last run; do
    expect 0 search words $vectors nearest w3
    cmp -s out want || fail "other neighbors by $vectors"
done
expect 0 search words words --tensor code.weight nearest w3
cmp -s out want || fail 'other neighbors by --tensor'
expect 0 weights words export --output bare.safetensors # no words, no recipe
sed '1d; s/ .*//' run.txt >run.words
expect 0 search words bare.safetensors --tensor code.weight --vocabulary run.words nearest w3
cmp -s out want || fail 'other neighbors by a list of words'

# Refused.
expect 3 search words few.txt nearest kin
has err "few.txt: 'kin' is not among its 7 words; did you mean 'king'\?$"
expect 3 search words many.txt nearest w91
has err "'w91' is not among its 90 words; did you mean 'w1', 'w9' or 'w11'\?$"
expect 3 search words few.txt nearest zebra
has err "'zebra' is not among its 7 words$"
expect 3 search words few.txt analogy man nothing woman
has err "few.txt: the vector of 'nothing' is zero"
expect 2 search words few.txt nearest king -k 7
has err 'neighbors=7: few.txt has 6 other words'
expect 2 search words few.txt nearst king
has err "unknown action 'nearst'; did you mean 'nearest'"
expect 2 search words nearest few.txt
has err 'VECTORS come first: singa-ws search words few.txt nearest'
expect 2 search words few.txt analogy man king
has err 'analogy takes A B C'
expect 2 search words few.txt export
has err 'export takes --npy=V.npy or --word2vec=FILE'
expect 2 search words few.txt nearest king --word2vec x
has err '--word2vec is only for export'
expect 2 search words few.txt questions questions.txt -k 3
expect 2 search words few.txt --vocabulary run.words nearest king
has err 'few.txt: has its own words'
expect 2 search words many.npy nearest w3
has err 'many.npy: has no words of its own; .*--vocabulary=FILE'
expect 3 search words many.npy --vocabulary run.words nearest w3
has err 'run.words: 15 words, expected 90 as many.npy has vectors'
expect 2 search words few.txt --tensor x nearest king
expect 2 search words words.ini nearest w3
has err 'words.ini: a recipe has no vectors; name a run of it'
expect 2 search words bare.safetensors nearest w3
has err 'bare.safetensors: has no recipe; name its vectors by --tensor=NAME'
expect 3 search words words --tensor loss.weight nearest w3
has err 'has no tensor loss.weight; `singa-ws weights` lists'
expect 3 search words words --tensor scores.bias nearest w3
has err 'scores.bias has type F32, 1 dimensions and 20 rows, expected F32, 2 dimensions'
python3 -c 'import struct
head = b"""{"v":{"dtype":"F32","shape":[15,2],"data_offsets":[0,120]}}"""
open("nan.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + struct.pack("<30f", *[1] * 7, float("nan"), *[1] * 22))'
expect 3 search words nan.safetensors --tensor v --vocabulary run.words nearest w3
has err 'nan.safetensors: v: row 3 has an element that is not finite'
head -c 150 nan.safetensors >cut.safetensors
expect 3 search words cut.safetensors --tensor v --vocabulary run.words nearest w3
echo w3 >>run.words
expect 3 search words nan.safetensors --tensor v --vocabulary run.words nearest w3
has err 'run.words: line 16: duplicate of the token in line'
expect 0 run "$tiny" --quiet --out pictures --steps 1
expect 2 search words pictures nearest w3
has err 'no embedding layer; name the vectors'
expect 3 search words missing nearest w3
head -n 5 few.txt >cut.txt
expect 3 search words cut.txt nearest king
has err 'cut.txt: ends after 4 words, expected 7 as line 1 says: the file is truncated'
sed 's/king 1 0 2/king 1 nan 2/' few.txt >nan.txt
expect 3 search words nan.txt nearest man
has err "nan.txt:4: number 2 is 'nan', expected a finite number"
sed 's/man 2 0 0/man two/' few.txt | sed 1d >glove.txt
expect 3 search words glove.txt nearest man
has err "glove.txt:1: number 1 is 'two', expected a finite number"
: >empty.txt
expect 3 search words empty.txt nearest man
has err 'empty.txt: empty, expected vectors of words'

refuses_questions() { # CODE PATTERN TEXT
    printf "$3" >bad.questions
    expect "$1" search words few.txt questions bad.questions
    has err "$2"
}
refuses_questions 3 'bad.questions: has no questions' ''
refuses_questions 3 'bad.questions: has no questions' ': family\n'
refuses_questions 3 "bad.questions:1: a question before any section, expected ': NAME' first" 'a b c d\n'
refuses_questions 3 'bad.questions:2: 3 words, expected 4, as in' ': x\nman king woman\n'
refuses_questions 3 "bad.questions:1: ':' and no name" ':\n'
refuses_questions 2 'bad.questions: of no question do all four words have vectors, of 1' ': x\na b c d\n'
exit 0
