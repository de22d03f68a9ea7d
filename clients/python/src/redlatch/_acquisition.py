"""One acquisition as a state machine without I/O, clock or randomness.

The caller asks for a step, carries it out, reports what happened, and asks again. The vectors in
`vectors/client` check it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable, Optional, Union

from . import _calls as calls
from ._calls import Busy, Call, Granted, Other, Place
from ._time import REACH, TIMER_GRAIN, ServerClock, attempt_timeout, valid_until
from .errors import Unavailable, WrongKind

if TYPE_CHECKING:
    from ._wire import NoAnswer

RECHECK = 2000.0
UNSUBSCRIBED_RECHECK = 250.0
_AFTER_EXPIRY = 2.0
# How long after the deadline of a caller its last request may be answered, once to twice this.
_GRACE = 250.0


@dataclass(frozen=True)
class Settings:
    """What all acquisitions of a client have in common. Times are ms."""

    prefix: str
    client: str
    retention: int = 600_000
    patience: float = 10_000.0
    drift: float = 0.01
    allowance: int = 0

    @property
    def channel(self) -> str:
        """The wake channel of the client."""
        return f"{self.channels}{self.client}"

    @property
    def channels(self) -> str:
        """The beginning of the wake channels of all clients."""
        return f"{self.prefix}:w:"


@dataclass(frozen=True)
class Options:
    """What one caller asks for. Times are ms on this process's clock."""

    lease: int
    waits: bool
    deadline: Optional[float] = None


@dataclass(frozen=True)
class Send:
    """Send the call, and report its reply within `timeout`."""

    call: Call
    timeout: float


@dataclass(frozen=True)
class Subscribe:
    """See that messages reach the client, and report whether they do."""


@dataclass(frozen=True)
class Wait:
    """Wait until then, for a message at most."""

    until: float


@dataclass(frozen=True)
class Pause:
    """Wait until then, whatever happens."""

    until: float


@dataclass(frozen=True)
class StartOver:
    """The attempt is useless: send this undo in the background, and go on."""

    undo: Optional["Undo"]


@dataclass(frozen=True)
class Deliver:
    """The caller has the name."""

    grant: Granted
    sent: float
    valid_until: float


@dataclass(frozen=True)
class End:
    """Another owner has the name, and the caller waits no longer."""


Step = Union[Send, Subscribe, Wait, Pause, StartOver, Deliver, End]


@dataclass(frozen=True)
class Undo:
    """A release to repeat until it is answered, or until `give_up`."""

    call: Call
    give_up: float


class _State(enum.Enum):
    ASK = enum.auto()
    SUBSCRIBE = enum.auto()
    WAIT = enum.auto()
    FAILED = enum.auto()
    OVER = enum.auto()
    GRANTED = enum.auto()


