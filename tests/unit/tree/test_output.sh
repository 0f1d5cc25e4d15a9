#!/bin/sh
# ctest-labels: source
# Verbs print by the functions of cli/cli.h, which keep foreign text from a terminal. Those of stdio
# are called there, and where nothing but the program's own tables is printed: help texts.
set -eu
own='src/cli/cli\.c|src/cli/options/options\.c|src/main\.c'

# look ROOT: prints every call of stdio that prints; succeeds when there is none.
look() {
    ! (cd "$1" && find src/cli src/main.c ui -name '*.c' 2>/dev/null | sort |
        xargs grep -nE '(^|[^a-z_])(v?f?printf|v?dprintf|f?puts|f?putc|putchar|fwrite|perror)\(' /dev/null) |
        grep -vE "^($own):"
}

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
mkdir -p "$temporary/src/cli"
touch "$temporary/src/main.c"
printf 'void f(const char *name)\n{\n    printf("%%s\\n", name);\n}\n' >"$temporary/src/cli/stray.c"
if look "$temporary" >/dev/null; then
    echo "a verb that calls printf was accepted" >&2
    exit 1
fi
rm "$temporary/src/cli/stray.c"
printf 'snprintf(a, 9, "%%s", b);\nsw_buf_printf(out, "%%s", b);\n' >"$temporary/src/cli/good.c"
look "$temporary"
look "$SW_SOURCE_DIR"
