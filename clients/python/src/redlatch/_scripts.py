"""Joins the scripts as `lua/build.rs` does: a file stands behind the parts that its first lines
name."""

from __future__ import annotations

import functools
import hashlib
import re
from importlib import resources
from pathlib import Path

# The package has the files that it needs. A checkout has them at its root.
_PACKAGED = resources.files(__package__) / "lua"
_FILES = _PACKAGED if _PACKAGED.is_dir() else Path(__file__).parents[4] / "lua"

_FIRST_LINE = re.compile(r"-- (uses|waits like|entries) (.*)\n")


@functools.cache
def text_and_digest(script: str) -> tuple[str, str]:
    """Returns the text of a script and its SHA-1, by which a server knows it."""
    text = script_text(script)
    return text, hashlib.sha1(text.encode()).hexdigest()


def script_text(script: str) -> str:
    """Returns the text of a script such as `limit/look`, or of a shared one: `fair/acquire`."""
    kind, name = script.split("/")
    shared = (_FILES / kind / "exclusive.lua").is_file()
    like = _read(f"{kind}/exclusive")[0]["waits like"][0] if shared else kind
    texts: dict[str, str] = {}

    def join(part: str) -> None:
        part = part.replace("$kind", kind).replace("$like", like)
        if part not in texts:
            names, text = _read(part)
            for used in names["uses"]:
                join(used)
            texts[part] = text

    join(f"exclusive/{name}" if shared else script)
    return "".join(texts.values())


def _read(name: str) -> tuple[dict[str, list[str]], str]:
    """Returns the words in the first lines of a file, and the rest of its text."""
    text = (_FILES / f"{name}.lua").read_text(encoding="utf-8")
    names: dict[str, list[str]] = {"uses": [], "waits like": [], "entries": []}
    while line := _FIRST_LINE.match(text):
        names[line[1]] += line[2].split(", ")
        text = text[line.end() :]
    return names, text
