"""How a hold of the asynchronous client tells of its loss."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Awaitable, TypeVar

from ._aio_crew import Event
from ._base import HoldView, about
from ._calls import Call
from ._lease import Lease
from .errors import LockLost

if TYPE_CHECKING:
    from .aio import Client

T = TypeVar("T")


class Loss(HoldView):
    """The part of a hold that is about its loss."""

    def __init__(self, client: "Client", lease: Lease, release: Call, abandoned: bool) -> None:
        self._client = client
        super().__init__(client._core, lease, release, abandoned)
        self._told = Event()

    def _tell(self) -> None:
        self._told.set()

    async def lost(self) -> str:
        """Waits until the hold is lost, and returns why. A release is no loss.

        Raises `ClientClosed` in another event loop than that of the client.
        """
        with about(self._lease.place):
            self._client._tasks.check()
        while not self._told.is_set() and self.lost_cause in (None, "released"):
            # Its own timer: a task that should tell may have been cancelled.
            await self._told.wait(self._pause() if self.lost_cause is None else 60.0)
        return self.lost_cause or "expired"

    async def run(self, work: Awaitable[T]) -> T:
        """Runs `work` while the hold lasts. Returns its result.

        Raises `LockLost` if the hold is lost before: `work` is then cancelled, and has ended when
        this returns. A cancelled call cancels `work`. Raises `ClientClosed` in another event loop
        than that of the client.
        """
        try:
            with about(self._lease.place):
                self._client._tasks.check()
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
