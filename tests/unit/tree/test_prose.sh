#!/bin/sh
# ctest-labels: source
# ctest-timeout: 60
# What a reader meets first stays readable. Pages have a limit in words and their links lead
# somewhere; every .c opens with a comment that says what the file is for; blank lines separate the
# steps of functions; and home-made words that once stood for a standard term do not come back. The
# checkers first have to find the faults of a planted tree.
set -eu
exec python3 - "${SW_SOURCE_DIR:?the source tree}" <<'END'
import pathlib, re, sys, tempfile

WORDS_OF_PAGE = {"README.md": 1500, "src/README.md": 1500}
WORDS_OF_OTHERS = 1800
BLANK_PERCENT = 8
CODE = {".c", ".h", ".cu", ".cuh"}

# Home-made word: the term to use.
TERMS = {
    "apart": "asynchronous, or say what separates them",
    "party|parties": "update group",
    "givers?": "contributors",
    "mishaps?": "non-finite update",
    "bring_home": "sync_to_host",
    "hogwild_race_all": "a name that says what it does",
    "leaf_ends": "microbatch_ends",
    "anew": "again",
    "carry_on": "recurrent state, or continue",
    "ways_between": "peer links",
    "made by code": "synthetic",
    "stands? still": "stalled",
    "seat": "rank",
    "lives anew": "recomputed",
    "who waits": "the waiting role",
    "mend(?:ed|s)?": "fix",
}
# Where one of these words is the standard term.
EXCEPTIONS = r"third[- ]part(?:y|ies)|\"mend\"" # the second is a key of old reports
WORD = re.compile(r"(?<![A-Za-z])(?:%s)(?![A-Za-z])" % "|".join(TERMS), re.I)


def code_files(root):
    return sorted(p for top in ("src", "kernels", "ui") for p in (root / top).rglob("*") if p.suffix in CODE)


def page_files(root):
    return sorted([*root.glob("*.md")] + [p for top in ("src", "kernels", "ui", "recipes", "bench")
                                          for p in (root / top).rglob("*.md")])


def long_pages(root):
    """Pages of more words than their limit."""
    for page in page_files(root):
        name, count = page.relative_to(root).as_posix(), len(page.read_text().split())
        most = WORDS_OF_PAGE.get(name, WORDS_OF_OTHERS)
        if count > most:
            yield f"{name}: {count} words, and {most} are the limit: move a subject to a page of its own"


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"(?m)^    .*$", "", page.read_text())
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in re.findall(r"(?m)^#+ +(.*?)\s*$", text)}


def broken_links(root):
    """Links between pages that lead to no file or no heading."""
    for page in page_files(root):
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            if "://" in link:
                continue
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            if not target.exists() or (anchor and anchor not in anchors(target)):
                yield f"{page.relative_to(root).as_posix()}: the link to {link} leads nowhere"


def without_purpose(root):
    """Sources that do not open with a comment."""
    for path in code_files(root):
        if path.suffix == ".c" and not path.read_text().lstrip().startswith("/*"):
            yield f"{path.relative_to(root).as_posix()}: opens without a comment that says what it is for"


TOKENS = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
DIRECTIVE = re.compile(r"(?m)^[ \t]*#(?:[^\n\\]|\\.|\\\n)*")


def code_alone(text):
    """The text with comments, the contents of strings, and directives blanked out, line by line."""
    blank = lambda m: re.sub(r"[^\n]", " ", m.group(0))
    return DIRECTIVE.sub(blank, TOKENS.sub(lambda m: '""' if m.group(0)[0] in "\"'" else blank(m), text))


def is_function(head):
    """Whether a brace behind HEAD, which begins behind the last ; or }, opens a function's body."""
    if not head.endswith(")") or "=" in head.split("(")[0]:
        return False
    at = depth = 0
    for at in range(len(head) - 1, -1, -1):
        depth += (head[at] == ")") - (head[at] == "(")
        if not depth:
            break
    name = re.search(r"([A-Za-z_]\w*)\s*$", head[:at])
    return bool(name) and name.group(1) not in ("if", "while", "for", "switch", "_Static_assert")


