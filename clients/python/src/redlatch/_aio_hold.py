"""A hold of the asynchronous client."""

from __future__ import annotations

from typing import TypeVar

from . import _plans as plans
from ._aio_keeper import carry_out
from ._aio_loss import Loss
from ._base import about
from ._options import lease_ms
from ._plans import Plan

T = TypeVar("T")


class Hold(Loss):
    """A lock that is held. See `HoldView` for what it tells."""

    # Whether its release goes on in the background.
    _given_back = False

    async def owned(self) -> bool:
        """Asks the server whether the hold still stands. Costs one request. See `Lock.info`."""
        with about(self._lease.place):
            self._core.check_open()
        found = await self._carry_out(plans.inspect(self._core, self._lease.place))
        return found is not None and found["token"] == self.token

    async def extend(self, seconds: float) -> None:
        """Moves the end of the lease to `seconds` from now, at least: 50 ms to 365 days.

        Never shortens it. Costs one request. Raises `LockLost` if the hold is over, `InvalidLease`,
        `Unavailable`, `Refused` or `ClientClosed`. After an error other than `LockLost`, the hold
        ends when it would have, or later.
        """
        span = lease_ms(seconds, renewed=False)
        self.check()
        clock = self._client._link.clock
        await self._carry_out(plans.extend(self._core, clock, self._lease, span))
        self._client._keeper.plan(self._lease)
        self.check()

    async def release(self) -> str:
        """Ends the hold. Returns how it ended.

        `free`; `expired` or `taken_over` if the lease had ended before; `revoked`; `forgotten`;
        `unconfirmed` if a repeated request found nothing. A second call returns `free`.

        Raises `Unavailable` after the client's patience. The release goes on in the background
        then, and also if this call is cancelled or interrupted.
        Raises `ClientClosed` in a fork of the process, which cannot end the hold.
        Raises it also in another event loop.
        """
        with about(self._lease.place):
            self._core.check_not_forked()
            self._client._tasks.check()
        if self._released:
            return "free"
        try:
            self._released = True
            self._client._keeper.remove(self._lease)
            self._lease.lose("released")
            return await self._carry_out(plans.release(self._core, self._undo()))
        except BaseException:
            give_back([self])
            raise

    async def _carry_out(self, plan: Plan[T]) -> T:
        with about(self._lease.place):
            self._core.check_not_forked()
            self._client._tasks.check()
            return await carry_out(self._client._link, plan)

    def _give_back(self) -> None:
        # It may run in any thread. The keeper sees that the lease is lost, and forgets it.
        self._released = True
        self._lease.lose("released")
        if not self._given_back:
            self._client._releaser.put(self._undo())
            self._given_back = True


def give_back(holds: "list[Hold]") -> None:
    """Releases holds in the background, after an exception at an unknown place."""
    for hold in holds:
        if not hold._core.is_forked():
            hold._give_back()
