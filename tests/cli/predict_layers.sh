# ctest-timeout: 120
# Every layer type's output against its closed form: the table is in predict_layers.py.
. "$(dirname "$0")/lib.sh"
have_python || skip 'no python3'
python3 "$SW_SOURCE_DIR/tests/cli/predict_layers.py" "$SW" "$T" || fail 'a layer differs from its closed form'
