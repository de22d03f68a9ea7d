"""A hold of the asynchronous client."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Awaitable, TypeVar

from . import _plans as plans
from ._aio_keeper import carry_out
from ._aio_session import within
from ._base import HoldView, about
from ._calls import Call
from ._lease import Lease
from ._options import lease_ms
from ._plans import Plan
from .errors import LockLost

if TYPE_CHECKING:
    from .aio import Client

T = TypeVar("T")


class Hold(HoldView):
    """A lock that is held. See `HoldView` for what it tells."""

    def __init__(self, client: "Client", lease: Lease, release: Call, abandoned: bool) -> None:
        self._client, self._loop = client, asyncio.get_running_loop()
        super().__init__(client._core, lease, release, abandoned)
        self._told = asyncio.Event()

    async def lost(self) -> str:
        """Waits until the hold is lost, and returns why. A release is no loss.

        Raises `ClientClosed` in another event loop than that of the client.
        """
        with about(self._lease.place):
            self._client._check_loop()
        while not self._told.is_set() and self.lost_cause in (None, "released"):
            # Its own timer: a task that should tell may have been cancelled.
            pause = self._pause() if self.lost_cause is None else 60.0
            await within(self._told.wait(), pause, or_else=False)
        return self.lost_cause or "expired"

    async def run(self, work: Awaitable[T]) -> T:
        """Runs `work` while the hold lasts. Returns its result.

        Raises `LockLost` if the hold is lost before: `work` is then cancelled, and has ended when
        this returns. A cancelled call cancels `work`. Raises `ClientClosed` in another event loop
        than that of the client.
        """
        try:
            with about(self._lease.place):
                self._client._check_loop()
            self.check()
        except BaseException:
            if asyncio.iscoroutine(work):
                work.close()
            raise
        task, lost = asyncio.ensure_future(work), asyncio.ensure_future(self.lost())
        try:
            await asyncio.wait({task, lost}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
        finally:
            lost.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        with about(self._lease.place):
            raise LockLost(cause=self.lost_cause or "expired")

    async def owned(self) -> bool:
        """Asks the server whether the hold still stands. Costs one request. See `Lock.info`."""
        with about(self._lease.place):
            self._core.check_open()
        found = await self._carry_out(plans.inspect(self._core, self._lease.place))
        return found is not None and found["token"] == self.token

    async def extend(self, seconds: float) -> None:
        """Moves the end of the lease to `seconds` from now, at least.

        See `redlatch.Hold.extend`.
        """
        span = lease_ms(seconds, renewed=False)
        self.check()
        clock = self._client._link.clock
        await self._carry_out(plans.extend(self._core, clock, self._lease, span))
        self.check()

    async def release(self) -> str:
        """Ends the hold. Returns how it ended; see `redlatch.Hold.release`.

        Raises `Unavailable` after the client's patience. The release goes on in the background
        then, and also if this call is cancelled. Raises `ClientClosed` in a fork of the process
        and in another event loop, which cannot end the hold.
        """
        with about(self._lease.place):
            self._core.check_not_forked()
            self._client._check_loop()
        if self._released:
            return "free"
        self._end()
        try:
            return await self._carry_out(plans.release(self._core, self._undo()))
        except BaseException:
            self._client._releaser.put(self._undo())
            raise

    async def _carry_out(self, plan: Plan[T]) -> T:
        with about(self._lease.place):
            self._core.check_not_forked()
            self._client._check_loop()
            return await carry_out(self._client._link, plan)

    def _end(self) -> None:
        self._released = True
        self._client._keeper.remove(self._lease)
        self._lease.lose("released")

    def _hand_over(self) -> None:
        if not self._released:
            self._end()
            self._client._releaser.put(self._undo())

    def _give_back(self) -> None:
        # It may run in any thread, and after the end of the loop.
        self._released = True
        self._lease.lose("released")
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._client._releaser.put, self._undo())
