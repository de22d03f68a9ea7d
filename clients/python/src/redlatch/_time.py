"""Clocks, leases and margins. All times are ms. See "Time" in docs/contributing/protocol.md."""

from __future__ import annotations

import time

_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", None)

# The last server time at which a request may act, from the time of its sending.
REACH = 5000.0
# A timer may be this late: the holder is told this long before its deadline.
TIMER_GRAIN = 2.0


def now() -> float:
    """Returns the ms of a clock that never goes back.

    On Linux it also counts the time of a suspended machine.
    """
    if _BOOTTIME is not None:
        return time.clock_gettime_ns(_BOOTTIME) / 1e6
    return time.monotonic_ns() / 1e6


def valid_until(sent: float, lease: float, drift: float) -> float:
    """Returns until when the holder may rely on a lease that was asked for at `sent`.

    The rule is from C. Gray and D. Cheriton, "Leases", SOSP 1989: count from before the sending,
    and take off what two clocks may differ by.
    """
    margin = 2 * drift * lease + 4
    return sent + max(lease - margin, 0)


def attempt_timeout(lease: float) -> float:
    """Returns how long one request waits for its reply."""
    return min(max(lease / 6, 10.0), 1000.0)


class ServerClock:
    """The server's time as its replies tell it, advanced by this process's clock."""

    def __init__(self, received: float, millis: float) -> None:
        self._received, self._millis = received, millis

    def observe(self, received: float, millis: float) -> None:
        """Takes over the time of a reply. An older reply changes nothing."""
        if received >= self._received:
            self._received, self._millis = received, millis

    def millis(self, now: float) -> float:
        """Returns the server's time."""
        return self._millis + max(now - self._received, 0)

    def act_before(self, now: float) -> int:
        """Returns the last server time at which a request that is sent now may act."""
        return int(self.millis(now)) + int(REACH)
