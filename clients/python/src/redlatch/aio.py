"""The asynchronous client.

A cancelled call leaves nothing behind: what a request has taken or may yet take is given back.
`_derive` makes the synchronous client of `aio.py`.
"""

from __future__ import annotations

from types import EllipsisType, TracebackType
from typing import TYPE_CHECKING, Any, Optional, Type, TypeVar, Union
from weakref import WeakValueDictionary

# sync: from redis import Redis
from redis.asyncio import Redis

from . import _address
from . import _plans as plans
from ._acquisition import Deliver, End, Options, Pause, Send, StartOver, Subscribe, Undo, Wait
from ._aio_crew import Line, Mutex, Tasks, current, new_line, sleep, take_turn
from ._aio_hold import Hold, give_back
from ._aio_keeper import Keeper, Releaser, carry_out
from ._aio_limit import Pass, RateLimiter
from ._aio_lines import Lines
from ._aio_link import Link
from ._aio_wakes import Wakes
from ._base import Core, Entered, about, lock_options, new_lease
from ._calls import FAIR, PLAIN, Info, Kind
from ._options import ClientOptions, LockOptions
from ._plans import Plan
from ._time import now
from ._wire import NoAnswer
from .errors import LockBusy, LockLost, RedlatchError, Refused, WrongKind

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Client", "FairLock", "Hold", "Lock", "Pass", "RateLimiter"]

T = TypeVar("T")