class Acquisition:
    """The decisions of one acquisition."""

    def __init__(
        self,
        place: Place,
        settings: Settings,
        options: Options,
        clock: ServerClock,
        draw: Callable[[], int],
        random: Callable[[], float],
        now: float,
        subscribed: bool,
    ) -> None:
        self.place, self._settings, self._options = place, settings, options
        self._clock, self._draw, self._random = clock, draw, random
        self._subscribed = subscribed
        self._owner = draw()
        self._heard = now
        self._until = 0.0
        self._failures = 0
        self._lates = 0
        self._voids = 0
        self._asked = False
        self._may_have_run = False
        self._told: Optional[NoAnswer] = None
        self._state = _State.ASK
        self._deliver: Optional[Deliver] = None
        self._fresh_attempt()

    def _fresh_attempt(self) -> None:
        self.attempt = self._draw()
        self._outstanding = 0
        self._act_before = 0
        self._sent = 0.0
        self._registers = False
        self._registered = False
        self._granted = False
        self._traces = False

    @property
    def owner(self) -> str:
        """The owner, `<client>:<n>`."""
        return f"{self._settings.client}:{self._owner}"

    def step(self, now: float) -> Step:
        """Returns what to do at `now`.

        Raises `Unavailable` if the server was silent for the client's patience, or until the
        caller's deadline.
        """
        deadline = self._options.deadline
        over = deadline is not None and now >= deadline
        if self._state is _State.GRANTED and self._deliver:
            return self._deliver
        if self._state is _State.OVER:
            undo = self.abandon(now)
            self._fresh_attempt()
            if self._voids == 1:
                self._state = _State.ASK
            else:
                self._failed(now)
            return StartOver(undo)
        if self._state is _State.FAILED:
            silent = now - self._heard >= self._settings.patience
            if over or silent:
                raise self._unavailable()
            if now < self._until:
                return Pause(self._bound(self._until))
            self._state = _State.ASK
        if self._state is _State.WAIT:
            if over or not self._options.waits:
                return End()
            if now < self._until:
                return Wait(self._bound(self._until))
            self._state = _State.ASK
        if over and self._asked:
            if self._failures:
                raise self._unavailable()
            return End()
        if self._state is _State.SUBSCRIBE:
            return Subscribe()
        return self._ask(now)

    def _unavailable(self) -> Unavailable:
        why = str(self._told or "the server did not answer in time")
        return Unavailable(why, may_have_run=self._may_have_run)

    def _bound(self, until: float) -> float:
        deadline = self._options.deadline
        return until if deadline is None else min(until, deadline)

    def _ask(self, now: float) -> Send:
        settings, options = self._settings, self._options
        by = self._clock.act_before(now)
        lease = options.lease + settings.allowance
        queued = self.place.kind.queued
        self._registers = options.waits and (queued or self._subscribed)
        self._registered |= self._registers
        self._act_before = max(self._act_before, by)
        self._outstanding += 1
        self._sent = now
        self._asked = True
        call = self.place.call(
            "acquire",
            by,
            settings.client,
            lease,
            lease + settings.retention,
            "",
            f":{self._owner}",
            f":{self.attempt}",
            calls.REGISTERED if self._registers else "",
            self.address if options.waits else "",
        )
        timeout = attempt_timeout(options.lease)
        if options.deadline is not None:
            # A reply that is on its way at the deadline counts. Steps, since a time-out may be that
            # of a connection.
            timeout = min(timeout, _GRACE * ((options.deadline - now) // _GRACE + 2))
        return Send(call, timeout)

    @property
    def address(self) -> str:
        """The address of this waiter."""
        kind, channel = self.place.kind, self._settings.channel
        return calls.address(kind, channel, self.attempt, self._owner)

    def on_reply(self, now: float, reply: object) -> Optional[int]:
        """Takes over a reply. Returns the number of another waiter of this client that is called.

        Raises `WrongKind` or `ProtocolError`.
        """
        try:
            millis, answer = calls.acquired(reply)
        except WrongKind:
            self._outstanding -= 1
            raise
        self._outstanding -= 1
        self._clock.observe(now, millis)
        if isinstance(answer, Granted):
            self._on_granted(now, answer)
        elif isinstance(answer, Busy):
            self._answered(now)
            # The server refuses copies of a try that was busy.
            self._traces |= self._options.waits
            self._on_busy(now, answer)
            return answer.called
        else:
            self._on_other(now, answer)
        return None

    def _answered(self, now: float) -> None:
        self._heard, self._failures, self._lates, self._voids = now, 0, 0, 0

    def _on_granted(self, now: float, grant: Granted) -> None:
        self._granted, self._voids = True, 0
        span = self._options.lease
        if grant.lasts is not None:
            span = min(span, max(grant.lasts - self._settings.allowance, 0))
        until = valid_until(self._sent, span, self._settings.drift)
        if now >= until - TIMER_GRAIN:
            self._state = _State.OVER
        else:
            self._state = _State.GRANTED
            self._deliver = Deliver(grant, self._sent, until)

    def _on_busy(self, now: float, busy: Busy) -> None:
        would_hear = self._registers and self._subscribed
        look = float("inf") if busy.look is None else busy.look + _AFTER_EXPIRY
        if self._options.waits and not would_hear:
            self._state = _State.SUBSCRIBE
        else:
            self._state = _State.WAIT
        recheck = RECHECK * (0.8 + 0.4 * self._random())
        if not self._subscribed:
            recheck = UNSUBSCRIBED_RECHECK
        self._until = now + min(recheck, look)

    def _on_other(self, now: float, answer: Other) -> None:
        self._state = _State.ASK
        if answer.word == "void":
            self._voids += 1
            if self._voids == 1:
                self._heard = now
            self._state = _State.OVER
        elif answer.word == "more":
            self._traces = True
            self._answered(now)
        else:
            self._lates += 1
            if self._lates > 1:
                self._failed(now)
            else:
                self._heard = now

    def on_failure(
        self, *, may_have_run: bool, now: float, error: Optional[NoAnswer] = None
    ) -> None:
        """Takes over that a request has no clear answer, and why."""
        if not may_have_run:
            self._outstanding -= 1
        # The words of the server say more than the silence that may follow.
        if error and (error.words or not self._told):
            self._told = error
        self._may_have_run |= may_have_run
        self._failed(now)

    def _failed(self, now: float) -> None:
        self._failures += 1
        self._state = _State.FAILED
        whole = min(10.0 * 2 ** min(self._failures - 1, 20), 500.0)
        pause = whole / 2 + whole / 2 * self._random()
        last = self._heard + self._settings.patience
        self._until = min(now + pause, max(last, now))

    def on_message(self) -> None:
        """Takes over a message for this waiter."""
        if self._state is _State.WAIT:
            self._state = _State.ASK

    def on_subscribed(self, now: float, subscribed: bool) -> None:
        """Takes over whether messages reach the client."""
        self._subscribed = subscribed
        if self._state is _State.SUBSCRIBE:
            self._state = _State.ASK if subscribed else _State.WAIT
            self._until = now + UNSUBSCRIBED_RECHECK
        elif self._state is _State.WAIT and subscribed:
            self._state = _State.ASK
        elif self._state is _State.WAIT:
            self._until = min(self._until, now + UNSUBSCRIBED_RECHECK)

    def _release(self, token: str, *, void: bool, has_place: bool) -> Call:
        settings = self._settings
        return self.place.call(
            "release",
            settings.client,
            settings.retention,
            f":{self._owner}",
            f":{self.attempt}",
            str(self._act_before) if void else "",
            self.address if has_place else "",
            token,
        )

    def release(self) -> Call:
        """Returns the release of the delivered hold."""
        if not self._deliver:
            raise AssertionError("nothing was delivered")
        # A grant removes the place; a late copy may enter it again.
        copies = self._outstanding > 0
        has_place = self._registered and copies
        token = str(self._deliver.grant.token)
        return self._release(token, void=copies, has_place=has_place)

    def abandon(self, now: float) -> Optional[Undo]:
        """Returns the undo of what the requests have done or may still do, if there is any."""
        if not (self._outstanding or self._granted or self._registered or self._traces):
            return None
        lease = self._options.lease + self._settings.allowance
        undo = self._release("", void=True, has_place=self._registered)
        return Undo(undo, now + lease + 2 * REACH)
