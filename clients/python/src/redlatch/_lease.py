"""A delivered hold as a state machine without I/O, clock or randomness."""

from __future__ import annotations

from typing import Optional

from . import _calls as calls
from ._calls import Call, Place
from ._time import TIMER_GRAIN, valid_until

# What the verdict of a renewal says of the hold.
_LOST = {
    "expired": "expired",
    "taken": "taken",
    "revoked": "revoked",
    "gone": "forgotten",
    "kind": "forgotten",
}


class Lease:
    """Until when a holder may rely on its hold, and when to renew it. Loss is final."""

    def __init__(
        self, place: Place, owner: str, token: int, lease: int, until: float, *, renewed: bool
    ) -> None:
        self.place, self.owner, self.token, self.lease = place, owner, token, lease
        self.valid_until = until
        self._renewed = renewed
        self._troubled = False
        self._cause: Optional[str] = None
        self.renew_at = float("inf")

    def schedule(self, sent: float, random: float) -> None:
        """Plans the first renewal of a hold that was delivered at `sent`."""
        if self._renewed:
            self.renew_at = sent + self.lease / 3 * (0.8 + 0.2 * random)

    def hurry(self, at: float) -> None:
        """Renews the hold at this time, unless it is never renewed or a renewal is due before."""
        if self.renew_at != float("inf"):
            self.renew_at = min(self.renew_at, at)

    def cause(self, now: float) -> Optional[str]:
        """Returns why the hold is lost, or `None` while it is not."""
        if self._cause is None and now >= self.valid_until - TIMER_GRAIN:
            self._cause = "unreachable" if self._troubled else "expired"
        return self._cause

    def state(self, now: float) -> str:
        """Returns `held`, `unknown` or `lost`."""
        if self.cause(now) is not None:
            return "lost"
        return "unknown" if self._troubled else "held"

    def lose(self, cause: str) -> None:
        """Ends the hold, unless it has ended before."""
        if self._cause is None:
            self._cause = cause

    def renewal(
        self, act_before: int, retention: int, allowance: int, span: Optional[int] = None
    ) -> Call:
        """Returns the call that renews the hold for `span`, which is the lease by default."""
        lease = (span or self.lease) + allowance
        return calls.renew(
            self.place, act_before, self.owner, lease, lease + retention, str(self.token)
        )

    def on_renewed(
        self,
        sent: float,
        now: float,
        verdict: str,
        drift: float,
        random: float,
        span: Optional[int] = None,
    ) -> None:
        """Takes over the verdict of a renewal for `span` that was sent at `sent`.

        `span` is the lease by default.
        """
        if self.cause(now) is not None:
            return
        if verdict == "renewed":
            until = valid_until(sent, span or self.lease, drift)
            self.valid_until = max(self.valid_until, until)
            self._troubled = False
            self.schedule(sent, random)
        elif verdict in _LOST:
            self.lose(_LOST[verdict])
        else:
            self.on_trouble(now, random)

    def on_trouble(self, now: float, random: float) -> None:
        """Takes over that a renewal has no clear answer."""
        if self.cause(now) is None:
            self._troubled = True
            pause = min(self.lease / 20, 1000.0)
            self.renew_at = now + pause * (0.5 + 0.5 * random)

    @property
    def wake_at_loss(self) -> float:
        """When the holder is told, if nothing renews the hold before."""
        return self.valid_until - TIMER_GRAIN


RELEASED = {
    "released": "free",
    "already": "free",
    "expired": "expired",
    "taken": "taken_over",
    "revoked": "revoked",
    "gone": "forgotten",
    "kind": "forgotten",
}


def released(verdict: str, *, resent: bool) -> str:
    """Returns what the verdict of a release means: one of the words of `Hold.release`."""
    if resent and verdict in ("taken", "gone", "kind"):
        return "unconfirmed"
    return RELEASED[verdict]
