"""What the synchronous and the asynchronous client share."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import socket
import sys
import uuid
import warnings
from pathlib import Path
from typing import Any, Generic, Iterator, Optional, TypeVar

from ._acquisition import Acquisition, Deliver, Options, Settings, Undo
from ._calls import FAIR, Call, Kind, Place
from ._lease import Lease
from ._names import check_prefix, key_of
from ._options import DAY, YEAR, lease_ms, number, wait_ms
from ._time import ServerClock, now
from .errors import ClientClosed, InvalidOption, LockLost, RedlatchError

H = TypeVar("H")

# How many names of fair locks a client remembers, the last ones. A message for a waiter that the
# client does not know is answered for these.
MOST_FAIR_KEYS = 10_000
# How many such answers a client sends per second. Whoever may publish can ask for any number.
_MOST_ANSWERS = 100

# How long the record of a client is kept, and after which time it is written again, in ms.
RECORD_TTL = 3_600_000
RECORD_PAUSE = RECORD_TTL / 3
RECORD_RETRY = 60_000.0


class Core:
    """The ids and the settings of one client."""

    def __init__(
        self,
        *,
        prefix: str = "redlatch",
        lease: float = 30.0,
        application: Optional[str] = None,
        client_name: Optional[str] = None,
        token_retention: float = 600.0,
        patience: float = 10.0,
        connect_timeout: Optional[float] = None,
        clock_drift: float = 0.01,
        server_clock_allowance: float = 0.0,
    ) -> None:
        def span(what: str, value: float, least: float, most: float, words: str) -> int:
            return int(number(what, value, (least, most), f"{words}, in seconds") * 1000)

        lease_ms(lease, renewed=True)
        self.lease = lease
        self.settings = Settings(
            prefix=check_prefix(prefix),
            client=uuid.UUID(bytes=os.urandom(16), version=4).hex,
            retention=span("token_retention", token_retention, 10, YEAR, "10 s to 365 days"),
            patience=span("patience", patience, 0.1, DAY, "100 ms to 1 day"),
            drift=number("clock_drift", clock_drift, (0, 0.2), "0 to 0.2"),
            allowance=span(
                "server_clock_allowance", server_clock_allowance, 0, 3600, "0 to 1 hour"
            ),
        )
        # What the connections have beside the parameters of the user's client.
        self.connection: dict[str, Any] = {}
        if connect_timeout is not None:
            ms = span("connect_timeout", connect_timeout, 0.01, 60, "10 ms to 1 minute")
            self.connection["socket_connect_timeout"] = ms / 1000
        if client_name is not None:
            self.connection["client_name"] = _text("client_name", client_name)
        self._application = _text("application", application or _program())
        self.fair_keys: dict[str, Place] = {}
        self._numbers = itertools.count(1)
        self._pid = os.getpid()
        self._answers, self._since = (0, 0), 0
        # Why the client cannot be used any more.
        self.closed: Optional[str] = None

    def check_open(self) -> None:
        """Raises `ClientClosed` if the client cannot be used."""
        self.check_not_forked()
        if self.closed:
            raise ClientClosed(self.closed)

    def check_not_forked(self) -> None:
        """Raises `ClientClosed` in a fork: the holds and the connections are the parent's."""
        if self.is_forked():
            raise ClientClosed("a client cannot be used in a fork of the process that made it")

    def is_forked(self) -> bool:
        """Tells whether this process is a fork of the one that made the client."""
        return os.getpid() != self._pid

    def draw(self) -> int:
        """Returns a number that this client has never used."""
        return next(self._numbers)

    @staticmethod
    def random() -> float:
        """Returns a number from 0 to 1, for jitter alone."""
        return random.random()

    def record(self, clock: ServerClock) -> tuple[str, str]:
        """Returns the key and the text of the record that describes the client to others."""
        # The library for Rust reads no text with half of a surrogate pair.
        app = self._application.encode(errors="replace").decode()
        self._since = self._since or int(clock.millis(now()))
        text = {"host": socket.gethostname(), "pid": self._pid, "app": app, "since": self._since}
        return key_of(self.settings.prefix, self.settings.client, "m"), json.dumps(text)

    def place(self, kind: Kind, name: str) -> Place:
        """Returns a name of a kind. Raises `InvalidName`."""
        key = key_of(self.settings.prefix, name)
        place = Place(kind, self.settings.prefix, name)
        if kind is FAIR:
            self.fair_keys.pop(key, None)
            self.fair_keys[key] = place
            if len(self.fair_keys) > MOST_FAIR_KEYS:
                # Another thread may be at the same work.
                with contextlib.suppress(KeyError, RuntimeError, StopIteration):
                    del self.fair_keys[next(iter(self.fair_keys))]
        return place

    def acquisition(
        self, place: Place, clock: ServerClock, options: Options, subscribed: bool
    ) -> Acquisition:
        """Begins an acquisition."""
        return Acquisition(
            place, self.settings, options, clock, self.draw, self.random, now(), subscribed
        )

    def withdrawal(self, message: str) -> Optional[Call]:
        """Returns the answer to a message for a waiter that the client does not have.

        A message without a number is for any waiter. It needs no answer: the undo of the waiter
        that has left notifies the next one.
        """
        key, _, number = message.rpartition(" ")
        place = self.fair_keys.get(key)
        numbered = number.isascii() and number.isdecimal()
        # A message with the number 0 is about holds, see `Keeper.look`.
        if place is None or not numbered or number == "0":
            return None
        if not self.may_answer():
            return None
        return place.call("withdraw", "strike", self.settings.channel, number[:20])

    def may_answer(self) -> bool:
        """Counts an answer to a message, which anybody may forge. Returns whether it may be sent."""
        second, count = int(now() / 1000), 1
        if second == self._answers[0]:
            count += self._answers[1]
        self._answers = (second, count)
        return count <= _MOST_ANSWERS


