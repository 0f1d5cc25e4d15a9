# ctest-timeout: 900
# MDNN and DeViSE on Wikipedia's pairs search as well as their recipes say; the thesis has no figures for
# these data.
. "$(dirname "$0")/lib.sh"
needs wikipedia-xmodal/raw_features_with_tfidf1000.mat
export OMP_NUM_THREADS=1 # the layers are too small for a second thread
# searches RECIPE "TASK:FLOOR..." OPTION...
searches() {
    recipe=$1 floors=$2
    shift 2
    "$SW" search map --recipe "$SW_SOURCE_DIR/recipes/$recipe.ini" --train --out "$T/$recipe" --metric cosine --json \
        "$@" >"$T/out" 2>"$T/err" || fail "exit $?"
    for floor in $floors; do
        reaches "$(sed 's/"details".*//; s/.*"'"${floor%:*}"'":\([0-9.]*\),.*/\1/' "$T/out")" "${floor#*:}" \
            "$recipe: MAP ${floor%:*}"
    done
}
searches mdnn-wiki 'i2i:0.158 t2t:0.73 i2t:0.28 t2i:0.23'
searches devise 'i2i:0.155 t2t:0.63 i2t:0.25 t2i:0.2' --images image_code --texts text_code
