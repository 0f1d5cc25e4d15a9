# ctest-timeout: 900
# Multi-modal auto-encoders of Wikipedia's pairs search about as well as the thesis reports (Table 5.4:
# 0.162, 0.462, 0.182, 0.179; image to image varies by 0.002 with the seed).
. "$(dirname "$0")/lib.sh"
needs wikipedia-xmodal/raw_features_with_tfidf1000.mat
export OMP_NUM_THREADS=1 # the layers are too small for a second thread
"$SW" search map --recipe "$SW_SOURCE_DIR/recipes/msae.ini" --train --out "$T/run" --json >"$T/out" 2>"$T/err" ||
    fail "exit $?"
for floor in i2i:0.16 t2t:0.51 i2t:0.25 t2i:0.195; do
    reaches "$(sed 's/"details".*//; s/.*"'"${floor%:*}"'":\([0-9.]*\),.*/\1/' "$T/out")" "${floor#*:}" "MAP ${floor%:*}"
done
