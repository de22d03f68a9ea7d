"""The asynchronous client.

A cancelled call leaves nothing behind: what a request has taken or may yet take is given back. So
nothing here may swallow a cancellation. `within` and `take_turn` wait for a limited time with
`asyncio.wait`, and nothing uses `asyncio.wait_for`: before Python 3.12 the latter may drop
a result that arrives with the time-out.
"""

from __future__ import annotations

import asyncio
from types import EllipsisType, TracebackType
from typing import TYPE_CHECKING, Any, Optional, Type, TypeVar, Union
from weakref import WeakValueDictionary

import redis.asyncio

from . import _address
from . import _plans as plans
from ._acquisition import Deliver, End, Options, Pause, Send, StartOver, Subscribe, Undo, Wait
from ._aio_hold import Hold
from ._aio_keeper import Keeper, Releaser, Tasks, carry_out
from ._aio_link import Link
from ._aio_wakes import Wakes, take_turn
from ._base import Core, Entered, about, lock_options, new_lease
from ._calls import FAIR, PLAIN, Info, Kind
from ._options import ClientOptions, LockOptions
from ._plans import Plan
from ._time import now
from ._wire import NoAnswer
from .errors import ClientClosed, LockBusy, LockLost, RedlatchError, Refused, WrongKind

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Client", "FairLock", "Hold", "Lock"]

T = TypeVar("T")


