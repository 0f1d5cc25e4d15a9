# ctest-timeout: 90
# Paths in a recipe are relative to the recipe, with SINGA_DATA first; a run stores absolute ones, so
# that resume and other verbs work in any folder; a recipe that relied on the working directory works
# with a warning.
. "$(dirname "$0")/lib.sh"
mkdir -p "$T/project/recipes/data" "$T/project/old" "$T/elsewhere" "$T/sets/data"

# rows FILE: 32 records of 4 values and one of 4 classes.
rows() {
    i=0
    while [ $i -lt 32 ]; do
        echo "$((i % 7)),$((i % 5)),$((i % 3)),$((i % 2)),$((i % 4))"
        i=$((i + 1))
    done >"$1"
}
rows "$T/project/recipes/data/train.csv"
rows "$T/project/old/test.csv"

# recipe TEST: a recipe whose [data test] has that path.
recipe() {
    linear paths | sed '/^records\|^height\|^width\|^classes/d; s/^batch = 8/&\nsteps = 100/; s/^format = synthetic/format = csv\npaths = data\/train.csv/'
    printf '[data test]\nformat = csv\npaths = %s\n' "$1"
}
recipe data/train.csv >"$T/project/recipes/new.ini"

# From the folder of the project, from elsewhere, and from the recipe's own folder.
cd "$T/project" || exit 1
expect 0 run recipes/new.ini --steps 2 --name new --quiet
hasnt err 'warning'
cd "$T/elsewhere" || exit 1
expect 0 run ../project/recipes/new.ini --steps 2 --name other --quiet
expect 0 resume new --steps 4 --quiet
expect 0 eval "$T/project/recipes/new.ini" --weights new --json
expect 0 check ../project/recipes/new.ini --quiet
[ "$(sql 'SELECT count(DISTINCT recipe) FROM runs')" = 1 ] || fail 'the recipe has two paths'
[ "$(sql 'SELECT count(DISTINCT recipe_hash) FROM runs')" = 1 ] || fail 'the recipe has two hashes'
sql "SELECT recipe FROM runs WHERE name = 'other'" | grep -q '^/' || fail 'the stored path is relative'

# SINGA_DATA comes first, may be relative, and is stored with the run.
rows "$T/sets/data/train.csv"
cd "$T" || exit 1
SINGA_DATA=sets expect 0 run project/recipes/new.ini -v --steps 2 --name set
has out "train: csv, .*, $T/sets/data/train.csv"
cd "$T/elsewhere" || exit 1
expect 0 resume set -v --steps 4
has out "train: csv, .*, $T/sets/data/train.csv"
expect 0 resume set -v --steps 6 --set "env.SINGA_DATA=$T/none"
has out "train: csv, .*, $T/project/recipes/data/train.csv"

# Paths on the command line are those of the working directory, in a resume too.
cd "$T/project/old" || exit 1
expect 0 run ../recipes/new.ini -v --steps 2 --name line --set data.test.paths=test.csv
has out 'test: csv, .*, test.csv'
hasnt err 'warning'
cd "$T/elsewhere" || exit 1
expect 0 resume line -v --steps 3
has out "test: csv, .*, $T/project/old/test.csv"

# A recipe that relied on the working directory.
recipe old/test.csv >"$T/project/recipes/old.ini"
cd "$T/project" || exit 1
expect 0 run recipes/old.ini --steps 2 --name old --quiet --set job.seed=2
hasnt err 'warning'
expect 0 run recipes/old.ini --steps 2 --name old
has err "warning: recipe: recipes/old\.ini:[0-9]+:9: data test: paths: 'old/test\.csv' was found in the working directory"
has err 'the next release will look for it at recipes/old/test\.csv only'
expect 0 explain recipes/old.ini data.test.paths
has out '^data\.test\.paths = old/test\.csv'
has out 'recipes/old\.ini:[0-9]+, in the working directory'
cd "$T/elsewhere" || exit 1
expect 0 resume old --steps 3
hasnt err 'warning'
expect 3 run ../project/recipes/old.ini --steps 2
has err '\.\./project/recipes/old/test\.csv'

# explain shows where a path leads, and how it was written.
expect 0 explain ../project/recipes/new.ini data.train.paths
has out '^data\.train\.paths = \.\./project/recipes/data/train\.csv'
has out 'new\.ini:[0-9]+, relative to the recipe'
has out '^  written     data/train\.csv'
SINGA_DATA=$T/sets expect 0 explain ../project/recipes/new.ini data.train.paths --json
has out "\"value\":\"$T/sets/data/train.csv\",\"written\":\"data/train.csv\",\"found\":\"in the folder SINGA_DATA\""

# Weights: init_from in a recipe is relative to the recipe, --init-from to the working directory.
expect 0 run ../project/recipes/new.ini --steps 2 --name base --out "$T/project/recipes/base" --quiet
sed 's/^name = paths/&\ninit_from = base\/checkpoint-2.safetensors/' "$T/project/recipes/new.ini" \
    >"$T/project/recipes/from.ini"
expect 0 run ../project/recipes/from.ini --steps 2
has out '2 of 2 parameters start from \.\./project/recipes/base/checkpoint-2'
cd "$T/project/recipes/base" || exit 1
expect 0 run ../new.ini --steps 2 --init-from checkpoint-2.safetensors
has out '2 of 2 parameters start from checkpoint-2'
exit 0
