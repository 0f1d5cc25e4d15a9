# ctest-timeout: 120
# singa-ws data: imported records equal the original, a net trains identically on them, and an import
# that is stopped, killed or out of disk space leaves only complete files.
. "$(dirname "$0")/lib.sh"

# An import of the tiny recipe's training set, and the same training from it.
expect 0 data import "$tiny" --out "$T/train.shard"
has out '^records +200$'
has out '^classes +4$'
has out "^file +$T/train.shard$"
expect 0 run "$tiny" --steps 5 --json --set job.display_every=1 --out "$T/a"
grep -o '"step":5,.*"loss":[0-9.e-]*' "$T/out" | grep -o '"loss":.*' >"$T/loss-a"
[ -s "$T/loss-a" ] || fail 'there is no loss'
expect 0 run "$tiny" --steps 5 --json --set job.display_every=1 --out "$T/b" \
    --set data.train.format=shard --set data.train.paths="$T/train.shard"
grep -o '"step":5,.*"loss":[0-9.e-]*' "$T/out" | grep -o '"loss":.*' >"$T/loss-b"
cmp -s "$T/loss-a" "$T/loss-b" || fail 'another loss from the shard'

# Inspect a recipe, and a file whose format is detected from its content.
expect 0 data inspect "$tiny" --split test
has out '^format +synthetic$'
has out '^records +50 of 436 bytes$'
expect 0 data inspect "$T/train.shard" --verify
has out '^format +shard$'
has out '^origin +synthetic: generated data$'
has out '^fields +image, u8 3x12x12$'
has out '^verified +200 records, .*all are good$'
expect 0 data inspect "$T/train.shard" --record 3 --json
has out '"records":200,"classes":4,"files":1'
has out '"first":\[\{"record":3,"image":\[[0-9]'
expect 2 data inspect "$T/train.shard" --record 200
has err 'must be from 0 to 199'

# Several shards of a given size; part of the records; a second import does not mix with the first.
expect 0 data import --format synthetic --set records=100 --set part=0,0.5 --out "$T/set.shard" \
    --shard-size 64kB --json
has out '"records":50,"skipped":0,"classes":10,'
has out "\"first\":\"$T/set-00000.shard\",\"last\":\"$T/set-00002.shard\""
expect 0 data inspect "$T"/set-*.shard
has out '^records +50 of [0-9]+ bytes$'
expect 2 data import --format synthetic --out "$T/set.shard" --shard-size 64kB
has err 'set-00000.shard already exists'

# Damaged records are reported; --skip-bad skips them.
cp "$T/train.shard" "$T/bad.shard"
printf 'x' | dd of="$T/bad.shard" bs=1 seek=2000 conv=notrunc 2>/dev/null
expect 3 data inspect "$T/bad.shard" --verify
has err 'bad.shard: record [0-9]+ is damaged: checksum'
has out '1 are bad$'
expect 3 data import "$T/bad.shard" --out "$T/good.shard"
[ ! -e "$T/good.shard" ] || fail 'an import that failed left a file'
expect 0 data import "$T/bad.shard" --skip-bad --out "$T/good.shard"
has err 'skipped: record [0-9]+ '
has out '^records +199$'
has out '^skipped +1 '
head -c 5000 "$T/train.shard" >"$T/cut.shard"
expect 3 data inspect "$T/cut.shard"
has err 'cut.shard: has 5000 bytes, expected [0-9]+: the file is truncated'

# data stats, and the files that a section reads.
expect 0 data stats "$T/train.shard" --out "$T/mean.npy"
has out '^records +200$'
has out '^image +channel 0: mean [0-9.]+, std [0-9.]+, [0-9]+ to [0-9]+$'
has out '^classes +4, of [0-9]+ to [0-9]+ records$'
has out '^mean = [0-9.]+, [0-9.]+, [0-9.]+$'
has out "^mean_image = $T/mean.npy$"
sed '/^mean = /d' "$tiny" >"$T/no-mean.ini"
expect 0 run "$T/no-mean.ini" --steps 2 --out "$T/c" --set data.train.mean_image="$T/mean.npy"
expect 0 data stats "$tiny" --json
has out '"records":200,"classes":4,"class_counts":\[[0-9]+,[0-9]+,[0-9]+,[0-9]+\],'
expect 0 data stats "$tiny" --zca --epsilon 0.1 --out "$T/zca.safetensors"
has out "^whiten = $T/zca.safetensors$"
expect 0 run "$tiny" --steps 2 --out "$T/d" --set data.train.whiten="$T/zca.safetensors"
expect 2 data stats "$tiny" --zca --out "$T/zca.npy"
has err 'unsupported suffix, expected .safetensors'
expect 2 data stats "$tiny" --zca --out "$T/z.safetensors" --epsilon 0
has err 'E must be above 0'

