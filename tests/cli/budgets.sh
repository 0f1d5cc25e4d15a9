# Small files that would need much memory or time are refused by max_bytes and max_pixels: the message
# has file, limit and key, the exit code is 3, and the key raises the limit.
. "$(dirname "$0")/lib.sh"

# 40 kB that inflate to 40 MB.
head -c 40000000 /dev/zero | tr '\000' 'a' | gzip -9 >"$T/bomb.gz"
expect 3 data inspect --format text --paths "$T/bomb.gz" --set length=8 --set max_bytes=30MB
has err 'bomb\.gz: has more than max_bytes = [0-9]+ bytes, inflated; raise max_bytes'
expect 0 data inspect --format text --paths "$T/bomb.gz" --set length=8 --set max_bytes=40MB
has out '^records +49999'

# The default limit, with a file whose trailer claims 1 GB and a byte.
head -c 40 /dev/zero | gzip | head -c -4 >"$T/large.gz"
printf '\001\312\232\073' >>"$T/large.gz"
expect 3 data inspect --format text --paths "$T/large.gz" --set length=8
has err 'large\.gz: has more than max_bytes = 1000000000 bytes, inflated; raise max_bytes'

# Images.
expect 0 data import "$tiny" --encode png --out "$T/png.shard"
expect 0 data inspect "$T/png.shard" --verify
expect 3 data inspect "$T/png.shard" --verify --set max_pixels=143
has err 'PNG of 12x12 .* max_pixels = 143 pixels'
