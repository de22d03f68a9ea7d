"""What rate limiters answer, as both clients show it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ._limit_calls import Passed, Settle, Take
from ._rate import Level, Rate, whole
from .errors import InvalidOption


@dataclass(frozen=True)
class Refusal:
    """The refusal of a rate limiter, which is false. Nothing was taken."""

    retry_after: float
    """The seconds until the same call would pass, if nothing else is taken before."""
    reset_after: float
    """The seconds until the whole burst is free again, if nothing is taken before."""
    remaining: int
    """The tokens that a smaller call could take at once."""

    @classmethod
    def of(cls, request: Take, passed: Passed) -> "Refusal":
        """Says when a request would pass. A new rate may begin later than the debt says."""
        rate = request.rate
        level = Level(rate, passed.debt)
        wait, by_debt = passed.wait / 1_000_000, rate.retry_after(passed.debt, request.cost)
        remaining = 0 if wait > by_debt else level.remaining
        return cls(max(wait, by_debt), level.reset_after, remaining)

    def __bool__(self) -> Literal[False]:
        return False


class PassView:
    """What a caller sees of its pass, without I/O. The pass is true.

    `cost` is in tokens. They are used, whether you keep or drop the pass.
    """

    def __init__(self, rate: Rate, cost: int, passed: Passed) -> None:
        self.cost = cost
        self._rate, self._passed, self._settled = rate, passed, False

    @property
    def remaining(self) -> int:
        """The tokens that the next call could take at once."""
        return self._rate.left(self._passed.debt)

    @property
    def reset_after(self) -> float:
        """The seconds until the whole burst is free again, if nothing more is taken."""
        return Level(self._rate, self._passed.debt).reset_after

    @property
    def counts_at(self) -> float:
        """When the pass counts: seconds since 1970, by the server's clock.

        If the request was repeated, the time may be up to 1 ms too early.
        """
        return self._passed.at / 1e6

    def _settlement(self, actual: object) -> Settle:
        """Returns the request that sets the cost, once."""
        tokens = min(whole("the actual cost in tokens", actual, 0), 1 << 53)
        if self._settled:
            raise InvalidOption("the pass was settled before; settle it once, at the end")
        self._settled = True
        return Settle(self._rate, self.cost, tokens - self.cost, self._passed.mark)

    def __bool__(self) -> Literal[True]:
        return True

    def __repr__(self) -> str:
        return f"<redlatch.{type(self).__name__} of {self.cost} tokens>"