class Client:
    """Makes locks on one server, over two connections of its own like those of `client`.

    It belongs to the event loop of its first call. A call in another loop raises `ClientClosed`.
    Its tasks begin with its first call, and `close` ends them. If one of them is cancelled by
    others, the client ends: its holds are lost with the cause `closed`, and calls raise
    `ClientClosed`. See `redlatch.Client` for the options.
    """

    def __init__(self, client: redis.asyncio.Redis, **options: Unpack[ClientOptions]) -> None:
        self._core = Core(**options)
        self._tasks = Tasks(self._collapse)
        self._link = Link(client, self._core.connection, self._tasks.spawn)
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._releaser = Releaser(self._link, self._core, self._tasks)
        # A line lasts as long as somebody stands in it.
        self._lines: "WeakValueDictionary[str, asyncio.Lock]" = WeakValueDictionary()

    @classmethod
    def from_url(cls, url: str, **options: Unpack[ClientOptions]) -> "Client":
        """Makes a client for the server at `url`. See `redlatch.Client.from_url`."""
        kwargs, found = _address.read(url)
        found.update(options)
        return cls(redis.asyncio.Redis(**kwargs), **found)

    @property
    def id(self) -> str:
        """The id of this client, 32 hexadecimal digits."""
        return self._core.settings.client

    def lock(self, name: str, **options: Unpack[LockOptions]) -> "Lock":
        """Returns the plain lock of this name. Costs nothing. See `redlatch.Lock`."""
        return Lock(self, name, **options)

    def fair_lock(self, name: str, **options: Unpack[LockOptions]) -> "FairLock":
        """Returns the fair lock of this name. Costs nothing. See `redlatch.Lock`."""
        return FairLock(self, name, **options)

    def _start(self) -> None:
        self._core.check_open()
        self._check_loop()
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._keeper = Keeper(self._link, self._core, self._tasks.spawn)
            self._wakes = Wakes(self._link, self._core.settings.channel, self._unknown)
            for work in (self._releaser.announce(), self._keeper.run(), self._wakes.run()):
                self._tasks.spawn(work)

    def _check_loop(self) -> None:
        if self._loop not in (None, asyncio.get_running_loop()):
            raise ClientClosed(
                "the client belongs to another event loop; each loop needs a client of its own"
            )

    def _unknown(self, message: str) -> None:
        self._keeper.look(message)
        call = self._core.withdrawal(message)
        if call:
            self._releaser.put(Undo(call, now()))

    def _collapse(self) -> None:
        """Ends the client after one of its tasks, without a word to the server."""
        if not self._core.closed:
            self._core.closed = "a task of the client was cancelled or has failed"
            self._keeper.close()
            self._wakes.alarm()

    async def close(self) -> None:
        """Tells all holds that they are lost, releases them, and ends the tasks.

        A call that waits for a lock raises `ClientClosed`. Returns when the server has answered all
        releases, or after the client's patience. In a fork of the process it does nothing. Raises
        `ClientClosed` in another event loop while that of the client runs.
        """
        if self._core.is_forked():
            return
        if self._loop and self._loop.is_closed():
            self._core.closed = self._core.closed or "the event loop of the client has ended"
            return
        self._check_loop()
        self._core.closed = "the client was closed"
        if self._loop:
            until = now() + self._core.settings.patience
            # A waiter that leaves hands over its undo, or its hold to the keeper.
            await self._wakes.dismiss((until - now()) / 1000)
            for hold in self._keeper.close():
                hold._hand_over()
            await self._releaser.close((until - now()) / 1000)
            await self._tasks.close()

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
        self._entered: Entered[Hold] = Entered()

    async def acquire(self, wait: Union[float, None, EllipsisType] = ...) -> "Optional[Hold]":
        """Takes the lock. Returns `None` if another owner has it when the time to wait is over.

        `wait` in seconds replaces the one of the lock. A cancelled call leaves nothing.

        Raises `Unavailable` if the server was silent for the client's patience, or when the time to
        wait was over. Raises `WrongKind`, `Refused` or `ClientClosed`.
        """
        client = self._client
        seconds = self._wait if wait is ... else wait
        options = lock_options(client._core, self._lease, self._renew, seconds)
        with about(self._place):
            client._start()
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

    async def _run(self, options: Options) -> "Optional[Hold]":
        client = self._client
        wakes = client._wakes
        await client._link.ready(options.deadline)
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
            machine.on_failure(may_have_run=error.may_have_run, now=now(), error=error)
            return
        except Refused as error:
            machine.on_failure(may_have_run=error.may_have_run, now=now())
            raise
        except WrongKind:
            machine.on_failure(may_have_run=False, now=now())
            raise
        called = machine.on_reply(now(), reply)
        if called is not None:
            self._client._wakes.tell(self._place.key, str(called))

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
            with about(self._place):
                raise LockBusy("another owner has the name")
        self._entered.push(asyncio.current_task(), hold)
        return hold

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        """Releases the lock; in the background, if the hold was lost.

        Raises `LockLost` if the hold was lost, or what `Hold.release` raises, if the block has
        raised nothing else.
        """
        entry = self._entered.last(asyncio.current_task())
        self._entered.remove(entry)
        hold = entry[1]
        cause = hold.lost_cause
        if cause in (None, "closed"):
            try:
                await hold.release()
            except RedlatchError:
                # The release goes on in the background, and what the block has raised matters more.
                if error is None:
                    raise
        elif cause not in ("released", "forked"):
            hold._hand_over()
        if cause not in (None, "released") and error is None:
            with about(self._place):
                raise LockLost(cause=str(cause))

    async def info(self) -> Optional[Info]:
        """Returns owner, count, token, remaining s and waiters of the present hold, or `None`.

        Costs one request. Raises `Unavailable`, `WrongKind`, `Refused` or `ClientClosed`.
        """
        return await self._ask(plans.inspect(self._client._core, self._place))

    async def locked(self) -> bool:
        """Tells whether any owner has the lock. Costs and raises what `info` does."""
        return await self.info() is not None

    async def force_release(self, token: Optional[int] = None) -> bool:
        """Ends the hold of any owner. See `redlatch.Lock.force_release`."""
        core, place = self._client._core, self._place
        ended = await self._ask(plans.force(core, place, token))
        if ended is not None:
            self._client._keeper.revoke(place.key, ended)
        return ended is not None

    async def _ask(self, plan: Plan[T]) -> T:
        with about(self._place):
            self._client._start()
            return await carry_out(self._client._link, plan)

    def __repr__(self) -> str:
        return f"<redlatch.aio.{type(self).__name__} {self.name!r}>"


class FairLock(Lock):
    """The fair lock. See `redlatch.FairLock`."""

    _kind = FAIR
