"""Rates, and the arithmetic of their debts. A debt is the time in µs until all tokens are paid."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Optional

from ._options import YEAR, number
from .errors import InvalidOption, OutOfRange

# Scripts count with the 53 bits of floats.
_BITS = 1 << 53
_MICROS = 1_000_000


def whole(what: str, value: Any, least: int) -> int:
    """Returns a whole number of at least this.

    Raises `InvalidOption` for all else.
    """
    # A bool is a number for Python, and a mistake for a reader.
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise InvalidOption(f"{what} is a whole number, {least} or more, and not {value!r}")
    return int(value)


@dataclass(frozen=True)
class Rate:
    """A rate and a burst: `count` tokens in `period` µs, without a common divisor."""

    count: int
    period: int
    burst: int

    @classmethod
    def of(cls, rate: Any, per: Any, burst: Any) -> "Rate":
        """Reads the options of a rate limiter. Without a burst, it is the rate.

        Raises `InvalidOption` for what is out of bounds.
        """
        count = whole("the rate in tokens, per as many seconds as `per` says,", rate, 1)
        if count >= _BITS:
            raise InvalidOption(f"a rate of {count} tokens is not allowed; it is below 2^53")
        seconds = number("per", per, (1 / _MICROS, YEAR), "1 µs to 365 days, in seconds")
        period = round(seconds * _MICROS)
        divisor = math.gcd(count, period)
        found = cls(
            count // divisor,
            period // divisor,
            count if burst is None else whole("a burst in tokens", burst, 1),
        )
        most = min((_BITS - 1) // found.count, int(YEAR) * _MICROS * found.count // found.period)
        if found.burst > most:
            raise InvalidOption(
                f"a burst of {found.burst} tokens is not allowed; with this rate it is 1 to {most}"
            )
        return found

    def check(self, cost: Any) -> int:
        """Returns a cost.

        Raises `OutOfRange` if it is above the burst, and `InvalidOption` if it is no cost.
        """
        tokens = whole("a cost in tokens", cost, 1)
        if tokens > self.burst:
            raise OutOfRange(
                f"a cost of {tokens} tokens never passes: the burst is {self.burst}; take less at "
                "once, or raise the burst"
            )
        return tokens

    def time(self, tokens: int) -> int:
        """Returns the µs in which tokens are paid, rounded up."""
        return -(-tokens * self.period // self.count)

    def owed(self, debt: int) -> int:
        """Returns the tokens that are paid in this many µs, rounded up.

        A debt is itself rounded up to whole µs, which adds no token.
        """
        return (debt - 1) * self.count // self.period + 1 if debt else 0

    def left(self, debt: int) -> int:
        """Returns the tokens that pass at once."""
        return max(self.burst - self.owed(debt), 0)

    def retry_after(self, debt: int, cost: int) -> float:
        """Returns the seconds until `cost` passes."""
        room = (self.burst - cost) * self.period // self.count
        return max(debt - room, 0) / _MICROS


@dataclass(frozen=True, repr=False)
class Level:
    """The state of a rate limiter, with its options."""

    _rate: Rate
    _debt: int
    # The µs until the last rate begins. Nothing passes before.
    _ahead: int = 0

    @property
    def remaining(self) -> int:
        """The tokens that a call could take at once."""
        return 0 if self._ahead else self._rate.left(self._debt)

    @property
    def reset_after(self) -> float:
        """The seconds until the whole burst is free again, if nothing is taken before."""
        return self._debt / _MICROS

    def retry_after(self, cost: int = 1) -> Optional[float]:
        """Returns the seconds until `cost` tokens pass; `None` if that is above the burst."""
        if cost > self._rate.burst:
            return None
        return max(self._rate.retry_after(self._debt, cost), self._ahead / _MICROS)

    def __repr__(self) -> str:
        return f"<redlatch.Level {self.remaining} of {self._rate.burst} tokens>"