class Client:
    # sync: """Makes locks and rate limiters on one server, over connections like those of `client`.
    # sync:
    # sync: Threads may share it. It begins four threads at its first call: for messages, renewals,
    # sync: notices of loss, and releases in the background. Calls for a rate limiter that come
    # sync: together begin one more, and so does a lost hold with callbacks. If a thread fails, the
    # sync: client ends: its holds are lost with the cause `closed`, and calls raise `ClientClosed`.
    # sync:
    # sync: The options are in the README. Spans are in seconds. `application` is shown to others
    # sync: with each hold, beside host and process; the name of the program by default.
    # sync:
    # sync: Making it costs one request. Raises `Unavailable` if the server does not answer,
    # sync: `Refused` if it rejects the login, and `InvalidOption`, `InvalidLease` or `InvalidName`
    # sync: for wrong options.
    # sync: """
    """Makes locks and rate limiters on one server, over two connections like those of `client`.

    It belongs to the event loop of its first call. A call in another loop raises `ClientClosed`.
    Its tasks begin with its first call, and `close` ends them. If one of them is cancelled by
    others, the client ends: its holds are lost with the cause `closed`, and calls raise
    `ClientClosed`. See `redlatch.Client` for the options.
    """

    def __init__(self, client: Redis, **options: Unpack[ClientOptions]) -> None:
        self._core = Core(**options)
        self._tasks = Tasks(self._collapse)
        # sync: self._link = Link(client, self._core.connection)
        self._link = Link(client, self._core.connection, self._tasks)
        self._limits = Lines(self._link, self._core, self._tasks)
        self._begin = Mutex()
        self._began = False
        # A line lasts as long as somebody stands in it.
        self._lines: "WeakValueDictionary[str, Line]" = WeakValueDictionary()

    @classmethod
    def from_url(cls, url: str, **options: Unpack[ClientOptions]) -> "Client":
        """Makes a client for the server at `url`, such as `redis://localhost?lease=10s`.

        The parameters are those of the library for Rust. An option that is given here counts before
        a parameter. A parameter without effect causes a warning in the log.
        """
        kwargs, found = _address.read(url)
        found.update(options)
        return cls(Redis(**kwargs), **found)

    @property
    def id(self) -> str:
        """The id of this client, 32 hexadecimal digits."""
        return self._core.settings.client

    def lock(self, name: str, **options: Unpack[LockOptions]) -> "Lock":
        """Returns the plain lock of this name. Costs nothing. See `Lock` for the options."""
        return Lock(self, name, **options)

    def fair_lock(self, name: str, **options: Unpack[LockOptions]) -> "FairLock":
        """Returns the fair lock of this name. Costs nothing. See `Lock` for the options."""
        return FairLock(self, name, **options)

    def rate_limiter(
        self, name: str, *, rate: int, per: float = 1.0, burst: Optional[int] = None
    ) -> RateLimiter:
        """Returns the rate limiter of this name: `rate` tokens per `per` seconds, `burst` at once.

        Costs nothing. See `RateLimiter` for the options. Raises `InvalidName` or `InvalidOption`.
        """
        return RateLimiter(self, name, rate=rate, per=per, burst=burst)

    def _start(self) -> None:
        # First without the lock: a fork may have copied it locked.
        self._core.check_open()
        self._tasks.check()
        if self._began:
            return
        with self._begin:
            self._core.check_open()
            if self._began:
                return
            self._wakes = Wakes(self._link, self._core.settings.channel, self._unknown)
            self._releaser = Releaser(self._link, self._core, self._tasks)
            self._keeper = Keeper(self._link, self._core, self._tasks)
            self._tasks.spawn("releases", self._releaser.run)
            self._tasks.spawn("wakes", self._wakes.run)
            self._began = True

    def _collapse(self) -> None:
        """Ends the client after one of its tasks."""
        if not self._core.closed:
            # sync: self._core.closed = "a thread of the client has failed"
            self._core.closed = "a task of the client was cancelled or has failed"
            self._wakes.alarm()
            self._limits.alarm()
            # sync: until = now() + self._core.settings.patience / 2
            # sync: for hold in self._keeper.close():
            # sync:     hold._join(until)
            # sync:     hold._give_back()
            self._keeper.close()

    def _unknown(self, message: str) -> None:
        self._keeper.look(message)
        call = self._core.withdrawal(message)
        if call:
            self._releaser.put(Undo(call, now()))

    async def close(self) -> None:
        """Tells all holds that they are lost, releases them, and ends the tasks.

        A call that waits for a lock raises `ClientClosed`. Returns when the server has answered all
        releases, or after the client's patience. In a fork of the process it does nothing.
        Raises `ClientClosed` in another event loop while that of the client runs.
        """
        if self._core.is_forked():
            return
        if self._tasks.ended:
            self._core.closed = self._core.closed or self._tasks.ended
            return
        self._tasks.check()
        self._core.closed = "the client was closed"
        with self._begin:
            if self._began:
                until = now() + self._core.settings.patience
                # A waiter that leaves hands over its undo, or its hold to the keeper.
                await self._wakes.dismiss((until - now()) / 1000)
                await self._limits.dismiss((until - now()) / 1000)
                for hold in self._keeper.close():
                    # sync: hold._join(until - self._core.settings.patience / 2)
                    # sync: hold._give_back()
                    hold._give_back()
                await self._releaser.close((until - now()) / 1000)
            # sync: self._link.close()
            await self._tasks.close()

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Lock:
    """The plain lock: whoever comes first has it. Holds of the Rust client exclude it, and it them.

    `lease` is in seconds. With `renew`, the default, a task of the client renews it while it is
    held. `wait` is how long `with` and `acquire` wait: `None` without end, 0 for one try.
    """

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

        `wait` in seconds replaces the one of the lock. An exception in the meantime, such as
        a cancellation or `KeyboardInterrupt`, leaves nothing: what was taken is given back in the
        background.

        Raises `Unavailable` if the server was silent for the client's patience, or when the time to
        wait was over. Raises `WrongKind`, `Refused` or `ClientClosed`.
        """
        taken = _Taken()
        try:
            return await self._acquire(wait, taken)
        except BaseException:
            taken.give_back()
            raise

    async def _acquire(
        self, wait: Union[float, None, EllipsisType], taken: "_Taken"
    ) -> "Optional[Hold]":
        client = self._client
        seconds = self._wait if wait is ... else wait
        options = lock_options(client._core, self._lease, self._renew, seconds)
        with about(self._place):
            client._start()
            if not options.waits or self._kind.queued:
                return await self._run(options, taken)
            # One waiter of this client talks to the server at a time.
            line = client._lines.setdefault(self._place.key, new_line())
            until = options.deadline
            left = None if until is None else max(until - now(), 0) / 1000
            await take_turn(line, left, taken.lines)
            if not taken.lines:
                return None
            hold = await self._run(options, taken)
            taken.lines.pop().release()
            return hold

    async def _run(self, options: Options, taken: "_Taken") -> "Optional[Hold]":
        client = self._client
        wakes = client._wakes
        # sync:
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
                    await sleep((step.until - now()) / 1000)
                elif isinstance(step, StartOver):
                    self._undo(step.undo)
                    wakes.leave(box)
                    box = wakes.join(self._place.key, machine.attempt)
                elif isinstance(step, Deliver):
                    return self._deliver(machine, step, options.lease, taken)
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

    def _deliver(
        self, machine: Any, step: Deliver, lease: int, taken: "_Taken"
    ) -> "Hold":
        client = self._client
        held = new_lease(client._core, self._place, machine, step, lease, self._renew)
        hold = Hold(client, held, machine.release(), step.grant.abandoned)
        # First listed, then kept: a hold that nobody has is not renewed.
        taken.holds.append(hold)
        client._keeper.add(hold)
        return hold

    async def __aenter__(self) -> "Hold":
        """Takes the lock.

        Raises `LockBusy` if another owner has it when the time to wait is over.
        """
        taken = _Taken()
        try:
            hold = await self._acquire(..., taken)
            if hold is None:
                with about(self._place):
                    raise LockBusy("another owner has the name")
            self._entered.push(current(), hold)
            return hold
        except BaseException:
            taken.give_back()
            raise

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        """Releases the lock; in the background, if the hold was lost.

        Raises `LockLost` if the hold was lost and the block has raised nothing else: what the block
        did may have overlapped with the next holder. In this case, it also raises what
        `Hold.release` raises.
        """
        entry = self._entered.last(current())
        hold = entry[1]
        try:
            self._entered.remove(entry)
            cause = hold.lost_cause
            if cause in (None, "closed"):
                await hold.release()
            elif cause != "released":
                give_back([hold])
        except RedlatchError:
            # The release goes on in the background, and what the block has raised matters more.
            if error is None:
                raise
        except BaseException:
            give_back([hold])
            raise
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
        """Ends the hold of any owner, or only the one with this token. Returns whether it did.

        **This breaks exclusion**: the name is free at once, while the holder may still be at work.
        A renewed hold is lost at once, or at its next renewal if the message is lost. A hold
        without renewals is lost at the end of its lease. Costs two requests, or one with a token.
        Raises what `info` does.
        """
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


class _Taken:
    """What a call has taken so far. An exception at any point gives it back."""

    def __init__(self) -> None:
        self.holds: list[Hold] = []
        self.lines: list[Line] = []

    def give_back(self) -> None:
        for line in self.lines:
            line.release()
        give_back(self.holds)


class FairLock(Lock):
    """The fair lock: waiters have it in the order in which they came, over all clients."""

    _kind = FAIR
