# A RUN in place of a recipe: predict, eval and sample need neither the recipe's file nor the folder where
# the run was made; a checkpoint alone is enough.
. "$(dirname "$0")/lib.sh"

expect 0 run "$tiny" --out "$T/a" --name a --steps 4 --quiet --set data.test.records=40
expect 0 eval "$tiny" --weights a --set data.test.records=40 --json
sed 's/.*"loss":\([^,}]*\).*/\1/' "$T/out" >"$T/loss"
rm "$tiny"

# A name, a number, a folder and a file; with the overrides of the run.
mkdir "$T/elsewhere"
cp "$T/a/checkpoint-4.safetensors" "$T/elsewhere/net.bin"
mv "$T/a" "$T/moved"
for net in "$T/moved" "$T/moved/checkpoint-4.safetensors" "$T/elsewhere/net.bin"; do
    expect 0 eval "$net" --json
    sed 's/.*"loss":\([^,}]*\).*/\1/' "$T/out" | cmp -s - "$T/loss" || fail "another loss with $net"
done
expect 3 eval a
has err 'missing from .*; if its folder was moved, use the path of the folder'
mv "$T/moved" "$T/a"
for net in a 1 a:4 @last; do
    expect 0 eval "$net" --json
    sed 's/.*"loss":\([^,}]*\).*/\1/' "$T/out" | cmp -s - "$T/loss" || fail "another loss with $net"
done
expect 0 predict a --output "$T/y.npy"
has out '^weights +run 1 "a": '
has out "^output +$T/y\.npy: 40x4$"
expect 0 predict a --set data.test.records=9 --weights "$T/elsewhere/net.bin" --output "$T/y.npy"
has out "^output +$T/y\.npy: 9x4$"

# The folder of something else does not hide a run of the same name.
mkdir "$T/here" "$T/here/a"
cd "$T/here" || exit 1
expect 0 eval a
expect 3 eval "$T/here/a"
has err 'no checkpoint-STEP\.safetensors'
expect 3 eval nobody
has err 'nobody'
expect 3 eval nothing.ini
has err 'nothing\.ini'

# A file without a recipe says what to do.
have_python || exit 0
python3 - "$T/bare.safetensors" <<'END' || fail 'no file'
import struct, sys
head = b'{"fc.bias":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
open(sys.argv[1], "wb").write(struct.pack("<Q", len(head)) + head + bytes(4))
END
expect 3 eval "$T/bare.safetensors"
has err 'has no recipe.*use a recipe with --weights FILE'
exit 0
