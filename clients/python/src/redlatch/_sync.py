"""The synchronous client."""

from __future__ import annotations

import logging
import threading
from types import TracebackType
from typing import Any, Callable, Optional, Type
from weakref import WeakValueDictionary

import redis

from . import _calls as calls
from ._acquisition import Deliver, End, Pause, Send, StartOver, Subscribe, Undo, Wait
from ._base import Core, HoldView, info_of, lock_options, new_lease
from ._calls import FAIR, PLAIN, Kind
from ._keeper import Keeper, Releaser
from ._lease import Lease, released
from ._link import Link, NoAnswer, Wakes
from ._time import now
from .errors import LockBusy, LockLost, Refused, Unavailable, WrongKind

_log = logging.getLogger("redlatch")


class Client:
    """Makes locks on one server, over connections of its own like those of `client`.

    Threads may share it. It begins four threads at its first lock: for messages, renewals, notices
    of loss, and releases in the background. `lease`, `token_retention`, `patience` and
    `server_clock_allowance` are in seconds; docs/GUARANTEES.md says what they are for.

    Making it costs one request. Raises `Unavailable` if the server does not answer.
    """

    def __init__(self, client: redis.Redis, **options: Any) -> None:
        self._core = Core(**options)
        try:
            self._link = Link(client)
        except NoAnswer as error:
            raise Unavailable(str(error), may_have_run=False) from error
        self._begin = threading.Lock()
        self._began = False
        # A line lasts as long as somebody stands in it.
        self._lines: "WeakValueDictionary[str, threading.Lock]" = WeakValueDictionary()

    @classmethod
    def from_url(cls, url: str, **options: Any) -> "Client":
        """Makes a client for the server at `url`, such as `redis://localhost`."""
        return cls(redis.Redis.from_url(url), **options)

    @property
    def id(self) -> str:
        """The id of this client, 32 hexadecimal digits."""
        return self._core.settings.client

    def lock(self, name: str, **options: Any) -> "Lock":
        """Returns the plain lock of this name. Costs nothing. See `Lock` for the options."""
        return Lock(self, name, **options)

    def fair_lock(self, name: str, **options: Any) -> "FairLock":
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
            self._releaser = Releaser(self._link, self._core)
            self._keeper = Keeper(self._link, self._core)
            channel = self._core.settings.channel
            self._wakes = Wakes(self._link, channel, self._unknown)
            self._began = True

    def _unknown(self, message: str) -> None:
        found = self._core.unknown_waiter(message)
        if found:
            self._releaser.withdraw(*found)

    def close(self) -> None:
        """Tells all holds that they are lost, releases them, and ends the threads.

        A call that waits for a lock raises `ClientClosed`. Returns when the server has answered all
        releases, or after the client's patience. In a fork of the process it does nothing.
        """
        if self._core.is_forked():
            return
        self._core.closed = True
        with self._begin:
            if self._began:
                self._began = False
                until = now() + self._core.settings.patience
                # A waiter that leaves hands over its undo, or its hold to the keeper.
                self._wakes.dismiss((until - now()) / 1000)
                for hold in self._keeper.close():
                    hold._hand_over()
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
        self._local = threading.local()

    def acquire(self, wait: Any = ...) -> "Optional[Hold]":
        """Takes the lock. Returns `None` if another owner has it when the time to wait is over.

        `wait` in seconds replaces the one of the lock. An exception in the meantime, such as
        `KeyboardInterrupt`, leaves nothing: what was taken is given back in the background.

        Raises `Unavailable` if the server was silent for the client's patience, or when the time to
        wait was over. Raises `WrongKind`, `Refused` or `ClientClosed`.
        """
        taken: list[Hold] = []
        try:
            return self._acquire(wait, taken)
        except BaseException:
            _give_back(taken)
            raise

    def _acquire(self, wait: Any, taken: "list[Hold]") -> "Optional[Hold]":
        client = self._client
        client._start()
        seconds = self._wait if wait is ... else wait
        options = lock_options(client._core, self._lease, self._renew, seconds)
        if not options.waits or self._kind.queued:
            return self._run(options, taken)
        # One waiter of this client talks to the server at a time.
        line = client._lines.setdefault(self._place.key, threading.Lock())
        until = options.deadline
        if not line.acquire(timeout=-1 if until is None else max((until - now()) / 1000, 0)):
            return None
        try:
            return self._run(options, taken)
        finally:
            line.release()

    def _run(self, options: Any, taken: "list[Hold]") -> "Optional[Hold]":
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

    def _deliver(
        self, machine: Any, step: Deliver, lease: int, taken: "list[Hold]"
    ) -> "Hold":
        client = self._client
        held = new_lease(client._core, self._place, machine, step, lease, self._renew)
        hold = Hold(client, held, machine.release(), step.grant.abandoned)
        # First listed, then kept: a hold that nobody has is not renewed.
        taken.append(hold)
        client._keeper.add(hold)
        return hold

    def __enter__(self) -> "Hold":
        """Takes the lock.

        Raises `LockBusy` if another owner has it when the time to wait is over.
        """
        taken: list[Hold] = []
        try:
            hold = self._acquire(..., taken)
            if hold is None:
                raise LockBusy(f"another owner has {self.name!r}")
            self._local.__dict__.setdefault("holds", []).append(hold)
            return hold
        except BaseException:
            _give_back(taken)
            raise

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        """Releases the lock; in the background, if the hold was lost.

        Raises `LockLost` if the hold was lost and the block has raised nothing else: what the block
        did may have overlapped with the next holder. Raises `Unavailable` if the server does not
        answer to the release and the block has raised nothing.
        """
        hold: Hold = self._local.holds[-1]
        try:
            self._local.holds.pop()
            cause = hold.lost_cause
            if cause is None:
                hold.release()
            elif cause != "released":
                _give_back([hold])
        except Unavailable:
            # The release goes on in the background, and what the block has raised matters more.
            if error is None:
                raise
        except BaseException:
            _give_back([hold])
            raise
        if cause not in (None, "released") and error is None:
            raise LockLost(self.name, str(cause))

    def info(self) -> Optional[dict[str, Any]]:
        """Returns owner, count, token, remaining s and waiters of the present hold, or `None`.

        Costs one request. Raises `Unavailable`, `WrongKind` or `Refused`.
        """
        self._client._core.check_open()
        try:
            return info_of(self._client._link.run(self._place.call("inspect"), 1000.0))
        except NoAnswer as error:
            raise Unavailable(str(error), may_have_run=False) from error

    def __repr__(self) -> str:
        return f"<redlatch.{type(self).__name__} {self.name!r}>"