# --resize and --encode.
expect 0 data import "$tiny" --resize 6x8 --out "$T/small.shard"
expect 0 data inspect "$T/small.shard" --verify
has out '^fields +image, u8 3x6x8$'
expect 0 data import "$tiny" --resize 6 --encode png --out "$T/small.shard"
expect 0 data inspect "$T/small.shard" --verify
has out '^fields +image, u8 3xanyxany, an image$'
expect 0 data inspect "$T/small.shard"
has out '^  image +PNG, 3x6x6, [0-9]+ bytes$'
expect 2 data import "$tiny" --resize 6x --out "$T/small.shard"
has err 'must be a side or HEIGHTxWIDTH of 1 to 65535'
expect 2 data import "$tiny" --encode jpeg:101 --out "$T/small.shard"
has err 'jpeg:1 to jpeg:100'

# Wrong usage.
expect 2 data
has err 'SUB-VERB is missing'
expect 2 data inspct x
has err "did you mean 'inspect'"
expect 2 data import "$tiny"
has err '--out=FILE is missing'
expect 2 data import "$tiny" --out "$T/x" --shard-size 1
has err 'SIZE must be 4096 bytes or more'
expect 2 data import "$tiny" --format idx --out "$T/x"
has err 'is a recipe'
expect 2 data import "$tiny" --split tets --out "$T/x"
has err "did you mean 'test'"
expect 2 data import --format idx --paths "$T/x" --out "$T/x"
has err 'labels is missing'
expect 2 data inspect
has err 'RECIPE or FILE is missing'
expect 3 data import "$SW_SOURCE_DIR/recipes/lenet.ini" --out "$T/x"
has err 'none of its files \(format idx\) exists; set SINGA_DATA to their folder'
expect 3 data inspect "$T/none.shard"
has err 'none.shard: No such file'
echo 'who knows' >"$T/what"
expect 2 data inspect "$T/what"
has err 'unknown format; use --format=FORMAT'
expect 3 data import --format synthetic --out "$T/no/such/folder.shard"
expect 0 data --help
has out '^  import '
expect 0 data import --help
has out '^ +--shard-size=SIZE'

# AlexNet reads ImageNet from shards if they exist, else synthetic images.
mkdir -p "$T/data/imagenet"
for split in train val; do
    expect 0 data import --format synthetic --set records=8 --set height=40 --set width=50 \
        --out "$T/data/imagenet/$split.shard" --shard-size 32kB
done
expect 0 check "$SW_SOURCE_DIR/recipes/alexnet.ini"
has out '100 steps of 32 samples'
has out 'data +train: synthetic, 100000 records'
export SINGA_DATA="$T/data"
expect 0 check "$SW_SOURCE_DIR/recipes/alexnet.ini" --set job.batch=8
unset SINGA_DATA
has out '450000 steps of 8 samples'
has out 'data +train: shard, 8 records'
has out 'data +test: shard, 8 records'

# Stopped or killed: the old file remains, and after a kill also the unfinished one, but no others.
big="--format synthetic --set records=5000000 --set height=64 --set width=64"
cp "$T/train.shard" "$T/old.shard"
# shellcheck disable=SC2086
start data import $big --out "$T/old.shard"
until_true 10 sh -c "ls '$T'/old.shard.tmp-* >/dev/null 2>&1"
kill -INT "$pid"
ended 130
has err 'stopped after [0-9]+ of 5000000 records'
cmp -s "$T/train.shard" "$T/old.shard" || fail 'a stopped import changed the old file'
[ -z "$(ls "$T"/old.shard.tmp-* 2>/dev/null)" ] || fail 'a stopped import left its file'
# shellcheck disable=SC2086
start data import $big --out "$T/kill.shard" --shard-size 8MB
until_true 10 test -e "$T/kill-00001.shard"
kill -9 "$pid"
wait "$pid" 2>/dev/null
rm -f "$T"/kill-*.tmp-*
expect 0 data inspect "$T"/kill-*.shard --verify --quiet
has out 'all are good'

# A full disk.
[ "$(id -u)" = 0 ] || skip 'the rest: only root may mount a small disk'
mkdir "$T/disk"
mount -t tmpfs -o size=4m tmpfs "$T/disk" 2>/dev/null || skip 'the rest: mounting is not allowed'
mounted=$T/disk
# shellcheck disable=SC2086
expect 1 data import $big --out "$T/disk/x.shard" --shard-size 1MB
has err 'No space left'
has err '[234] complete files kept, '
[ -z "$(ls "$T"/disk/*.tmp-* 2>/dev/null)" ] || fail 'a full disk left an unfinished file'
expect 0 data inspect "$T"/disk/x-*.shard --verify
has out 'all are good'
