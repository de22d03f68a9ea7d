"""Derives the synchronous half of the package from the asynchronous one.

`async` and `await` are left out, and names and words are those of threads. Comment lines that begin
with `# sync:` replace the statement behind them. Nothing derived is kept in the repository: a build
writes it, and a checkout derives it at each import.
"""

from __future__ import annotations

import importlib.abc
import io
import re
import sys
import tokenize
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from itertools import accumulate
from pathlib import Path
from typing import Any, Iterator, Optional

_PACKAGE = Path(__file__).parent
# The derived modules, and what they come from.
HALVES = {
    "_sync": "aio",
    "_hold": "_aio_hold",
    "_keeper": "_aio_keeper",
    "_limit": "_aio_limit",
    "_lines": "_aio_lines",
    "_wakes": "_aio_wakes",
}

_NAMES = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "async": "",
    "await": "",
    "Tasks": "Threads",
    "_tasks": "_threads",
}
# What comments and texts say. Lines about event loops are left out.
_WORDS = {
    "asynchronous": "synchronous",
    r"redlatch\.aio": "redlatch",
    "task": "thread",
    r"\n.* event loop.*": "",
}
_MARK = re.compile("# sync: ?")


def derive(module: str) -> str:
    """Returns the text of a derived module."""
    text = (_PACKAGE / f"{HALVES[module]}.py").read_text(encoding="utf-8")
    return _renamed(_replaced(text))


def _tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    return tokenize.generate_tokens(io.StringIO(text).readline)


def _replaced(text: str) -> str:
    """Replaces the statements behind comments with a mark."""
    lines = text.splitlines(keepends=True)
    last = 0
    for token in _tokens(text):
        row, end = token.start[0], token.end[0]
        if token.type == tokenize.COMMENT and _MARK.match(token.string):
            lines[row - 1] = _MARK.sub("", lines[row - 1], count=1).rstrip() + "\n"
            last = row
        elif token.type == tokenize.NEWLINE and last:
            lines[last:end] = [""] * (end - last)
            last = 0
    return "".join(lines)


def _renamed(text: str) -> str:
    starts = [0, *accumulate(map(len, text.splitlines(keepends=True)))]
    parts, at = [], 0
    for token in _tokens(text):
        begin, end = (starts[row - 1] + column for row, column in (token.start, token.end))
        old = text[begin:end]
        if token.type == tokenize.NAME:
            new = _NAMES.get(old, re.sub("^_aio_", "_", old))
        else:
            new = old
            for word, other in _WORDS.items():
                new = re.sub(word, other, new)
        if new != old:
            parts += [text[at:begin], new]
            # The space behind a word that is left out goes with it.
            at = end if new else end + 1
    return "".join([*parts, text[at:]])


class Finder(importlib.abc.MetaPathFinder, importlib.abc.ExecutionLoader):
    """Imports the modules that a checkout lacks."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Optional[ModuleSpec]:
        """Finds a derived module of this package."""
        package, _, module = name.rpartition(".")
        if package != __package__ or module not in HALVES:
            return None
        return spec_from_file_location(name, self.get_filename(name), loader=self)

    def get_filename(self, name: str) -> str:
        """Returns where a build writes the module."""
        return str(_PACKAGE / f"{name.rpartition('.')[2]}.py")

    def get_source(self, name: str) -> str:
        """Returns the text of the module."""
        return derive(name.rpartition(".")[2])


def install() -> None:
    """Lets Python import what was not built. Files of a build go first."""
    sys.meta_path.append(Finder())
