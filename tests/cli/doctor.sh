# ctest-timeout: 300
# doctor: findings with what, why and how to fix it; figures saved for the planner; a bad finding is
# exit code 3: a device that corrupts, hangs or is lost, a damaged history.
. "$(dirname "$0")/lib.sh"

expect 0 doctor --quick
has out '^cpu +ok +.*cores'
has out '^disk +(ok|warning) '
has out '^history +ok +.* does not exist yet; the first run creates it'
has out '^fit: 0 bad'
if [ ! -e "$(dirname "$SW")/singa_cuda.so" ] && [ ! -e /dev/nvidiactl ]; then
    has out '^devices +note +this build has no CUDA device: singa_cuda\.so not found .*singa-ws-cuda'
fi
[ -e "$SINGA_DB" ] && fail 'doctor made a history'
[ -e "$T/state/singa-ws/doctor.json" ] && fail 'figures of a quick look were kept'

expect 0 run "$tiny" --out "$T/a" --steps 2 --quiet
expect 0 doctor
has out '^history +ok +.*history\.db: 1 runs'
has out 'node 0: [0-9.]+ [kMGT]flop/s in matrix products, [0-9.]+ [kMGT]B/s from memory'
has out 'writes [0-9.]+ [kMGT]B/s with fsync, reads'
[ -s "$T/state/singa-ws/doctor.json" ] || fail 'the figures were not kept'
ls -A "$T/state/singa-ws" | grep -q '^\.doctor' && fail 'a file to measure with was left'
if have_python; then
    python3 -c 'import json,sys
d = json.load(open(sys.argv[1]))
assert d["fit"] is True and d["host"]
n = d["measured"]["nodes"][0]
assert n["gemm_gflops"] > 0 and n["memory_gb_per_s"] > 0 and n["cores"] >= 1, n
assert d["measured"]["disks"][0]["read_gb_per_s"] > 0
for f in d["findings"]:
    assert f["level"] in ("ok", "note", "warning", "bad") and f["what"] and f["part"], f
    assert f["level"] in ("ok", "note") or (f["why"] and f["fix"]), f' "$T/state/singa-ws/doctor.json" || fail 'doctor.json'
fi

# Figures of a busy machine are reported as such, and do not replace better ones.
sed -i 's/"busy":true/"busy":false/g' "$T/state/singa-ws/doctor.json"
cp "$T/state/singa-ws/doctor.json" "$T/kept.json"
hogs=
for _ in $(seq $(($(nproc) + 1))); do
    (while :; do :; done) &
    hogs="$hogs $!"
done
children="$children $hogs"
if grep -q '^cpu ' /proc/stat 2>/dev/null; then
    expect 0 doctor
    has out '^cpu +note +node 0: .*B/s from memory.*; but the machine is busy: other programs used [0-9.]+ CPUs'
    has err 'are not saved'
    cmp "$T/kept.json" "$T/state/singa-ws/doctor.json" || fail 'figures of a busy machine were kept'
fi
kill $hogs
wait $hogs 2>/dev/null

expect 0 doctor --device sim:gpus=2
has out '^devices +ok +sim:0 to sim:1: [0-9.]+ [kMGT]B/s, [0-9.]+ [num]s, directly$'
has out '^devices +ok +sim:1 to host: [0-9.]+ [kMGT]B/s, [0-9.]+ [num]s$'
has out '^devices +ok +all-reduce over all devices: '
has out '^versions +ok +sums over devices: built into sim|all-reduce backend: .*sim'
has out '^devices +ok +sim:1: .* in matrix products$'
expect 3 doctor --device sim:gpus=2,fault=wrong@4,faulty=0
has out '^devices +bad +sim:0 computes a wrong matrix product: relative error '
has out '^not fit: 1 bad'
expect 3 doctor --device sim:gpus=2,fault=wrong@10 --quiet
has out '^devices +bad +copies from host to sim:1 arrive damaged$'
has out '^ +fix:  '
hasnt out ' ok '
expect 3 doctor --device sim:gpus=1,fault=lost@30
has out '^devices +bad +copies from .* fail: '
expect 3 doctor --device sim:gpus=1,fault=hang@12
has out '^devices +bad +copies from host to sim:0 hang$'
if have_python; then
    expect 3 doctor --device sim:gpus=1,fault=wrong@10 --json
    python3 -c 'import json,sys
d = json.load(open(sys.argv[1]))
assert d["fit"] is False
assert [c["verified"] for c in d["measured"]["copies"]].count(False) == 1, d["measured"]["copies"]' "$T/out" || fail 'doctor --json'
fi
# Runs avoid unsound direct copies, using the stored results.
expect 0 doctor --device sim:gpus=2,peer=corrupt
has out '^devices +warning +copies from sim:0 to sim:1, directly: damaged: a copy of .* (was corrupted|arrived damaged)'
has out '^devices +ok +sim:0 to sim:1: .*, through the host$'
hasnt out 'all-reduce over all'
grep -q '^direct|sim:0 of gpus=2,peer=corrupt|sim:1 .*	damaged	' "$T/state/singa-ws/ways" || fail 'ways were not kept'
expect 0 doctor --device sim:gpus=2,peer=no
has out '^devices +ok +sim:1 to sim:0: .*, through the host$'
expect 2 doctor --device gpu
expect 2 doctor --device sim:gpu=1
expect 2 doctor now

printf 'this is no database, whatever its name says, and long enough to be looked at closely....' >"$T/bad.db"
expect 3 doctor --quick --db "$T/bad.db"
has out '^history +bad +'
head -c 40960 /dev/zero | dd of="$SINGA_DB" bs=4096 seek=3 conv=notrunc 2>/dev/null
rm -f "$SINGA_DB-wal"
expect 3 doctor --quiet --db "$SINGA_DB"
has out '^history +bad +'
