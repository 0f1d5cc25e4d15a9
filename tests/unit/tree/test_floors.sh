#!/bin/sh
# ctest-labels: source
# ctest-timeout: 60
# The rooms of src/ stand on floors, and an #include goes down only; each third-party library is
# included in one room. A function is defined in the room whose header declares it, so calls go the
# way of includes. A device is known by its name in its own folder only. The offending line is named
# as file:line. The checkers first have to find the faults of a planted tree, so that they cannot
# pass by looking at nothing.
set -eu

# look ROOT: prints every offence below ROOT; fails when there is one.
look() {
    (cd "$1" && find $(ls -d src kernels ui 2>/dev/null) \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) \
        -exec awk '
    function offence(why) {
        sub(/^[ \t]*/, "")
        printf "%s:%d: %s: %s\n", FILENAME, FNR, $0, why
        found = 1
    }
    # The room of a path below the root, or of a name in an #include "...".
    function room_of(path,   part, count) {
        count = split(path, part, "/")
        if (part[1] == "src")
            return count == 2 ? "main.c" : part[2]
        return part[1]
    }
    function home(headers, folders) {
        homes++
        of[homes] = "^(" headers ")"
        at[homes] = folders
    }
    BEGIN {
        floors = "base thread kernels:device history recipe:tensor machine:data optim search ui:" \
                 "layers exchange:net:plan:worker planner:checkpoint monitor:run:infer:cli:main.c"
        count = split(floors, floor, ":")
        for (i = 1; i <= count; i++) {
            rooms = split(floor[i], room, " ")
            for (j = 1; j <= rooms; j++)
                height[room[j]] = i
        }
        # Arrows inside a floor: everything answers with struct sw_err, and the log has a lock.
        level["thread", "base"] = level["kernels", "base"] = level["base", "thread"] = 1
        # Arrows that would go down, but that a room has no use for.
        never["layers", "thread"] = never["layers", "machine"] = 1
        count = split("layers exchange net plan worker planner checkpoint monitor", floor, " ")
        for (i = 1; i <= count; i++)
            never[floor[i], "search"] = 1
        never["ui", "thread"] = never["ui", "kernels"] = never["ui", "device"] = 1
        never["layers", "ui"] = never["net", "ui"] = never["plan", "ui"] = 1
        never["worker", "ui"] = never["run", "ui"] = never["infer", "ui"] = 1
        home("pthread[.]h|semaphore[.]h|threads[.]h", "src/thread")
        home("sqlite3", "src/history")
        home("hwloc|nvml", "src/machine")
        home("dnnl|oneapi/|cblas|openblas|f77blas", "src/device/cpu")
        home("omp[.]h", "src/device/cpu|kernels/cpu")
        home("cu(da|dnn|blas|rand|fft)|nccl", "src/device/cuda|kernels/cuda")
        home("xxh", "src/base")
        home("zlib", "src/data")
        home("jpeglib|jerror[.]h|turbojpeg|png[.]h", "src/data")
        home("lmdb", "src/data/formats")
        home("openssl/", "src/exchange/hosts")
         home("mpi[.]h", "src/exchange/hosts")
        home("n?curses|cairo", "ui")
    }
    /^[ \t]*#[ \t]*include/ {
        name = $0
        sub(/^[^<"]*[<"]/, "", name)
        sub(/[>"].*/, "", name)
        for (i = 1; i <= homes; i++)
            if (name ~ of[i] && FILENAME !~ "^(" at[i] ")/")
                offence("this library is included in " at[i] " only")
        if ($0 !~ /"/)
            next
        from = room_of(FILENAME)
        to = room_of(name)
        if (name !~ /\// || !(to in height))
            offence("write \"room/file.h\" with a room of src/")
        else if (from == to)
            next
        else if ((from, to) in never || (height[from] <= height[to] && !((from, to) in level)))
            offence(from " does not stand above " to)
    }
    END { exit found }' {} +)
}

# owners ROOT: prints every function that is defined in another room than its header; fails when
# there is one.
owners() {
    (cd "$1" && find $(ls -d src kernels ui 2>/dev/null) \( -name '*.[ch]' -o -name '*.cu' \) -exec awk '
    function room_of(path,   part, count) {
        count = split(path, part, "/")
        return part[1] == "src" ? (count == 2 ? "main.c" : part[2]) : part[1]
    }
    /^[a-z][a-z0-9_ ]*[ *]+sw_[a-z0-9_]+\(/ && !/^(static|typedef|return)/ {
        name = $0
        sub(/\(.*/, "", name)
        sub(/^.*[ *]/, "", name)
        if (FILENAME ~ /\.h$/) {
            header[name] = FILENAME
            line[name] = FNR
        } else if (!/;$/)
            at[name] = FILENAME
    }
    END {
        for (name in at)
            if (name in header && room_of(header[name]) != room_of(at[name])) {
                printf "%s:%d: %s is defined in %s\n", header[name], line[name], name, at[name]
                found = 1
            }
        exit found
    }' {} +)
}

# named ROOT: prints every line of src/ that knows a device by its name, outside of the drivers'
# folders; fails when there is one. Names are those of the row singa_drivers.
named() {
    row=$(sed -n 's/^singa_drivers(\(.*\))/\1/p' "$1/CMakeLists.txt")
    (cd "$1" && find src -name '*.[ch]' -exec awk -v row="$row" '
    BEGIN {
        gsub(" ", "|", row)
        drivers = "^src/device/(" row ")/"
        literal = "\"(" row ")([:+][^\"]*)?\""
        header = "#[ \t]*include[ \t]*\"device/(" row ")/"
        question = "(^|[^a-z0-9_])(sw_)?on_(" row ")([^a-z0-9_]|$)"
        call = "(^|[^a-z0-9_])sw_(" row ")_"
        # The kernel of the system and hwloc have such names, too; doctor has a part "cpu" of its
        # report; whitening is done with the LAPACK of the host; the loops of operations multiply with
        # the library of the host, whose opening is what the library offers to users; the history has
        # a column of that name.
        may = "^src/(machine/(quota|survey|machine)[.][ch]|cli/doctor/(throughput|settings)[.]c|" \
              "data/(stats|scaling)[.]c|search/(cca|moments|method_(cmssh|spectral))[.]c|" \
              "history/row[.]c|device/ops/)"
    }
    FILENAME ~ drivers || FILENAME ~ may { next }
    FNR == 1 { comment = 0 }
    {
        code = $0
        if (comment && !sub(/^.*[*][/]/, "", code))
            next
        gsub(/[/][*]([^*]|[*]+[^*\/])*[*]+[/]/, "", code)
        comment = sub(/[/][*].*$/, "", code)
        if (code ~ literal || code ~ header || tolower(code) ~ question ||
            (code ~ call && FILENAME !~ "^src/device/")) {
            sub(/^[ \t]*/, "")
            printf "%s:%d: %s: ask a capability of the device (device/driver.h)\n", FILENAME, FNR, $0
            found = 1
        }
    }
    END { exit found }' {} +)
}

planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
mkdir -p "$planted/src/layers" "$planted/src/base" "$planted/src/optim" "$planted/src/data" \
    "$planted/kernels/cpu" "$planted/ui"
printf '#include "base/err.h"\n#include "run/job.h"\n' >"$planted/src/layers/up.c"
printf '#include <stdio.h>\n\n#  include <pthread.h>\n' >"$planted/src/base/thread.c"
printf '#include "tensor/tensor.h"\n' >"$planted/src/optim/down.c"
printf '#include "optim/updater.h"\n' >"$planted/src/data/sideways.c"
printf '#include "err.h"\n' >"$planted/kernels/cpu/bare.c"
expected='kernels/cpu/bare.c:1
src/base/thread.c:3
src/data/sideways.c:1
src/layers/up.c:2'
if out=$(look "$planted"); then
    echo "the checker found nothing in a tree with faults" >&2
    exit 1
fi
if [ "$(printf '%s\n' "$out" | cut -d: -f1,2 | sort)" != "$expected" ]; then
    printf 'the checker should find\n%s\nin the planted tree and finds\n%s\n' "$expected" "$out" >&2
    exit 1
fi

printf 'int sw_near(int n);\n\nvoid *sw_far(int n,\n             int m);\n' >"$planted/src/base/far.h"
printf 'int sw_near(int n)\n{\n    return n;\n}\n' >"$planted/src/base/near.c"
printf 'void *sw_far(int n,\n             int m)\n{\n    return 0;\n}\n' >"$planted/src/data/far.c"
if out=$(owners "$planted") || [ "$out" != 'src/base/far.h:3: sw_far is defined in src/data/far.c' ]; then
    printf 'the checker should find sw_far alone in the planted tree and finds\n%s\n' "$out" >&2
    exit 1
fi

printf 'singa_drivers(cpu far)\n' >"$planted/CMakeLists.txt"
mkdir -p "$planted/src/device/far" "$planted/src/run"
printf 'const char *name = "far";\n' >"$planted/src/device/far/driver.c"
cat >"$planted/src/run/asks.c" <<'TEXT'
/* Not "far", which is a name
 * in a comment: "far:0", sw_far_open(). */
#include "device/far/far.h"
static bool asks(const char *s, bool on_farm) /* "cpu" */
{
    return sw_str_starts(s, "far:") || strcmp(s, "cpu") == 0 || SW_ON_FAR;
}
static const char *const help = "cpu, or farther";
int opens = sw_far_open(on_far); /* and
                                  * more */
TEXT
expected='src/run/asks.c:3
src/run/asks.c:6
src/run/asks.c:9'
if out=$(named "$planted") || [ "$(printf '%s\n' "$out" | cut -d: -f1,2)" != "$expected" ]; then
    printf 'the checker should find\n%s\nin the planted tree and finds\n%s\n' "$expected" "$out" >&2
    exit 1
fi

look "$SW_SOURCE_DIR"
owners "$SW_SOURCE_DIR"
named "$SW_SOURCE_DIR"