def _text(what: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidOption(f"{what} is a str, and not {value!r}")
    return value


def _program() -> str:
    path = Path(sys.argv[0] if sys.argv else "")
    stem = path.parent.name if path.stem == "__main__" else path.stem
    return stem if stem not in ("", "-c", "-") else Path(sys.executable or "python").stem


def lock_options(core: Core, lease: Optional[float], renew: bool, wait: object) -> Options:
    """Reads the options of one acquisition. `wait` is in s; `None` waits without end."""
    ms = lease_ms(core.lease if lease is None else lease, renewed=renew)
    span = wait_ms(wait)
    if span is None:
        return Options(ms, waits=True)
    if span <= 0:
        return Options(ms, waits=False)
    return Options(ms, waits=True, deadline=now() + span)


@contextlib.contextmanager
def about(place: Place) -> Iterator[None]:
    """Names the object in errors."""
    try:
        yield
    except RedlatchError as error:
        error.about(place.kind.label, place.name)
        raise


class Entered(Generic[H]):
    """The holds of the `with` blocks of one lock, by the task or thread that has entered."""

    def __init__(self) -> None:
        self._entries: list[tuple[object, H]] = []

    def push(self, by: object, hold: H) -> None:
        """Adds a hold."""
        self._entries.append((by, hold))

    def last(self, by: object) -> tuple[object, H]:
        """Returns the entry of the innermost block. A block may end in another task or thread."""
        own = [entry for entry in list(self._entries) if entry[0] == by]
        return (own or self._entries)[-1]

    def remove(self, entry: tuple[object, H]) -> None:
        """Removes an entry."""
        self._entries.remove(entry)


class HoldView:
    """What a holder sees of its hold, without I/O.

    `token` is the fencing token: each hold of a name has a greater one. `abandoned` tells that the
    previous holder died without releasing.

    A hold that is garbage-collected is given back, with a `ResourceWarning`. So keep it for as long
    as you need it.
    """

    def __init__(self, core: Core, lease: Lease, release: Call, abandoned: bool) -> None:
        self._core, self._lease, self._release_call = core, lease, release
        self.token, self.abandoned = lease.token, abandoned
        self.name, self.owner = lease.place.name, lease.owner
        self._released = False

    @property
    def state(self) -> str:
        """`held`, `unknown` while the last renewal has no clear answer, or `lost`."""
        return "lost" if self.lost_cause is not None else self._lease.state(now())

    @property
    def lost_cause(self) -> Optional[str]:
        """Why the hold is over; `None` while it is held.

        `expired`, `taken`, `revoked`, `forgotten`, `unreachable`, `closed`, `forked`, `released`.
        """
        return "forked" if self._core.is_forked() else self._lease.cause(now())

    @property
    def remaining(self) -> float:
        """The seconds for which the holder may rely on the hold."""
        if self.lost_cause is not None:
            return 0.0
        return max(self._lease.valid_until - now(), 0.0) / 1000

    def check(self) -> None:
        """Raises `LockLost` if the hold is over. Reads the clock and sends nothing."""
        cause = self.lost_cause
        if cause is not None:
            with about(self._lease.place):
                raise LockLost(cause=cause)

    def _pause(self) -> float:
        """Returns for how many seconds to wait for a loss before the next look at the clock."""
        left = (self._lease.wake_at_loss - now()) / 1000
        # Timers may stand still while the machine is suspended, so that no wait is long.
        return max(min(left, 60.0), 0.0)

    def _undo(self) -> Undo:
        return Undo(self._release_call, self._lease.valid_until + self._lease.lease + 10_000)

    def _give_back(self) -> None:
        """Ends the hold in the background. Takes no lock."""
        raise NotImplementedError

    def __del__(self) -> None:
        # Runs at any point of any thread.
        if getattr(self, "_released", True) or sys.is_finalizing() or self._core.is_forked():
            return
        held, text = self.lost_cause is None, f"{self!r} was dropped before its release"
        self._give_back()
        if held:
            warnings.warn(f"{text}; it is given back", ResourceWarning, source=self)

    def __repr__(self) -> str:
        return f"<redlatch.{type(self).__name__} {self.name!r} {self.state}>"


def new_lease(
    core: Core, place: Place, machine: Acquisition, step: Deliver, lease: int, renew: bool
) -> Lease:
    """Begins the lease of a delivered hold."""
    token, renewed = step.grant.token, renew and step.grant.lasts is None
    held = Lease(place, machine.owner, token, lease, step.valid_until, renewed=renewed)
    held.schedule(step.sent, core.random())
    return held
