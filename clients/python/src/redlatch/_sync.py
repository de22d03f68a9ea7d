"""The synchronous client."""

from __future__ import annotations

import logging
import threading
from types import EllipsisType, TracebackType
from typing import TYPE_CHECKING, Any, Callable, Optional, Type, TypeVar, Union
from weakref import WeakValueDictionary

import redis

from . import _address
from . import _plans as plans
from ._acquisition import Deliver, End, Options, Pause, Send, StartOver, Subscribe, Undo, Wait
from ._base import Core, Entered, about, lock_options, new_lease
from ._calls import FAIR, PLAIN, Info, Kind
from ._hold import Hold, give_back
from ._keeper import Keeper, Releaser, carry_out
from ._link import Link
from ._options import ClientOptions, LockOptions
from ._plans import Plan
from ._time import now
from ._wakes import Wakes
from ._wire import NoAnswer
from .errors import LockBusy, LockLost, RedlatchError, Refused, WrongKind

if TYPE_CHECKING:
    from typing_extensions import Unpack

T = TypeVar("T")
_log = logging.getLogger("redlatch")


class Client:
    """Makes locks on one server, over connections of its own like those of `client`.

    Threads may share it. It begins four threads at its first lock: for messages, renewals, notices
    of loss, and releases in the background. If one of them fails, the client ends: its holds are
    lost with the cause `closed`, and calls raise `ClientClosed`.

    The options are in the README. Spans are in seconds. `application` is shown to others with each
    hold, beside host and process; the name of the program by default.

    Making it costs one request. Raises `Unavailable` if the server does not answer, `Refused` if it
    rejects the login, and `InvalidOption`, `InvalidLease` or `InvalidName` for wrong options.
    """

    def __init__(self, client: redis.Redis, **options: Unpack[ClientOptions]) -> None:
        self._core = Core(**options)
        try:
            self._link = Link(client, self._core.connection)
        except NoAnswer as error:
            error.give_up(may_have_run=False)
        self._begin = threading.Lock()
        self._began = False
        # A line lasts as long as somebody stands in it.
        self._lines: "WeakValueDictionary[str, threading.Lock]" = WeakValueDictionary()

    @classmethod
    def from_url(cls, url: str, **options: Unpack[ClientOptions]) -> "Client":
        """Makes a client for the server at `url`, such as `redis://localhost?lease=10s`.

        The parameters are those of the library for Rust. An option that is given here counts before
        a parameter. A parameter without effect causes a warning in the log.
        """
        kwargs, found = _address.read(url)
        found.update(options)
        return cls(redis.Redis(**kwargs), **found)

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

    def _start(self) -> None:
        # First without the lock: a fork may have copied it locked.
        self._core.check_open()
        if self._began:
            return
        with self._begin:
            self._core.check_open()
            if self._began:
                return
            self._wakes = Wakes(self._link, self._core.settings.channel, self._unknown)
            self._releaser = Releaser(self._link, self._core, self._spawn)
            self._keeper = Keeper(self._link, self._core, self._spawn)
            self._spawn("wakes", self._wakes.run)
            self._began = True

    def _spawn(self, name: str, work: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except BaseException:
                _log.exception("a thread of the client has failed, so that the client ends")
                self._collapse()

        thread = threading.Thread(target=run, name=f"redlatch {name}", daemon=True)
        thread.start()
        return thread

    def _collapse(self) -> None:
        """Ends the client after one of its threads. The others release the holds if they can."""
        if not self._core.closed:
            self._core.closed = "a thread of the client has failed"
            for hold in self._keeper.close():
                hold._give_back()
            self._wakes.dismiss(0)

    def _unknown(self, message: str) -> None:
        self._keeper.look(message)
        call = self._core.withdrawal(message)
        if call:
            self._releaser.put(Undo(call, now()))

    def close(self) -> None:
        """Tells all holds that they are lost, releases them, and ends the threads.

        A call that waits for a lock raises `ClientClosed`. Returns when the server has answered all
        releases, or after the client's patience. In a fork of the process it does nothing.
        """
        if self._core.is_forked():
            return
        self._core.closed = "the client was closed"
        with self._begin:
            if self._began:
                self._began = False
                until = now() + self._core.settings.patience
                # A waiter that leaves hands over its undo, or its hold to the keeper.
                self._wakes.dismiss((until - now()) / 1000)
                for hold in self._keeper.close():
                    hold._give_back()
                self._wakes.close()
                self._releaser.close((until - now()) / 1000)
            self._link.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Lock:
    """The plain lock: whoever comes first has it. Holds of the Rust client exclude it, and it them.

    `lease` is in seconds. With `renew`, the default, a thread of the client renews it while it is
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

    def acquire(self, wait: Union[float, None, EllipsisType] = ...) -> "Optional[Hold]":
        """Takes the lock. Returns `None` if another owner has it when the time to wait is over.

        `wait` in seconds replaces the one of the lock. An exception in the meantime, such as
        `KeyboardInterrupt`, leaves nothing: what was taken is given back in the background.

        Raises `Unavailable` if the server was silent for the client's patience, or when the time to
        wait was over. Raises `WrongKind`, `Refused` or `ClientClosed`.
        """
        taken = _Taken()
        try:
            return self._acquire(wait, taken)
        except BaseException:
            taken.give_back()
            raise

    def _acquire(
        self, wait: Union[float, None, EllipsisType], taken: "_Taken"
    ) -> "Optional[Hold]":
        client = self._client
        seconds = self._wait if wait is ... else wait
        options = lock_options(client._core, self._lease, self._renew, seconds)
        with about(self._place):
            client._start()
            if not options.waits or self._kind.queued:
                return self._run(options, taken)
            # One waiter of this client talks to the server at a time.
            line = client._lines.setdefault(self._place.key, threading.Lock())
            until = options.deadline
            left = -1 if until is None else max(until - now(), 0) / 1000
            # In one statement, so that an interrupt finds the line taken and listed, or neither.
            taken.lines += [line] if line.acquire(timeout=left) else []
            if not taken.lines:
                return None
            hold = self._run(options, taken)
            taken.lines.pop().release()
            return hold

    def _run(self, options: Options, taken: "_Taken") -> "Optional[Hold]":
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
                    self._send(machine, step)
                elif isinstance(step, Subscribe):
                    box.changed = False
                    machine.on_subscribed(now(), wakes.settle(1.0))
                elif isinstance(step, Wait):
                    box.event.wait(max(step.until - now(), 0) / 1000)
                    box.event.clear()
                    if box.changed:
                        box.changed = False
                        machine.on_subscribed(now(), box.subscribed)
                    if box.called:
                        machine.on_message()
                elif isinstance(step, Pause):
                    threading.Event().wait(max(step.until - now(), 0) / 1000)
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

    def _send(self, machine: Any, step: Send) -> None:
        try:
            reply = self._client._link.run(step.call, step.timeout)
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

    def __enter__(self) -> "Hold":
        """Takes the lock.

        Raises `LockBusy` if another owner has it when the time to wait is over.
        """
        taken = _Taken()
        try:
            hold = self._acquire(..., taken)
            if hold is None:
                with about(self._place):
                    raise LockBusy("another owner has the name")
            self._entered.push(threading.get_ident(), hold)
            return hold
        except BaseException:
            taken.give_back()
            raise

    def __exit__(
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
        entry = self._entered.last(threading.get_ident())
        hold = entry[1]
        try:
            self._entered.remove(entry)
            cause = hold.lost_cause
            if cause is None:
                hold.release()
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

    def info(self) -> Optional[Info]:
        """Returns owner, count, token, remaining s and waiters of the present hold, or `None`.

        Costs one request. Raises `Unavailable`, `WrongKind`, `Refused` or `ClientClosed`.
        """
        return self._ask(plans.inspect(self._client._core, self._place))

    def locked(self) -> bool:
        """Tells whether any owner has the lock. Costs and raises what `info` does."""
        return self.info() is not None

    def force_release(self, token: Optional[int] = None) -> bool:
        """Ends the hold of any owner, or only the one with this token. Returns whether it did.

        **This breaks exclusion**: the name is free at once, while the holder may still be at work.
        A renewed hold is lost at once, or at its next renewal if the message is lost. A hold without
        renewals is lost at the end of its lease. Costs two requests, or one with a token. Raises what
        `info` does.
        """
        core, place = self._client._core, self._place
        ended = self._ask(plans.force(core, place, token))
        if ended is not None:
            self._client._keeper.revoke(place.key, ended)
        return ended is not None

    def _ask(self, plan: Plan[T]) -> T:
        with about(self._place):
            self._client._start()
            return carry_out(self._client._link, plan)

    def __repr__(self) -> str:
        return f"<redlatch.{type(self).__name__} {self.name!r}>"


class _Taken:
    """What a call has taken so far. An exception at any point gives it back."""

    def __init__(self) -> None:
        self.holds: list[Hold] = []
        self.lines: list[threading.Lock] = []

    def give_back(self) -> None:
        for line in self.lines:
            line.release()
        give_back(self.holds)


class FairLock(Lock):
    """The fair lock: waiters have it in the order in which they came, over all clients."""

    _kind = FAIR
