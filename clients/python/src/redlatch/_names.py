"""Names and their keys. See "Keys" in docs/contributing/protocol.md."""

from __future__ import annotations

from .errors import InvalidName

_FORBIDDEN = set("{}@*?[]\\")


def _size(what: str, text: object) -> int:
    """Returns the number of bytes of a text."""
    if not isinstance(text, str):
        raise InvalidName(f"a {what} is a str, and not {text!r}")
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidName(f"the {what} {text!r} has no UTF-8 form: {error.reason}") from error


def check_prefix(prefix: str) -> str:
    """Returns `prefix`.

    Raises `InvalidName` if it is not allowed.
    """
    size = _size("prefix", prefix)
    bad = any(c.isspace() or not c.isprintable() or c in _FORBIDDEN for c in prefix)
    if not 1 <= size <= 64 or bad:
        raise InvalidName(
            f"the prefix {prefix!r} is not allowed: a prefix has 1 to 64 bytes, without white "
            "space, control characters and any of {}@*?[]\\"
        )
    return prefix


def _has_tag(name: str) -> bool:
    start = name.find("{")
    end = name.find("}", start + 1)
    return start >= 0 and end > start + 1


def key_of(prefix: str, name: str, part: str = "") -> str:
    """Returns the key of a name, or of one of its parts.

    Raises `InvalidName` if the name is no text of 1 to 512 bytes.
    """
    size = _size("name", name)
    if not 1 <= size <= 512:
        raise InvalidName(f"a name has 1 to 512 bytes, this one has {size}", name=name)
    if _has_tag(name):
        return f"{prefix}:{part}@{name}"
    escaped = name.replace("%", "%25").replace("{", "%7B").replace("}", "%7D")
    return f"{prefix}:{{{escaped}}}" + (f":{part}" if part else "")
