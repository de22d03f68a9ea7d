"""The calls of the two locks, and their replies. Only this file knows the order of `KEYS` and
`ARGV`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Optional, TypedDict

from ._names import key_of
from .errors import ProtocolError, WrongKind

# How long a waiter stays registered, in ms.
REGISTERED = 5000


@dataclass(frozen=True)
class Kind:
    """One kind: its name for readers, its scripts, and the parts of its key."""

    label: str
    folder: str
    parts: tuple[str, ...]
    queued: bool


PLAIN = Kind("lock", "reentrant", ("q",), False)
FAIR = Kind("fair lock", "fair", ("q", "l"), True)


@dataclass(frozen=True)
class Call:
    """A call of a script."""

    script: str
    keys: tuple[str, ...]
    args: tuple[str, ...]

    def dated(self, act_before: int) -> "Call":
        """Returns the call with the last server time at which it may act, as first argument."""
        return replace(self, args=(str(act_before), *self.args))


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
    client, number = owner.split(":")
    args = (str(by), client, str(lease), str(ttl), f":{number}", token)
    return Call(f"{place.kind.folder}/renew", (place.key,), args)


def items(reply: Any) -> list[str]:
    """Returns the items of a reply, which is a list, or a text for speed."""
    if isinstance(reply, str):
        return reply.split(" ")
    if isinstance(reply, list) and reply:
        return ["" if item is None else str(item) for item in reply]
    raise ProtocolError(f"a script answered {reply!r}")


def millis(reply: Any) -> int:
    """Reads the reply of `TIME`: the server's time in ms."""
    try:
        seconds, micros = reply
        return int(seconds) * 1000 + int(micros) // 1000
    except (TypeError, ValueError) as error:
        raise ProtocolError(f"it is no Redis or Valkey: TIME answered {reply!r}") from error


def other_kind(found: str) -> WrongKind:
    """Returns the error of a name that belongs to this kind."""
    return WrongKind(f"the name belongs to an object of kind {found!r}")


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
    """One word, such as `more`, `late` or `void`."""

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
            raise other_kind(found[3])
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


class Info(TypedDict):
    """The present hold of a name: owner, count of entries, token, remaining s, and waiters."""

    owner: str
    count: int
    token: int
    remaining: float
    waiters: int


def info(reply: Any) -> Optional[Info]:
    """Reads the reply of `inspect`."""
    found = items(reply)
    try:
        if found[1] == "kind":
            raise other_kind(found[2])
        if found[1] == "free":
            return None
        return Info(
            owner=found[2],
            count=int(found[3]),
            token=int(found[4]),
            remaining=int(found[5]) / 1000,
            waiters=int(found[6]),
        )
    except (IndexError, ValueError) as error:
        raise ProtocolError(f"inspect answered {reply!r}") from error


# The verdicts of a renewal, beside `late`.
RENEWALS = ("renewed", "expired", "taken", "revoked", "gone", "kind")


def forced(reply: Any) -> bool:
    """Reads the reply of `force`: whether this call or an earlier one ended the hold."""
    found = items(reply)
    if len(found) > 2 and found[1] == "kind":
        raise other_kind(found[2])
    return len(found) > 1 and found[1] in ("done", "already")
