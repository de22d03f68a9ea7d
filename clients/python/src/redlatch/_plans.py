"""What both clients do with requests and their answers, without I/O.

A plan is a generator. It yields a request or a pause, gets the reply, or the exception in its
place, and returns the result. Each client has one loop that carries plans out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Generator, Optional, TypeVar, Union

from . import _calls as calls
from ._acquisition import Undo
from ._base import Core
from ._calls import Call, Info, Place
from ._lease import Lease, released
from ._limit_calls import COPIES, Passed, changed, level
from ._rate import Level, Rate
from ._time import ServerClock, attempt_timeout, now
from ._wire import NoAnswer
from .errors import ProtocolError, RedlatchError, Refused, Unavailable, WrongKind

T = TypeVar("T")


@dataclass(frozen=True)
class Ask:
    """Send the call, and wait for its reply for `timeout` ms."""

    call: Call
    timeout: float = 1000.0


@dataclass(frozen=True)
class Rest:
    """Wait for this many ms."""

    ms: float


Plan = Generator[Union[Ask, Rest], Any, T]


def _insist(ask: Callable[[], Ask], until: float, read: Callable[[Any], T]) -> Plan[tuple[T, bool]]:
    """Repeats a call until it is answered. Returns what is read, and whether a copy may have run.

    `read` may raise `NoAnswer`. Raises `Unavailable` at `until`.
    """
    pause, resent = 20.0, False
    told: Optional[NoAnswer] = None
    while True:
        try:
            return read((yield ask())), resent
        except NoAnswer as error:
            resent |= error.may_have_run
            # The words of the server say more than the silence that may follow.
            told = error if error.words or told is None else told
            if now() + pause >= until:
                told.give_up(may_have_run=resent)
        yield Rest(pause)
        pause = min(2 * pause, 1000.0)


def release(core: Core, undo: Undo) -> Plan[str]:
    """Ends a hold. Returns how it ended."""
    ask, until = Ask(undo.call), now() + core.settings.patience
    try:
        (_, word, _), resent = yield from _insist(lambda: ask, until, calls.verdict)
    except WrongKind:
        # Another program has the key: nothing is left to release.
        return released("gone", resent=False)
    return released(word, resent=resent)


def give_back(undo: Undo) -> Plan[bool]:
    """Tries a release in the background. Returns whether to repeat it."""
    try:
        yield Ask(undo.call)
        return False
    except (WrongKind, Refused):
        return False
    except (NoAnswer, RedlatchError):
        return now() < undo.give_up


def inspect(core: Core, place: Place) -> Plan[Optional[Info]]:
    """Returns the present hold of a name."""
    ask = Ask(place.call("inspect"))
    found, _ = yield from _insist(lambda: ask, now() + core.settings.patience, calls.info)
    return found


def force(core: Core, place: Place, token: Optional[int]) -> Plan[Optional[int]]:
    """Ends the hold with this token, or the present one. Returns the token of what was ended."""
    if token is None:
        found = yield from inspect(core, place)
        if found is None:
            return None
        token = found["token"]
    settings = core.settings
    ask = Ask(place.call("force", token, "now", settings.retention, settings.channels))
    ended, _ = yield from _insist(lambda: ask, now() + core.settings.patience, calls.forced)
    return token if ended else None


def change(core: Core, clock: ServerClock, call: Call) -> Plan[Optional[Passed]]:
    """Sends a change of a rate limiter until it is answered, each copy with a date of its own.

    Returns what has passed, if that was asked for.
    """

    def ask() -> Ask:
        return Ask(call.dated(clock.act_before(now())))

    def read(reply: Any) -> Optional[Passed]:
        millis, answer = changed(reply)
        clock.observe(now(), millis)
        if isinstance(answer, Passed):
            return answer
        if answer.word == "late":
            raise NoAnswer("the server gets requests too late to act", may_have_run=False)
        return None

    until = now() + min(core.settings.patience, COPIES)
    answer, _ = yield from _insist(ask, until, read)
    return answer


def peek(core: Core, place: Place, rate: Rate) -> Plan[Level]:
    """Returns the state of a rate limiter."""
    ask, until = Ask(place.call("look")), now() + core.settings.patience
    found, _ = yield from _insist(lambda: ask, until, lambda reply: level(rate, reply))
    return found


def renew(core: Core, clock: ServerClock, lease: Lease) -> Plan[None]:
    """Sends one renewal, and records in the lease what came of it."""
    sent, settings = now(), core.settings
    call = lease.renewal(clock.act_before(sent), settings.retention, settings.allowance)
    try:
        millis, verdict, _ = calls.verdict((yield Ask(call, attempt_timeout(lease.lease))))
        received = now()
        clock.observe(received, millis)
        lease.on_renewed(sent, received, verdict, settings.drift, core.random())
    except WrongKind:
        lease.lose("forgotten")
    except (NoAnswer, RedlatchError):
        lease.on_trouble(now(), core.random())


def extend(core: Core, clock: ServerClock, lease: Lease, span: int) -> Plan[None]:
    """Moves the end of a hold to `span` from now, at least. Records a loss in the lease."""
    settings = core.settings
    until = min(lease.valid_until, now() + settings.patience)
    for _ in range(2):
        sent = now()
        by = clock.act_before(sent)
        call = lease.renewal(by, settings.retention, settings.allowance, span)
        try:
            ask = Ask(call, attempt_timeout(span))
            (millis, verdict, _), _ = yield from _insist(lambda: ask, until, calls.verdict)
        except WrongKind:
            return lease.lose("forgotten")
        received = now()
        clock.observe(received, millis)
        if verdict != "late":
            if verdict not in calls.RENEWALS:
                raise ProtocolError(f"renew answered {verdict!r}")
            return lease.on_renewed(
                sent, received, verdict, settings.drift, core.random(), span
            )
        # The reply has the server's time, so that the next request is dated rightly.
    raise Unavailable("the server got the extension too late; the lease is what it was")
