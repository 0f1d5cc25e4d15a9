#!/bin/sh
# ctest-timeout: 120
# --device cuda with something missing: exit 3, and a message that names it. Incompatible modules are
# refused before any of their functions is called. Needs no GPU.
. "$(dirname "$0")/lib.sh"

[ -z "${SINGA_SANITIZE:-}" ] || skip "planted modules are not built with sanitizers"

# planted NAME: builds a fake module from C source on stdin.
planted() {
    $CC -std=c17 -D_GNU_SOURCE -I"$SW_SOURCE_DIR/src" -I"$SW_SOURCE_DIR" -shared -fPIC -x c - \
        -o "$T/$1.so" || fail "$1 does not compile"
}
# refused NAME PATTERN: with that module nothing runs, and the message says why.
refused() {
    SINGA_CUDA_MODULE="$T/$1.so" expect 3 run "$tiny" --device cuda
    has err "$2"
    [ "$(wc -l <"$T/err")" = 1 ] || fail "$1 is told in more than one line"
}

refused missing 'SINGA_CUDA_MODULE names .*/missing.so, which cannot be read'

echo 'no library' >"$T/text.so"
refused text 'cannot be loaded|no NVIDIA driver'

planted empty </dev/null
refused empty 'empty.so is not a CUDA device of singa-ws'

planted other_abi <<'C'
struct { unsigned abi, table_bytes; } sw_cuda_module = {9999, 8};
C
refused other_abi 'other_abi.so has interface 9999, this program needs [0-9]+: install both from one build'

planted other_tables <<'C'
#include "device/cuda/cuda_module.h"
const struct sw_cuda_module sw_cuda_module = {.abi = SW_CUDA_ABI, .table_bytes = SW_CUDA_TABLE_BYTES + 8};
C
refused other_tables 'built from different sources'

planted no_gpu <<'C'
#include "device/cuda/cuda_module.h"
#include <string.h>
static int count(int *out, struct sw_err *err)
{
    (void)out;
    err->code = SW_ERR_NOTFOUND;
    strcpy(err->text, "there is no CUDA device: planted");
    return SW_ERR_NOTFOUND;
}
const struct sw_cuda_module sw_cuda_module = {
    .abi = SW_CUDA_ABI, .table_bytes = SW_CUDA_TABLE_BYTES, .count = count};
C
refused no_gpu 'no CUDA device: planted|no NVIDIA driver'

# A run that cannot begin creates no files.
[ ! -e "$XDG_STATE_HOME/singa-ws/runs" ] || fail "a run folder was made"

# On any machine: without a GPU the program names what is missing.
if [ ! -e /dev/nvidiactl ]; then
    unset SINGA_CUDA_MODULE
    for verb in "check $tiny" "run $tiny" "topo $tiny" "doctor --quick"; do
        # shellcheck disable=SC2086
        expect 3 $verb --device cuda
        has err 'no NVIDIA driver|no CUDA device|has no CUDA device'
    done
    expect 0 topo
    has out 'no CUDA device|GPU'
fi

for device in cuda:zero cuda: cuda:0, cuda:,0 cuda:0,,1; do
    expect 2 run "$tiny" --device $device
    has err 'GPU numbers, as in cuda:0,2'
done
