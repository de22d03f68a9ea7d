"""The calls of the two locks, and their replies. Only this file knows the order of `KEYS` and
`ARGV`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

from ._names import key_of
from .errors import ProtocolError, WrongKind

# How long a waiter stays registered, in ms.
REGISTERED = 5000


@dataclass(frozen=True)
class Kind:
    """One kind of lock: its scripts, and the parts of its key."""

    folder: str
    parts: tuple[str, ...]
    queued: bool


PLAIN = Kind("reentrant", ("q",), False)
FAIR = Kind("fair", ("q", "l"), True)


@dataclass(frozen=True)
class Call:
    """A call of a script."""

    script: str
    keys: tuple[str, ...]
    args: tuple[str, ...]


@dataclass(frozen=True)
class Place:
    """One name of one kind."""

    kind: Kind
    prefix: str
    name: str

    @property
    def key(self) -> str:
        """The key of the hash."""
        return key_of(self.prefix, self.name)

    def keys(self) -> tuple[str, ...]:
        """The key and all its parts."""
        parts = (key_of(self.prefix, self.name, part) for part in self.kind.parts)
        return (self.key, *parts)

    def call(self, script: str, *args: object) -> Call:
        """Makes a call with all keys of the name."""
        texts = tuple(str(arg) for arg in args)
        return Call(f"{self.kind.folder}/{script}", self.keys(), texts)


def address(kind: Kind, channel: str, attempt: int, owner: int) -> str:
    """Returns the address of a waiter."""
    place = f"PUBLISH {channel} {attempt}"
    return f"{place} {owner}" if kind.queued else place


def renew(place: Place, by: int, owner: str, lease: int, ttl: int, token: str) -> Call:
    """Makes the call that moves the end of a hold."""
    args = (str(by), owner, str(lease), str(ttl), token)
    return Call(f"{place.kind.folder}/renew", (place.key,), args)


def items(reply: Any) -> list[str]:
    """Returns the items of a reply, which is a list, or a text for speed."""
    if isinstance(reply, str):
        return reply.split(" ")
    if isinstance(reply, list) and reply:
        return ["" if item is None else str(item) for item in reply]
    raise ProtocolError(f"a script answered {reply!r}")


@dataclass(frozen=True)
class Granted:
    """The server has granted the name."""

    token: int
    abandoned: bool
    lasts: Optional[int]


@dataclass(frozen=True)
class Busy:
    """Another owner has the name, or it is another's turn."""

    look: Optional[int]
    called: Optional[int]


@dataclass(frozen=True)
class Other:
    """`more`, `late` or `void`."""

    word: str


def acquired(reply: Any) -> tuple[int, Granted | Busy | Other]:
    """Reads the reply of `acquire`: the server's time, and the answer.

    Raises `WrongKind`, or `ProtocolError` for a reply that no version of the script gives.
    """
    found = items(reply)
    try:
        now, word = int(found[0]), found[1]
        if word == "granted":
            lasts = int(found[5]) if found[5] else None
            return now, Granted(int(found[3]), found[4] == "1", lasts)
        if word == "busy":
            called = int(found[5]) if len(found) > 5 and found[5] else None
            return now, Busy(int(found[3]) if found[3] else None, called)
        if word in ("more", "late", "void"):
            return now, Other(word)
        if word == "kind":
            raise WrongKind(f"the name belongs to an object of kind {found[3]}")
    except (IndexError, ValueError) as error:
        raise ProtocolError(f"acquire answered {reply!r}") from error
    raise ProtocolError(f"acquire answered {reply!r}")


def verdict(reply: Any) -> tuple[int, str, int]:
    """Reads the reply of `renew` or `release`: the server's time, the verdict, and what is left."""
    found = items(reply)
    try:
        left = int(found[2]) if len(found) > 2 else 0
        return int(found[0]), found[1], left
    except (IndexError, ValueError) as error:
        raise ProtocolError(f"a script answered {reply!r}") from error
