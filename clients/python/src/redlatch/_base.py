"""What the synchronous and the asynchronous client share."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import uuid
from typing import Any, Optional

from ._acquisition import Acquisition, Deliver, Options, Settings
from ._calls import FAIR, Kind, Place, items
from ._lease import Lease
from ._names import check_prefix, key_of
from ._time import ServerClock, lease_ms, now
from .errors import ClientClosed, LockLost, WrongKind

# How many names of fair locks a client remembers, the last ones. A message for a waiter that the
# client does not know is answered for these.
MOST_FAIR_KEYS = 10_000


class Core:
    """The ids and the settings of one client."""

    def __init__(
        self,
        *,
        prefix: str = "redlatch",
        lease: float = 30.0,
        token_retention: float = 600.0,
        patience: float = 10.0,
        clock_drift: float = 0.01,
        server_clock_allowance: float = 0.0,
    ) -> None:
        if not 0 <= clock_drift <= 0.2:
            raise ValueError(f"a clock drift of {clock_drift} is not allowed; it is 0 to 0.2")
        self.lease = lease
        lease_ms(lease, renewed=True)
        self.settings = Settings(
            prefix=check_prefix(prefix),
            client=uuid.UUID(bytes=os.urandom(16), version=4).hex,
            retention=int(token_retention * 1000),
            patience=patience * 1000,
            drift=clock_drift,
            allowance=int(server_clock_allowance * 1000),
        )
        self.fair_keys: dict[str, Place] = {}
        self._numbers = itertools.count(1)
        self._pid = os.getpid()
        self.closed = False

    def check_open(self) -> None:
        """Raises `ClientClosed` if the client cannot be used."""
        self.check_not_forked()
        if self.closed:
            raise ClientClosed("the client was closed")

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

    def unknown_waiter(self, message: str) -> Optional[tuple[Place, str]]:
        """Returns the place and the number that a message is for, if no waiter has that number.

        A message without a number is for any waiter. It needs no answer: the undo of the waiter
        that has left notifies the next one.
        """
        key, _, number = message.rpartition(" ")
        place = self.fair_keys.get(key)
        return (place, number) if place and number.isdigit() else None


def lock_options(
    core: Core, lease: Optional[float], renew: bool, wait: Optional[float]
) -> Options:
    """Reads the options of one acquisition. `wait` is in s; `None` waits without end."""
    ms = lease_ms(core.lease if lease is None else lease, renewed=renew)
    if wait is None:
        return Options(ms, waits=True)
    if wait <= 0:
        return Options(ms, waits=False)
    return Options(ms, waits=True, deadline=now() + wait * 1000)


class HoldView:
    """What a holder sees of its hold, without I/O.

    `token` is the fencing token: each hold of a name has a greater one. `abandoned` tells that the
    previous holder died without releasing.
    """

    def __init__(self, core: Core, lease: Lease, abandoned: bool) -> None:
        self._core, self._lease = core, lease
        self.token, self.abandoned = lease.token, abandoned
        self.name, self.owner = lease.place.name, lease.owner

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
        """Raises `LockLost` if the hold is over. Reads the clock and asks nobody."""
        cause = self.lost_cause
        if cause is not None:
            raise LockLost(self.name, cause)

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


def info_of(reply: object) -> Optional[dict[str, Any]]:
    """Reads the reply of `inspect`."""
    found = items(reply)
    if found[1] == "kind":
        raise WrongKind(f"the name belongs to an object of kind {found[2]}")
    if found[1] == "free":
        return None
    return {
        "owner": found[2],
        "count": int(found[3]),
        "token": int(found[4]),
        "remaining": int(found[5]) / 1000,
        "waiters": int(found[6]),
    }
