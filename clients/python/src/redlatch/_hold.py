"""A hold of the synchronous client."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Callable, Optional, TypeVar

from . import _plans as plans
from ._base import HoldView, about
from ._calls import Call
from ._keeper import carry_out
from ._lease import Lease
from ._options import lease_ms
from ._plans import Plan
from ._time import now

if TYPE_CHECKING:
    from ._sync import Client

T = TypeVar("T")
_log = logging.getLogger("redlatch")


class Hold(HoldView):
    """A lock that is held. See `HoldView` for what it tells."""

    def __init__(self, client: "Client", lease: Lease, release: Call, abandoned: bool) -> None:
        self._client = client
        super().__init__(client._core, lease, release, abandoned)
        self._told = threading.Event()
        self._telling = threading.Lock()
        self._callbacks: list[Callable[[Hold], object]] = []

    def wait_lost(self, seconds: Optional[float] = None) -> bool:
        """Waits until the hold is lost, at most for this time. Returns whether it is.

        A release is no loss.
        """
        until = float("inf") if seconds is None else now() + seconds * 1000
        while not self._told.is_set() and self.lost_cause in (None, "released"):
            left = (until - now()) / 1000
            if left <= 0:
                return False
            # Its own timer: the thread that should tell may have failed.
            self._told.wait(min(left, self._pause() if self.lost_cause is None else 60.0))
        return True

    def on_lost(self, callback: "Callable[[Hold], object]") -> None:
        """Calls `callback` once with this hold when it is lost, in a thread of the client."""
        with self._telling:
            if not self._told.is_set():
                self._callbacks.append(callback)
                return
        callback(self)

    def _tell(self) -> None:
        with self._telling:
            if self._told.is_set():
                return
            self._told.set()
        for callback in self._callbacks:
            try:
                callback(self)
            except Exception:
                _log.exception("a callback for the loss of %r has failed", self.name)

    def owned(self) -> bool:
        """Asks the server whether the hold still stands. Costs one request. See `Lock.info`."""
        with about(self._lease.place):
            self._core.check_open()
        found = self._carry_out(plans.inspect(self._core, self._lease.place))
        return found is not None and found["token"] == self.token

    def extend(self, seconds: float) -> None:
        """Moves the end of the lease to `seconds` from now, at least: 50 ms to 365 days.

        Never shortens it. Costs one request. Raises `LockLost` if the hold is over, `InvalidLease`,
        `Unavailable`, `Refused` or `ClientClosed`. After an error other than `LockLost`, the hold
        ends when it would have, or later.
        """
        span = lease_ms(seconds, renewed=False)
        self.check()
        clock = self._client._link.clock
        self._carry_out(plans.extend(self._core, clock, self._lease, span))
        self._client._keeper.wake()
        self.check()

    def release(self) -> str:
        """Ends the hold. Returns how it ended.

        `free`; `expired` or `taken_over` if the lease had ended before; `revoked`; `forgotten`;
        `unconfirmed` if a repeated request found nothing. A second call returns `free`.

        Raises `Unavailable` after the client's patience. The release goes on in the background.
        Raises `ClientClosed` in a fork of the process, which cannot end the hold.
        """
        with about(self._lease.place):
            self._core.check_not_forked()
        if self._released:
            return "free"
        try:
            self._released = True
            self._client._keeper.remove(self._lease)
            self._lease.lose("released")
            return self._carry_out(plans.release(self._core, self._undo()))
        except BaseException:
            give_back([self])
            raise

    def _carry_out(self, plan: Plan[T]) -> T:
        with about(self._lease.place):
            self._core.check_not_forked()
            return carry_out(self._client._link, plan)

    def _give_back(self) -> None:
        # The keeper sees that the lease is lost, and forgets it.
        self._released = True
        self._lease.lose("released")
        self._client._releaser.put(self._undo())


def give_back(holds: "list[Hold]") -> None:
    """Releases holds in the background, after an exception at an unknown place."""
    for hold in holds:
        if not hold._core.is_forked():
            hold._give_back()
