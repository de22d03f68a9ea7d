"""The background work of the asynchronous client: renewals, notices of loss, and releases."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Callable, Coroutine
from weakref import ref

from . import _plans as plans
from ._acquisition import Undo
from ._aio_link import Link, Spawn
from ._aio_wakes import wait_for_event
from ._base import RECORD_PAUSE, RECORD_RETRY, RECORD_TTL, Core
from ._lease import Lease
from ._plans import Ask, Plan, T
from ._time import now
from ._wire import NoAnswer
from .errors import ClientClosed, RedlatchError

if TYPE_CHECKING:
    from ._aio_hold import Hold

_log = logging.getLogger("redlatch")

# Sleeps are bounded, since a timer may stand still while the machine is suspended. In ms.
_LONGEST_SLEEP = 60_000.0


async def carry_out(link: Link, plan: Plan[T]) -> T:
    """Carries a plan out, and returns its result."""
    try:
        step = next(plan)
        while True:
            try:
                if isinstance(step, Ask):
                    reply = await link.run(step.call, step.timeout)
                else:
                    reply = await asyncio.sleep(step.ms / 1000, None)
            except (NoAnswer, RedlatchError) as error:
                step = plan.throw(error)
            else:
                step = plan.send(reply)
    except StopIteration as end:
        result: T = end.value
        return result


class Tasks:
    """The tasks of one client. The client ends with the first one that is cancelled or fails."""

    def __init__(self, collapse: Callable[[], None]) -> None:
        self._collapse = collapse
        self._tasks: set[asyncio.Task[None]] = set()
        # Whether nothing more is begun in the background: the loop itself may be about to end.
        self.over = self._closing = False

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Begins a task. Raises `ClientClosed` after `close`."""
        if self._closing:
            work.close()
            raise ClientClosed("the client was closed")
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        failure = None if task.cancelled() else task.exception()
        if failure:
            _log.error("a task of the client has failed", exc_info=failure)
        if (failure or task.cancelled()) and not self._closing:
            self.over = True
            self._collapse()

    async def close(self) -> None:
        """Ends all tasks."""
        self.over = self._closing = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Keeper:
    """Renews holds and tells them of their loss. Each renewal is a task of its own."""

    def __init__(self, link: Link, core: Core, spawn: Spawn) -> None:
        self._link, self._core, self._spawn = link, core, spawn
        # A hold that its owner has dropped must not live on here.
        self._holds: "dict[Lease, ref[Hold]]" = {}
        self._change = asyncio.Event()
        self._wake_at = 0.0

    def add(self, hold: "Hold") -> None:
        """Begins to renew a hold."""
        self._holds[hold._lease] = ref(hold)
        self.plan(hold._lease)

    def plan(self, lease: Lease) -> None:
        """Sees that the next time of a hold is not missed."""
        lost = lease.cause(now()) is not None
        if lost or min(lease.renew_at, lease.wake_at_loss) < self._wake_at:
            self._change.set()

    def remove(self, lease: Lease) -> None:
        """Ends the renewals of a hold."""
        self._holds.pop(lease, None)

    def revoke(self, key: str, token: int) -> None:
        """Tells the hold with this token that it was ended by force."""
        for lease in self._holds:
            if (lease.place.key, lease.token) == (key, token):
                lease.lose("revoked")
        self._change.set()

    def look(self, message: str) -> None:
        """Renews the holds of a key at once, if a message asks for that."""
        for lease in self._holds:
            if message == f"{lease.place.key} 0" and self._core.may_answer():
                lease.hurry(now())
        self._change.set()

    def close(self) -> "list[Hold]":
        """Tells all holds that the client is closed. Returns them."""
        holds = [hold for found in self._holds.values() if (hold := found())]
        self._holds.clear()
        for hold in holds:
            hold._lease.lose("closed")
            hold._told.set()
        return holds

    async def run(self) -> None:
        """Renews and tells until the task is cancelled."""
        while True:
            self._change.clear()
            at = now()
            for lease, found in list(self._holds.items()):
                if lease.cause(at) is not None:
                    self.remove(lease)
                    if hold := found():
                        hold._told.set()
                    hold = None
                elif lease.renew_at <= at:
                    lease.renew_at = float("inf")
                    self._spawn(self._renew(lease))
            wakes = [min(lease.renew_at, lease.wake_at_loss) for lease in self._holds]
            self._wake_at = min(wakes, default=at + _LONGEST_SLEEP)
            pause = min(self._wake_at - at, _LONGEST_SLEEP)
            await wait_for_event(self._change, pause / 1000)

    async def _renew(self, lease: Lease) -> None:
        await carry_out(self._link, plans.renew(self._core, self._link.clock, lease))
        self.plan(lease)


class Releaser:
    """Sends releases and undos in the background, and the record of the client."""

    def __init__(self, link: Link, core: Core, tasks: Tasks) -> None:
        self._link, self._core, self._tasks = link, core, tasks
        self._releases: set[asyncio.Task[None]] = set()

    def put(self, undo: Undo) -> None:
        """Hands over a release. Never waits."""
        # A task that is collected after its loop was closed has no loop either.
        if not self._tasks.over and asyncio._get_running_loop():
            task = self._tasks.spawn(self._repeat(undo))
            self._releases.add(task)
            task.add_done_callback(self._releases.discard)

    async def _repeat(self, undo: Undo) -> None:
        # At the end of a loop, the tasks of the client are cancelled with the one that has left
        # this undo. Two turns later they have ended.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        while not self._tasks.over and await carry_out(self._link, plans.give_back(undo)):
            await asyncio.sleep(0.1)

    async def announce(self) -> None:
        """Writes the record of the client until the task is cancelled."""
        while True:
            pause = RECORD_PAUSE
            try:
                await self._link.ask(1000.0, "PING")
                key, text = self._core.record(self._link.clock)
                await self._link.ask(1000.0, "SET", key, text, "PX", RECORD_TTL)
            except (NoAnswer, RedlatchError):
                pause = RECORD_RETRY
            await asyncio.sleep(pause / 1000)

    async def close(self, seconds: float) -> None:
        """Waits until nothing is left to release, or for this time. Removes the record."""
        if self._releases:
            await asyncio.wait(self._releases, timeout=max(seconds, 0))
        try:
            await self._link.ask(1000.0, "DEL", self._core.record(self._link.clock)[0])
        except (NoAnswer, RedlatchError):
            # It ends by itself.
            pass
