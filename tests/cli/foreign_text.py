#!/usr/bin/env python3
"""Hostile text for foreign_text.sh, and whether it reached a terminal.

  history DB        gives every text of a history a hostile value
  weights FILE      writes a safetensors file with hostile names and metadata
  words FILE        writes a text of hostile words
  check FILE...     fails where a file has what a terminal would obey
  json FILE         fails where a file is no JSON, or has lost the text
  xml FILE          fails where a file is no XML
  terminal COMMAND  runs a command on a terminal, and checks what that gets
  print NAME        one of the values, for a command line
"""

import json
import os
import pty
import re
import sqlite3
import struct
import subprocess
import sys
import xml.dom.minidom

UNICODE = "\x1b]0;title\x07\x1b[2J \x9b31m \u202egnp\u2066 \u200f\u061c \u2028 \u200b\ufeff \U000e0041 \x7f\r\n\tz"
INVALID = UNICODE.encode() + b" \xff\xfe \xc3( \xed\xa0\x80 \xe2\x80"
LONG = INVALID * 60
VALUES = {"unicode": UNICODE.encode(), "invalid": INVALID, "long": LONG}

UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
)


def change_history(path):
    """A row in each table of a run, and every text of every table but what must be one of a few words; losses keep
    their name, so that there are curves."""
    db = sqlite3.connect(path)
    count = 0

    def hostile():
        nonlocal count
        count += 1
        return (UNICODE.encode(), INVALID, LONG)[count % 3] + str(count).encode()

    db.create_function("hostile", 0, hostile)
    for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        columns = db.execute(f"PRAGMA table_info('{table}')").fetchall()
        if "run_id" in (c[1] for c in columns):
            db.execute(f"INSERT OR IGNORE INTO '{table}' VALUES ({', '.join('1' * len(columns))})")
        for _, column, kind, *_ in columns:
            if kind.upper() != "TEXT":
                continue
            where = "name <> 'loss'" if (table, column) == ("series", "name") else "true"
            if (table, column) == ("series", "split"):
                where = "split <> 'train'"
            db.execute(
                f"UPDATE OR IGNORE '{table}' SET \"{column}\" = CAST(hostile() AS TEXT) WHERE {where}"
            )
    db.commit()
    changed = db.total_changes
    assert changed > 50, f"only {changed} texts of the history were changed"


def write_weights(path):
    names = [UNICODE, UNICODE * 20 + "b"]
    header = {"__metadata__": {"name": UNICODE, "recipe_path": UNICODE, "step": UNICODE, UNICODE: UNICODE}}
    for i, name in enumerate(names):
        header[name] = {"dtype": "F32", "shape": [2, 2], "data_offsets": [16 * i, 16 * i + 16]}
    text = json.dumps(header, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + struct.pack("<8f", *range(8)))


def write_words(path):
    words = [b"the", b"w\x1b[31m", "\u202eab".encode(), b"\xff\xc3", "\x9bcd".encode(), b"end"]
    with open(path, "wb") as file:
        for i in range(4000):
            file.write(words[i * 7 % 6] + b" " + (b"\n" if i % 9 == 0 else b""))


def check(data, what):
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        sys.exit(f"{what} is not UTF-8: {error}; {data[max(0, error.start - 40):error.end + 20]!r}")
    found = UNSAFE.search(text)
    if found:
        at = found.start()
        sys.exit(f"{what} has {found.group()!r}: {text[max(0, at - 60):at + 20]!r}")


def check_json(path):
    with open(path, "rb") as file:
        data = file.read()
    check(data, path)
    assert any(UNICODE in text for text in texts_of(json.loads(data))), f"{path} has lost the text"


def texts_of(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from texts_of(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from texts_of(item)


def check_xml(path):
    with open(path, "rb") as file:
        data = file.read()
    check(data, path)
    xml.dom.minidom.parseString(data)


def on_terminal(command):
    """Colors and the end of a line are the program's own."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
    os.close(theirs)
    data = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break
        if not piece:
            break
        data += piece
    process.wait()
    assert data, "nothing was printed"
    assert b"\\x1b[0m" not in data, "a color of our own is shown as text"
    data = re.sub(rb"\x1b\[[0-9;]*[mK]", b"", data)
    check(data.replace(b"\r\n", b"\n").replace(b"\r", b""), " ".join(command[1:4]))


def main(task, *args):
    if task == "history":
        change_history(args[0])
    elif task == "weights":
        write_weights(args[0])
    elif task == "words":
        write_words(args[0])
    elif task == "check":
        for path in args:
            with open(path, "rb") as file:
                check(file.read(), path)
    elif task == "json":
        check_json(args[0])
    elif task == "xml":
        check_xml(args[0])
    elif task == "terminal":
        on_terminal(list(args))
    elif task == "print":
        sys.stdout.buffer.write(VALUES[args[0]].replace(b"\0", b""))
    else:
        sys.exit(__doc__)


main(*sys.argv[1:])
