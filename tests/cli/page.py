"""Does what a page of recipes/tasks says, in the current folder, and fails where the page is wrong.

    page.py PAGE.md

Fenced blocks, in the order of the page:

    LANGUAGE NAME         a file of this name: ini houses.ini
    sh [needs=THING]...   commands, run one after another on a terminal of 80 columns; skipped, and said so,
                          where a THING is missing
    text                  what the commands of the block before print

A command exits with 0, or as its comment says: "# exits with 75". With "# Ctrl-C" the key is pressed
once the run has done some steps. The lines of a text block follow each other in the output; "..." stands
for any characters in a line, and as a line of its own for any lines. Blanks count as one, and a number
with a point may differ by a tenth: other machines train to slightly other results. Any other block is an
error, so that nothing in a page is untested. Exits with 77 if every command was skipped."""
import fcntl, os, pty, re, shutil, struct, subprocess, sys, termios

WORDS_OF_PAGE = 350 # outside of the blocks
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|\x1b[=>]")
PROGRESS = re.compile(rb"step [0-9]{2,}/")
DECIMAL = r"-?[0-9]+\.[0-9]+(?:e[-+]?[0-9]+)?(?![0-9]|\.\.)" # in 0.00... the digits are text
NUMBER = r"-?[0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?"


def has_module(name):
    return subprocess.run([sys.executable, "-c", "import " + name], stderr=subprocess.DEVNULL).returncode == 0


def has_docker():
    return bool(shutil.which("docker")) and subprocess.run(
        ["docker", "info"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def has_gpus():
    found = subprocess.run(["nvidia-smi", "-L"], capture_output=True) if shutil.which("nvidia-smi") else None
    return bool(found) and found.stdout.count(b"GPU ") >= 2


def draws_png():
    """Builds without cairo draw SVG only."""
    return subprocess.run(["singa-ws", "topo", "--plot", os.environ["HOME"] + "/try.png"],
                          capture_output=True).returncode == 0


THINGS = {
    "cores": lambda: len(os.sched_getaffinity(0)) >= 2,
    "docker": has_docker,
    "gpus": has_gpus,
    "numpy": lambda: has_module("numpy"),
    "pandas": lambda: has_module("pandas"),
    "png": draws_png,
    "sbatch": lambda: bool(shutil.which("sbatch")),
    "ssh": lambda: False, # another machine
    "torch": lambda: has_module("torch"),
}


class Wrong(Exception):
    pass


# ---- The page ------------------------------------------------------------------------------------


def blocks_of(text):
    """The fenced blocks as (line number, words behind the fence, lines)."""
    info = None
    for number, line in enumerate(text.split("\n"), 1):
        if not line.startswith("```"):
            if info is not None:
                body.append(line)
        elif info is None:
            info, body, first = line[3:].split(), [], number
        else:
            yield first, info, body
            info = None
    if info is not None:
        raise Wrong(f"line {first}: the block does not end")


def words_of(text):
    return len(re.sub(r"(?ms)^```.*?^```$", "", text).split())


def commands_of(lines):
    """Commands with their comments; a backslash at the end joins lines."""
    joined = "\n".join(lines).replace("\\\n", " ")
    return [line for line in joined.split("\n") if line.strip() and not line.startswith("#")]


# ---- Commands ------------------------------------------------------------------------------------


def run(command):
    """The exit status of a command on a terminal, and what it shows."""
    interrupt, shown = "# Ctrl-C" in command, b""
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
        # A shell that waited would end by the signal, too.
        os.execvp("sh", ["sh", "-c", ("exec " if interrupt else "") + command])
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError: # the last process has left the terminal
            piece = b""
        if not piece:
            break
        shown += piece
        if interrupt and PROGRESS.search(shown):
            os.write(terminal, b"\x03")
            interrupt = False
    os.close(terminal)
    status = os.waitpid(pid, 0)[1]
    if interrupt:
        raise Wrong("it ended before Ctrl-C could be pressed")
    text = ESCAPES.sub("", shown.decode(errors="replace")).replace("\r\n", "\n").replace("\r", "\n")
    return (os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)), text


def wanted_status(command):
    said = re.search(r"#.*exits with ([0-9]+)", command)
    return int(said.group(1)) if said else 0


# ---- Output --------------------------------------------------------------------------------------


def same_line(wanted, got):
    """Whether a line of the page describes a line of the output."""
    pieces = re.split(r"(\.\.\.|%s)" % DECIMAL, " ".join(wanted.split()))
    numbers = [float(p) for p in pieces[1::2] if p != "..."]
    pattern = "".join(re.escape(p) if i % 2 == 0 else ".*" if p == "..." else "(%s)" % NUMBER
                      for i, p in enumerate(pieces))
    match = re.fullmatch(pattern, " ".join(got.split()))
    return bool(match) and all(abs(float(a) - b) <= 0.1 * max(abs(float(a)), abs(b)) + 1e-9
                               for a, b in zip(match.groups(), numbers))


def find_lines(wanted, output):
    """The first run of lines of the page that is not in the output, or None."""
    at, piece = 0, []
    for line in [*wanted, "..."]:
        if line.strip() != "...":
            piece.append(line)
            continue
        while piece and not (at + len(piece) <= len(output) and
                             all(map(same_line, piece, output[at:at + len(piece)]))):
            at += 1
            if at > len(output):
                return piece
        at, piece = at + len(piece), []
    return None


# ---- All of it -----------------------------------------------------------------------------------


def write_file(name, lines):
    if os.path.isabs(name) or ".." in name.split("/"):
        raise Wrong(f"{name} is not in this folder")
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    with open(name, "w") as f:
        f.write("\n".join(lines) + "\n")


def run_block(lines):
    """Runs the commands of a block and returns what they printed."""
    shown = []
    for command in commands_of(lines):
        print("$ " + command, flush=True)
        status, text = run(command)
        print(text, flush=True)
        if status != wanted_status(command):
            raise Wrong(f"`{command}` exits with {status}")
        shown += [line for line in text.split("\n") if line.strip()]
    return shown


def do_page(text):
    """Returns the number of commands that ran."""
    count, output, skipped = 0, None, False
    if words_of(text) > WORDS_OF_PAGE:
        raise Wrong(f"{words_of(text)} words, and {WORDS_OF_PAGE} are the limit")
    for number, info, lines in blocks_of(text):
        kind, rest = (info or [""])[0], info[1:]
        needs = [word[6:] for word in rest if word.startswith("needs=")]
        names = [word for word in rest if not word.startswith("needs=")]
        try:
            if kind and len(names) == 1 and not needs:
                write_file(names[0], lines)
            elif kind == "sh" and not names:
                missing = [n for n in needs if not THINGS[n]()]
                skipped = bool(missing)
                output = [] if missing else run_block(lines)
                count += 0 if missing else len(commands_of(lines))
                if missing:
                    print(f"line {number}: skipped, because there is no {', '.join(missing)}")
            elif kind == "text" and not rest and output is not None:
                lost = None if skipped else find_lines([l for l in lines if l.strip()], output)
                if lost:
                    raise Wrong("the output lacks\n" + "\n".join(lost))
            else:
                raise Wrong("a block of unknown kind, or no command before it: " + " ".join(info))
        except Wrong as wrong:
            raise Wrong(f"line {number}: {wrong}")
    return count


if __name__ == "__main__":
    page = sys.argv[1]
    with open(page) as f:
        content = f.read()
    try:
        sys.exit(0 if do_page(content) else 77)
    except Wrong as wrong:
        sys.exit(f"FAILED: {page}: {wrong}")
