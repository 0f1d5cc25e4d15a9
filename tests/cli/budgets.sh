# Small files that would take much memory or time are refused by the keys max_bytes and max_pixels: a
# sentence with file, limit and key, exit code 3, and the key raises the limit.
. "$(dirname "$0")/lib.sh"

# 40 kB that inflate to 40 MB.
head -c 40000000 /dev/zero | tr '\000' 'a' | gzip -9 >"$T/bomb.gz"
expect 3 data inspect --format text --paths "$T/bomb.gz" --set length=8 --set max_bytes=30MB
has err 'bomb\.gz: has more than max_bytes = [0-9]+ bytes, inflated; raise max_bytes'
expect 0 data inspect --format text --paths "$T/bomb.gz" --set length=8 --set max_bytes=40MB
has out '^records +49999'

# The default, against the size that the end of a file promises: 1 GB and a byte.
head -c 40 /dev/zero | gzip | head -c -4 >"$T/large.gz"
printf '\001\312\232\073' >>"$T/large.gz"
expect 3 data inspect --format text --paths "$T/large.gz" --set length=8
has err 'large\.gz: has more than max_bytes = 1000000000 bytes, inflated; raise max_bytes'

# Pictures.
expect 0 data import "$tiny" --encode png --out "$T/png.shard"
expect 0 data inspect "$T/png.shard" --verify
expect 3 data inspect "$T/png.shard" --verify --set max_pixels=143
has err 'PNG of 12x12 .* max_pixels = 143 pixels'
