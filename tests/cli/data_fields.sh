# Fields of records reach the layers that name them: targets of tables, tokens of texts; parts of one
# file; and sections that do not fit each other are refused.
. "$(dirname "$0")/lib.sh"
cd "$T" || exit 1

# y = 3 a - 2 b + 1 and z = a + b, a table with names.
awk 'BEGIN { print "a,b,y,z,id"
    for (i = 0; i < 400; i++) { a = (i * 7 % 20) / 10 - 1; b = (i * 11 % 30) / 15 - 1
        printf "%g,%g,%g,%g,r%d\n", a, b, 3 * a - 2 * b + 1, a + b, i } }' | gzip >line.csv.gz
cat >line.ini <<INI
[job]
name = line
batch = 20
eval_batch = 30
steps = 300
eval_every = 300
[data train]
format = csv
paths = line.csv.gz
header = yes
target = y, z
ignore = id
part = 0, 0.75
part_seed = 1
shuffle = yes
[data test]
format = csv
paths = line.csv.gz
header = yes
target = y, z
ignore = id
part = 0.75, 1
part_seed = 1
[updater]
type = sgd
lr = 0.1
[layer image]
type = input
field = image
[layer target]
type = input
field = target
[layer fc]
type = inner_product
src = image
outputs = 2
[layer loss]
type = euclidean_loss
src = fc, target
INI
expect 0 check line.ini
has out '^data +train: csv, 300 of 400 records of 2x1x1, target of 2, line.csv.gz$'
has out '^data +test: csv, 100 of 400 records of 2x1x1, target of 2, '
expect 0 run line.ini --out "$T/run" --json
has out '"type":"eval".*"loss":[0-9.]*e-(0[6-9]|[1-9][0-9])'

expect 2 check line.ini --set data.train.target=yy
has err 'target = yy: no such column; did you mean y\?'
expect 2 check line.ini --set data.train.target=price
has err 'target = price: no such column; the file has a, b, y, z, id$'

# What a table may not hold, and what to do about it.
gunzip -c line.csv.gz >line.csv
tr , ';' <line.csv >semicolons.csv
expect 2 check line.ini --set data.train.paths=semicolons.csv
has err "ignore = id: no such column; the only column is 'a;b;y;z;id': set separator = semicolon"
expect 3 check line.ini --set data.train.paths=line.csv --set data.train.ignore=a
has err "line 2, record 0, column 5 \(id\): 'r0', expected a number .*: write words as numbers, or leave the column out with ignore = id$"
for missing in '' NaN; do
    sed "3s/[^,]*,/$missing,/" line.csv >missing.csv
    expect 3 check line.ini --set data.train.paths=missing.csv
    has err "line 3, record 1, column 1 \(a\): '$missing', .*; missing values are not supported: fill them in, remove the row, or leave the column out with ignore = a$"
done
expect 3 check line.ini --set data.train.paths=line.csv --set data.train.header=no \
    --set data.train.target=3,4 --set data.train.ignore=5
has err "column 1: 'a', expected a number .*: if this is a header, set header = yes or skip_lines, or leave the column out with ignore = 1$"

# A new table may lack the column that is ignored; the targets are the last two.
cut -d, -f1-4 line.csv >new.csv
expect 0 eval line --data line.csv --json
sed 's/.*"loss":\([^,}]*\).*/\1/' out >all
expect 0 eval line --data new.csv --json
[ "$(sed 's/.*"loss":\([^,}]*\).*/\1/' out)" = "$(cat all)" ] || fail 'another loss without the column id'
expect 2 eval line --data new.csv --set data.test.target=y,zz
has err 'target = zz: no such column'
expect 2 check line.ini --set data.train.part=0,500
has err 'part = 0, 500: expected two fractions'
expect 2 check line.ini --set data.train.part=0.5
has err 'part: 1 values, expected two'
sed 's/^field = target/field = label/' line.ini >no-label.ini
expect 2 check no-label.ini
has err 'field = label: the data source has no such field'
gunzip -c line.csv.gz | sed 's/^\(.*\),r7$/\1,x,r7/' >bad.csv
expect 3 check line.ini --set data.test.paths=bad.csv
has err 'bad.csv: line 9, record 7: 6 columns, expected 5'

# A periodic text is learned completely.
awk 'BEGIN { for (i = 0; i < 300; i++) printf "the cat sat; " }' >cat.txt
cat >cat.ini <<INI
[job]
name = cat
batch = 16
eval_batch = 16
steps = 200
eval_every = 200
[data train]
format = text
paths = cat.txt
length = 4
stride = 1
shuffle = yes
[data test]
format = text
paths = cat.txt
length = 4
stride = 3
[updater]
type = sgd
lr = 0.5
[layer tokens]
type = input
field = tokens
[layer label]
type = input
field = label
[layer embed]
type = embedding
src = tokens
vocabulary = 8
outputs = 8
weight.init = gaussian
weight.std = 0.5
[layer fc]
type = inner_product
src = embed
outputs = 8
weight.init = xavier
[layer loss]
type = softmax_loss
src = fc, label
[layer accuracy]
type = accuracy
src = fc, label
include = eval
INI
expect 0 check cat.ini
has out '^tokens +input +16x4$'
has out '^data +train: text, 3896 records, 8 classes, tokens of 4, target of 4, cat.txt$'
expect 0 run cat.ini --out "$T/run2" --json
has out '"type":"eval".*"accuracy":1[,}]'

expect 2 check cat.ini --set data.train.streams=16
has err 'streams = 16 requires shuffle = no'
expect 2 check cat.ini --set data.train.streams=8 --set data.train.shuffle=no
has err 'streams = 8, but job.batch = 16: they must be equal, because each row of a batch reads one stream'
expect 0 check cat.ini --set data.train.streams=16 --set data.train.shuffle=no
has out '3888 of 3896 records'
printf 'the dog sat; the dog sat' >dog.txt
expect 2 check cat.ini --set data.test.paths=dog.txt
has err 'its 10 classes or tokens differ from the 8 of data train'
expect 3 check cat.ini --set data.test.paths=dog.txt --set data.test.vocabulary_from=cat.txt
has err "dog.txt: 'd' before byte 5 is not in the vocabulary"

# If the text is missing, synthetic text of the same kind replaces it.
sed 's/paths = cat.txt/paths = none.txt\nfallback = synthetic/' cat.ini >none.ini
cat >>none.ini <<'INI'
[fallback]
data.train.classes = 8
data.train.length = 4
data.test.classes = 8
data.test.length = 4
INI
expect 0 check none.ini
has out '^data +train: synthetic, 10000 records, 8 classes, tokens of 4, target of 4, generated data$'
expect 0 run none.ini --out "$T/run3" --steps 300 --json
# The last token predicts every second token.
has out '"type":"eval".*"accuracy":0\.[45]'
