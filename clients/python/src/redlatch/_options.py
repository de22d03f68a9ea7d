"""The options of clients and locks: their types, for type checkers, and their bounds."""

from __future__ import annotations

from numbers import Real
from typing import Any, Optional, Type, TypedDict

from .errors import InvalidLease, InvalidOption, RedlatchError

DAY = 24 * 3600.0
YEAR = 365 * DAY


class ClientOptions(TypedDict, total=False):
    """The options of `Client`. Spans are in seconds."""

    prefix: str
    lease: float
    application: str
    client_name: str
    token_retention: float
    patience: float
    connect_timeout: float
    clock_drift: float
    server_clock_allowance: float


class LockOptions(TypedDict, total=False):
    """The options of `lock` and `fair_lock`. Spans are in seconds."""

    lease: Optional[float]
    renew: bool
    wait: Optional[float]


def number(
    what: str,
    value: Any,
    bounds: tuple[float, float],
    allowed: str,
    error: Type[RedlatchError] = InvalidOption,
) -> float:
    """Returns a number between two bounds.

    Raises `error`, which says what is `allowed`.
    """
    # A bool is a number for Python, and a mistake for a reader.
    if not isinstance(value, Real) or isinstance(value, bool):
        raise error(f"{what} is a number, {allowed}, and not {value!r}")
    least, most = bounds
    try:
        found = float(value)
    except OverflowError:
        found = float("-inf") if isinstance(value, int) and value < 0 else float("inf")
    if not least <= found <= most:
        raise error(f"{what} of {value} is not allowed; it is {allowed}")
    return found


def lease_ms(seconds: object, *, renewed: bool) -> int:
    """Returns a lease in whole ms.

    Raises `InvalidLease` if it is out of bounds.
    """
    least, words = (1.0, "1 s") if renewed else (0.05, "0.05 s")
    allowed = f"{words} to 365 days, in seconds"
    return int(number("a lease", seconds, (least, YEAR), allowed, InvalidLease) * 1000)


def wait_ms(seconds: object) -> Optional[float]:
    """Returns how long a caller waits, in ms; `None` without end, as for a wait of years.

    Raises `InvalidOption` for what is no number.
    """
    if seconds is None:
        return None
    allowed = "in seconds, or None to wait without end"
    least = float("-inf")
    wait = number("a wait", seconds, (least, float("inf")), allowed) * 1000
    return None if wait > YEAR * 1000 else max(wait, 0.0)