class FairLock(Lock):
    """The fair lock: waiters have it in the order in which they came, over all clients."""

    _kind = FAIR


class Hold(HoldView):
    """A lock that is held. See `HoldView` for what it tells."""

    def __init__(self, client: Client, lease: Lease, release: calls.Call, abandoned: bool) -> None:
        super().__init__(client._core, lease, abandoned)
        self._client, self._release_call = client, release
        self._told = threading.Event()
        self._telling = threading.Lock()
        self._released = False
        self._callbacks: list[Callable[[Hold], object]] = []

    def wait_lost(self, seconds: Optional[float] = None) -> bool:
        """Waits until the hold is lost, at most for this time. Returns whether it is.

        A release is no loss.
        """
        return self._told.wait(seconds)

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

    def _undo(self) -> Undo:
        return Undo(self._release_call, self._lease.valid_until + self._lease.lease + 10_000)

    def _hand_over(self) -> None:
        if not self._released:
            self._released = True
            self._client._releaser.put(self._undo())

    def release(self) -> str:
        """Ends the hold. Returns how it ended.

        `free`; `expired` or `taken_over` if the lease had ended before; `revoked`; `forgotten`;
        `unconfirmed` if a repeated request found nothing. A second call returns `free`.

        Raises `Unavailable` after the client's patience. The release goes on in the background.
        Raises `ClientClosed` in a fork of the process, which cannot end the hold.
        """
        self._core.check_not_forked()
        if self._released:
            return "free"
        try:
            self._released = True
            self._client._keeper.remove(self)
            self._lease.lose("released")
            verdict, resent = self._client._releaser.run(self._undo())
        except BaseException:
            _give_back([self])
            raise
        return released(verdict, resent=resent)


def _give_back(holds: "list[Hold]") -> None:
    """Releases holds in the background, after an exception at an unknown place."""
    for hold in holds:
        if hold._core.is_forked():
            continue
        hold._released = True
        hold._client._keeper.remove(hold)
        hold._lease.lose("released")
        hold._client._releaser.put(hold._undo())
