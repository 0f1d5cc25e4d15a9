# ctest-timeout: 180
# The recipes that bring images and texts into one space learn, without their data: all four searches on
# generated test pairs are far above chance.
. "$(dirname "$0")/lib.sh"
have_python || skip 'there is no python3'
export SINGA_DATA="$T/none" OMP_NUM_THREADS=1

cat >"$T/check.py" <<'END'
import json, sys
m = json.load(open(sys.argv[1]))
for task, floor in zip(("i2i", "t2t", "i2t", "t2i"), sys.argv[2:]):
    assert float(floor) < m[task] <= 1, m[task]
END
# learns RECIPE I2I T2T I2T T2I OPTION...
learns() {
    recipe=$1 floors="$2 $3 $4 $5"
    shift 5
    expect 0 search map --recipe "$SW_SOURCE_DIR/recipes/$recipe.ini" --train --out "$T/$recipe" --metric cosine \
        --json "$@"
    # shellcheck disable=SC2086
    python3 "$T/check.py" "$T/out" $floors || fail "$recipe: MAP is not above $floors"
}
# Ranks at random have 0.22: half of the pairs have two of ten classes.
learns mdnn 0.8 0.6 0.7 0.7
learns mdnn-wiki 0.95 0.99 0.9 0.9
learns devise 0.5 0.95 0.65 0.6 --images image_code --texts text_code