def bodies(code):
    """First and last line, from 0, of every function: of its head, and of its closing brace."""
    start, at = 0, 0
    while at < len(code):
        if code[at] in ";}":
            start = at + 1
        elif code[at] == "{":
            head = code[start:at].strip()
            if head.startswith("extern") and head.endswith('"'):
                start = at = at + 1
                continue
            depth, end = 1, at + 1
            while end < len(code) and depth:
                depth += (code[end] == "{") - (code[end] == "}")
                end += 1
            if is_function(head):
                first = start + len(code[start:at]) - len(code[start:at].lstrip())
                yield code.count("\n", 0, first), code.count("\n", 0, end - 1)
            start = at = end
            continue
        at += 1


def blank_share(root):
    """Blank lines and all lines between the heads of functions and their closing braces."""
    blank = total = 0
    for path in code_files(root):
        text = path.read_text()
        lines = text.split("\n")
        for first, last in bodies(code_alone(text)):
            total += max(0, last - first - 1)
            blank += sum(not line.strip() for line in lines[first + 1:last])
    return blank, total


def too_dense(root):
    """Whether functions have fewer blank lines than their steps need."""
    blank, total = blank_share(root)
    if 100 * blank < BLANK_PERCENT * total:
        yield (f"{blank} of {total} lines in functions are blank, {100 * blank / total:.2f} %, and "
               f"{BLANK_PERCENT} % are needed: separate the steps of functions")


def home_made_words(root):
    """Words that stand for a standard term, in sources, pages and recipes."""
    for path in code_files(root) + page_files(root) + sorted((root / "recipes").rglob("*.ini")):
        for number, line in enumerate(path.read_text().split("\n"), 1):
            for word in WORD.findall(re.sub(EXCEPTIONS, "", line, flags=re.I)):
                term = next(t for w, t in TERMS.items() if re.fullmatch(w, word, re.I))
                yield f"{path.relative_to(root).as_posix()}:{number}: \"{word}\": {term}"


CHECKS = (long_pages, broken_links, without_purpose, too_dense, home_made_words)

PLANTED = {
    "README.md": "[a](src/README.md#right-place) [b](src/README.md#gone) [c](gone.md)",
    "src/README.md": "## Right place\n" + "word " * 1500,
    "recipes/long.md": "word " * 1801,
    "recipes/fits.md": "word " * 1800,
    "recipes/a.ini": "; Images made by code.\n",
    "src/room/bare.c": "int x;\n",
    "src/room/dense.c": "/* Dense. */\n#define M(a) \\\n    { a }\nstatic const char *s[] = {\"{ (\",\n\n};\n"
                        "int f(int a)\n{\n    /*\n\n    */\n    if (a == '{')\n        a++;\n\n    return a;\n}\n",
    "src/room/words.c": "/* Third-party code is apart from ours; apartments are not. */\nint seat_of;\n",
    "ui/words.h": "/* A party. */\n",
}
EXPECTED = """recipes/long.md: 1801
src/README.md: 1503
README.md: the link to src/README.md#gone
README.md: the link to gone.md
src/room/bare.c: opens
src/room/words.c:1: "apart"
src/room/words.c:2: "seat"
ui/words.h:1: "party"
recipes/a.ini:1: "made by code\""""

with tempfile.TemporaryDirectory() as name:
    planted = pathlib.Path(name)
    for path, text in PLANTED.items():
        (planted / path).parent.mkdir(parents=True, exist_ok=True)
        (planted / path).write_text(text)
    found = [fault for check in CHECKS for fault in check(planted)]
    expected = EXPECTED.split("\n")
    if len(found) != len(expected) or any(not f.startswith(e) for f, e in zip(found, expected)):
        sys.exit("\n".join(["the checkers find in the planted tree", *found, "and should find", *expected]))
    if blank_share(planted) != (2, 8):
        sys.exit(f"the checker counts {blank_share(planted)} blank and all lines of functions, not (2, 8)")

root = pathlib.Path(sys.argv[1])
if len(code_files(root)) < 500 or len(page_files(root)) < 8:
    sys.exit("too few files: is this the source tree?")
faults = [fault for check in CHECKS for fault in check(root)]
print(*faults, sep="\n")
sys.exit(bool(faults))
END
