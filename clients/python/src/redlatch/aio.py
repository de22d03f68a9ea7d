"""The asyncio client. It has what the synchronous one has; see the README for an example.

Every coroutine is cancel-safe: a cancelled `acquire` leaves nothing, since what it took is given
back in the background. Prefer `wait=` to `asyncio.wait_for`: before Python 3.12 the latter may drop
a result that arrives with the time-out.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Awaitable, Optional, Type, TypeVar
from weakref import WeakValueDictionary

import redis.asyncio

from . import _calls as calls
from ._acquisition import Deliver, End, Pause, Send, StartOver, Subscribe, Undo, Wait
from ._aio_keeper import Keeper, Releaser
from ._aio_link import Link, Wakes, take_turn
from ._base import Core, HoldView, info_of, lock_options, new_lease
from ._calls import FAIR, PLAIN, Kind
from ._lease import Lease, released
from ._time import now
from ._wire import NoAnswer
from .errors import LockBusy, LockLost, Refused, Unavailable, WrongKind

T = TypeVar("T")


class Client:
    """Makes locks on one server, over connections of its own like those of `client`.

    It belongs to one event loop. Its tasks begin with its first lock, and `close` ends them. See
    `redlatch.Client` for the options.
    """

    def __init__(self, client: redis.asyncio.Redis, **options: Any) -> None:
        self._core = Core(**options)
        self._link = Link(client)
        self._began = False
        # A line lasts as long as somebody stands in it.
        self._lines: "WeakValueDictionary[str, asyncio.Lock]" = WeakValueDictionary()

    @classmethod
    def from_url(cls, url: str, **options: Any) -> "Client":
        """Makes a client for the server at `url`, such as `redis://localhost`."""
        return cls(redis.asyncio.Redis.from_url(url), **options)

    @property
    def id(self) -> str:
        """The id of this client, 32 hexadecimal digits."""
        return self._core.settings.client

    def lock(self, name: str, **options: Any) -> "Lock":
        """Returns the plain lock of this name. Costs nothing. See `redlatch.Lock`."""
        return Lock(self, name, **options)

    def fair_lock(self, name: str, **options: Any) -> "FairLock":
        """Returns the fair lock of this name. Costs nothing. See `redlatch.Lock`."""
        return FairLock(self, name, **options)

    async def _start(self) -> None:
        self._core.check_open()
        try:
            await self._link.start()
        except NoAnswer as error:
            raise Unavailable(str(error), may_have_run=False) from error
        # It may have been closed in the meantime.
        self._core.check_open()
        if not self._began:
            self._began = True
            self._releaser = Releaser(self._link, self._core)
            self._keeper = Keeper(self._link, self._core)
            channel = self._core.settings.channel
            self._wakes = Wakes(self._link, channel, self._unknown)

    def _unknown(self, message: str) -> None:
        found = self._core.unknown_waiter(message)
        if found:
            self._releaser.withdraw(*found)

    async def close(self) -> None:
        """Tells all holds that they are lost, releases them, and ends the tasks.

        A call that waits for a lock raises `ClientClosed`. Returns when the server has answered all
        releases, or after the client's patience. In a fork of the process it does nothing.
        """
        if self._core.is_forked():
            return
        self._core.closed = True
        if self._began:
            self._began = False
            until = now() + self._core.settings.patience
            # A waiter that leaves hands over its undo, or its hold to the keeper.
            await self._wakes.dismiss((until - now()) / 1000)
            for hold in await self._keeper.close():
                hold._hand_over()
            await self._wakes.close()
            await self._releaser.close((until - now()) / 1000)
        await self._link.close()

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Lock:
    """The plain lock. See `redlatch.Lock`."""

    _kind: Kind = PLAIN

    def __init__(
        self,
        client: Client,
        name: str,
        *,
        lease: Optional[float] = None,
        renew: bool = True,
        wait: Optional[float] = None,
    ) -> None:
        self._client, self.name = client, name
        self._place = client._core.place(self._kind, name)
        self._lease, self._renew, self._wait = lease, renew, wait
        lock_options(client._core, lease, renew, wait)
        self._holds: dict[Any, list[Hold]] = {}

    async def acquire(self, wait: Any = ...) -> "Optional[Hold]":
        """Takes the lock. Returns `None` if another owner has it when the time to wait is over.

        `wait` in seconds replaces the one of the lock. A cancelled call leaves nothing.

        Raises `Unavailable` if the server was silent for the client's patience, or when the time to
        wait was over. Raises `WrongKind`, `Refused` or `ClientClosed`.
        """
        client = self._client
        await client._start()
        seconds = self._wait if wait is ... else wait
        options = lock_options(client._core, self._lease, self._renew, seconds)
        if not options.waits or self._kind.queued:
            return await self._run(options)
        # One waiter of this client talks to the server at a time.
        line = client._lines.setdefault(self._place.key, asyncio.Lock())
        left = None if options.deadline is None else max(options.deadline - now(), 0) / 1000
        if not await take_turn(line, left):
            return None
        try:
            return await self._run(options)
        finally:
            line.release()

    async def _run(self, options: Any) -> "Optional[Hold]":
        client = self._client
        wakes = client._wakes
        machine = client._core.acquisition(
            self._place, client._link.clock, options, wakes.subscribed
        )
        box = wakes.join(self._place.key, machine.attempt)
        try:
            while True:
                client._core.check_open()
                step = machine.step(now())
                if isinstance(step, Send):
                    box.called = False
                    await self._send(machine, step)
                elif isinstance(step, Subscribe):
                    box.changed = False
                    machine.on_subscribed(now(), await wakes.settle(1.0))
                elif isinstance(step, Wait):
                    await box.wait(step.until)
                    if box.changed:
                        box.changed = False
                        machine.on_subscribed(now(), box.subscribed)
                    if box.called:
                        machine.on_message()
                elif isinstance(step, Pause):
                    await asyncio.sleep(max(step.until - now(), 0) / 1000)
                elif isinstance(step, StartOver):
                    self._undo(step.undo)
                    wakes.leave(box)
                    box = wakes.join(self._place.key, machine.attempt)
                elif isinstance(step, Deliver):
                    return self._deliver(machine, step, options.lease)
                elif isinstance(step, End):
                    self._undo(machine.abandon(now()))
                    return None
        except BaseException:
            self._undo(machine.abandon(now()))
            raise
        finally:
            wakes.leave(box)

    async def _send(self, machine: Any, step: Send) -> None:
        try:
            reply = await self._client._link.run(step.call, step.timeout)
        except NoAnswer as error:
            machine.on_failure(may_have_run=error.may_have_run, now=now())
            return
        except Refused as error:
            machine.on_failure(may_have_run=error.may_have_run, now=now())
            raise
        except WrongKind:
            machine.on_failure(may_have_run=False, now=now())
            raise
        called = machine.on_reply(now(), reply)
        if called is not None:
            self._client._wakes.tell(self._place.key, called)

    def _undo(self, undo: Optional[Undo]) -> None:
        if undo:
            self._client._releaser.put(undo)

    def _deliver(self, machine: Any, step: Deliver, lease: int) -> "Hold":
        client = self._client
        held = new_lease(client._core, self._place, machine, step, lease, self._renew)
        hold = Hold(client, held, machine.release(), step.grant.abandoned)
        client._keeper.add(hold)
        return hold

    async def __aenter__(self) -> "Hold":
        """Takes the lock.

        Raises `LockBusy` if another owner has it when the time to wait is over.
        """
        hold = await self.acquire()
        if hold is None:
            raise LockBusy(f"another owner has {self.name!r}")
        self._holds.setdefault(asyncio.current_task(), []).append(hold)
        return hold

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        """Releases the lock; in the background, if the hold was lost.

        Raises `LockLost` if the hold was lost and the block has raised nothing else. Raises
        `Unavailable` if the server does not answer to the release and the block has raised nothing.
        """
        task = asyncio.current_task()
        hold = self._holds[task].pop()
        if not self._holds[task]:
            del self._holds[task]
        cause = hold.lost_cause
        if cause is None:
            try:
                await hold.release()
            except Unavailable:
                # The release goes on in the background, and what the block has raised matters more.
                if error is None:
                    raise
        elif cause != "forked":
            client = self._client
            client._keeper.remove(hold)
            hold._hand_over()
        if cause not in (None, "released") and error is None:
            raise LockLost(self.name, str(cause))

    async def info(self) -> Optional[dict[str, Any]]:
        """Returns owner, count, token, remaining s and waiters of the present hold, or `None`.

        Costs one request. Raises `Unavailable`, `WrongKind` or `Refused`.
        """
        self._client._core.check_open()
        try:
            return info_of(await self._client._link.run(self._place.call("inspect"), 1000.0))
        except NoAnswer as error:
            raise Unavailable(str(error), may_have_run=False) from error

    def __repr__(self) -> str:
        return f"<redlatch.aio.{type(self).__name__} {self.name!r}>"


class FairLock(Lock):
    """The fair lock. See `redlatch.FairLock`."""

    _kind = FAIR


class Hold(HoldView):
    """A lock that is held. See `HoldView` for what it tells."""

    def __init__(self, client: Client, lease: Lease, release: calls.Call, abandoned: bool) -> None:
        super().__init__(client._core, lease, abandoned)
        self._client, self._release_call = client, release
        self._told = asyncio.Event()
        self._released = False

    async def lost(self) -> str:
        """Waits until the hold is lost, and returns why. A release is no loss."""
        await self._told.wait()
        return self.lost_cause or "expired"

    async def run(self, work: Awaitable[T]) -> T:
        """Runs `work` while the hold lasts. Returns its result.

        Raises `LockLost` if the hold is lost before: `work` is then cancelled, and has ended when
        this returns. A cancelled call cancels `work`.
        """
        self.check()
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
        raise LockLost(self.name, self.lost_cause or "expired")

    def _tell(self) -> None:
        self._told.set()

    def _undo(self) -> Undo:
        return Undo(self._release_call, self._lease.valid_until + self._lease.lease + 10_000)

    def _hand_over(self) -> None:
        if not self._released:
            self._released = True
            self._client._releaser.put(self._undo())

    async def release(self) -> str:
        """Ends the hold. Returns how it ended; see `redlatch.Hold.release`.

        Raises `Unavailable` after the client's patience. The release goes on in the background
        then, and also if this call is cancelled. Raises `ClientClosed` in a fork of the process,
        which cannot end the hold.
        """
        self._core.check_not_forked()
        if self._released:
            return "free"
        self._released = True
        self._client._keeper.remove(self)
        self._lease.lose("released")
        try:
            verdict, resent = await self._client._releaser.run(self._undo())
        except BaseException:
            self._client._releaser.put(self._undo())
            raise
        return released(verdict, resent=resent)
