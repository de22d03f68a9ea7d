"""The calls of rate limiters, and their replies. Only this file knows the order of their `ARGV`.

The scripts serve lists of names. A call of this client is a list of one.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from typing import Any, Optional, Union

from ._calls import Call, Kind, Other, Place, items, other_kind
from ._options import YEAR
from ._rate import Level, Rate
from ._time import now
from .errors import ProtocolError

LIMIT = Kind("rate limiter", "limit", (), False)

# The most passes of one attempt.
MOST_PASSES = 64
# How long copies of a request are sent, and how long a script remembers it, in ms. A copy acts
# within 5 s.
COPIES = 20_000.0
_REMEMBERED = 30_000


@dataclass(frozen=True)
class Mark:
    """What a settlement has to know of a pass. All times are µs.

    Its debt ends at `start` + `left`, and the rate was new at `born`. No pass that was taken ahead
    before counts later than `turn`. It counts `wait` after `start`.
    """

    start: int
    left: int
    born: int
    turn: int
    wait: int


@dataclass(frozen=True)
class Take:
    """Asks for passes that count until then: ms of this process's clock, or `None` for now."""

    rate: Rate
    cost: int
    until: Optional[float] = None

    def call(self, place: Place, client: str, attempt: int, passes: int) -> Call:
        """Makes the undated call of an attempt. All copies have the same time to wait."""
        rate, wait = self.rate, 0.0
        if self.until is not None:
            wait = min(max(self.until - now(), 0), YEAR * 1000)
        parts = (rate.count, rate.period, rate.burst, self.cost, passes, int(wait * 1000))
        terms = "/".join(map(str, parts))
        return place.call("acquire", client, _REMEMBERED, f":{attempt}", terms)

    def joins(self, other: "Request") -> bool:
        """Tells whether one attempt can ask for both."""
        if not isinstance(other, Take):
            return False
        return replace(self, until=None) == replace(other, until=None)


@dataclass(frozen=True)
class Settle:
    """Adds tokens to the cost of a pass, or gives some back, which then are below 0."""

    rate: Rate
    cost: int
    tokens: int
    mark: Optional[Mark]

    def call(self, place: Place, client: str, attempt: int, _: int) -> Call:
        """Makes the undated call of an attempt."""
        mark = ("",) * 5 if self.mark is None else astuple(self.mark)
        args = (self.rate.count, self.rate.period, self.cost, self.tokens, *mark)
        return place.call("settle", client, _REMEMBERED, f":{attempt}", *args)

    def joins(self, other: "Request") -> bool:
        """Tells whether one attempt can ask for both."""
        return False


Request = Union[Take, Settle]


@dataclass(frozen=True)
class Passed:
    """How many passes were taken, and when they count. All times are µs.

    `wait` is the time until they count, or until one may be taken. `mark` is `None` in the answer
    to a copy.
    """

    passes: int
    wait: int
    debt: int
    at: int
    mark: Optional[Mark]

    def without(self, request: Take) -> "Passed":
        """Returns the answer without one of its passes, which is given back."""
        if self.mark is None:
            # Nothing can be given back.
            return self
        time = request.cost * request.rate.period // request.rate.count
        return replace(self, passes=0, debt=max(self.debt - time, 0))

    def each(self, request: Take) -> list["Passed"]:
        """Returns the passes one by one. The debt of each ends before that of the later ones."""
        mark = self.mark
        if mark is None:
            return [self] * self.passes
        later = [request.rate.time(request.cost * left) for left in range(self.passes)]
        marks = [replace(mark, left=mark.left - time) for time in reversed(later)]
        return [replace(self, mark=own) for own in marks]


def changed(reply: Any) -> tuple[int, Union[Passed, Other]]:
    """Reads the reply of a change: the server's time, and what has passed, `settled`, or `late`.

    Raises `WrongKind`, or `ProtocolError` for a reply that no version of the scripts gives.
    """
    found = items(reply)
    try:
        millis, word = int(found[0]), found[1]
        if word == "kind":
            raise other_kind(found[2])
        if word in ("late", "settled"):
            return millis, Other(word)
        if word == "passed":
            passes, wait, debt, at = map(int, found[2:6])
            mark = None
            if found[6]:
                start, left, born, turn = map(int, found[6:10])
                mark = Mark(start, left, born, turn, wait)
            return millis, Passed(passes, wait, debt, at, mark)
    except (IndexError, ValueError) as error:
        raise ProtocolError(f"a rate limiter answered {reply!r}") from error
    raise ProtocolError(f"a rate limiter answered {reply!r}")


def level(rate: Rate, reply: Any) -> Level:
    """Reads the reply of `look`, in the light of a rate."""
    found = items(reply)
    try:
        if found[1] == "kind":
            raise other_kind(found[2])
        if found[1] == "free":
            return Level(rate, 0, 0)
        if found[1] == "owes":
            debt, count, period, ahead, turn = map(int, found[2:7])
            if (count, period) != (rate.count, rate.period):
                # The new rate begins when all passes count that were taken ahead.
                debt, ahead = turn + rate.time(Rate(count, period, 1).owed(debt - turn)), turn
            return Level(rate, debt, ahead)
    except (IndexError, ValueError) as error:
        raise ProtocolError(f"look answered {reply!r}") from error
    raise ProtocolError(f"look answered {reply!r}")
