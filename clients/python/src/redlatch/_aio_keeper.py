"""The tasks of the asynchronous client: renewals, notices of loss, and background releases."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from . import _calls as calls
from ._acquisition import Undo
from ._aio_link import Link, wait_for_event, within
from ._base import Core
from ._calls import Place
from ._time import REACH, attempt_timeout, now
from ._wire import NoAnswer
from .errors import RedlatchError, Unavailable, WrongKind

if TYPE_CHECKING:
    from .aio import Hold

# Sleeps are bounded, since a timer may stand still while the machine is suspended.
_LONGEST_SLEEP = 60.0


class Keeper:
    """Renews holds and tells them of their loss. Each renewal is a task of its own."""

    def __init__(self, link: Link, core: Core) -> None:
        self._link, self._core = link, core
        self._holds: set[Hold] = set()
        self._renewals: set[asyncio.Task[None]] = set()
        self._change = asyncio.Event()
        self._task = asyncio.ensure_future(self._run())

    def add(self, hold: "Hold") -> None:
        """Begins to renew a hold."""
        self._holds.add(hold)
        self._change.set()

    def remove(self, hold: "Hold") -> None:
        """Ends the renewals of a hold."""
        self._holds.discard(hold)

    async def close(self) -> "list[Hold]":
        """Ends the tasks, and tells all holds. Returns them."""
        self._task.cancel()
        for task in self._renewals:
            task.cancel()
        await asyncio.gather(self._task, *self._renewals, return_exceptions=True)
        holds = list(self._holds)
        self._holds.clear()
        for hold in holds:
            hold._lease.lose("closed")
            hold._tell()
        return holds

    async def _run(self) -> None:
        while True:
            self._change.clear()
            at = now()
            for hold in list(self._holds):
                if hold.lost_cause is not None:
                    self._holds.discard(hold)
                    hold._tell()
                elif hold._lease.renew_at <= at:
                    hold._lease.renew_at = float("inf")
                    task = asyncio.ensure_future(self._renew(hold))
                    self._renewals.add(task)
                    task.add_done_callback(self._renewals.discard)
            wakes = [
                min(hold._lease.renew_at, hold._lease.wake_at_loss) for hold in self._holds
            ]
            pause = min((min(wakes, default=float("inf")) - at) / 1000, _LONGEST_SLEEP)
            await wait_for_event(self._change, pause)

    async def _renew(self, hold: "Hold") -> None:
        lease, settings = hold._lease, self._core.settings
        sent = now()
        by = self._link.clock.act_before(sent)
        call = lease.renewal(by, settings.retention, settings.allowance)
        try:
            reply = await self._link.run(call, attempt_timeout(lease.lease))
            millis, verdict, _ = calls.verdict(reply)
            received = now()
            self._link.clock.observe(received, millis)
            random = self._core.random()
            lease.on_renewed(sent, received, verdict, settings.drift, random)
        except WrongKind:
            lease.lose("forgotten")
        except (NoAnswer, RedlatchError):
            lease.on_trouble(now(), self._core.random())
        self._change.set()


class Releaser:
    """Repeats releases and undos until they are answered."""

    def __init__(self, link: Link, core: Core) -> None:
        self._link, self._core = link, core
        self._queue: "asyncio.Queue[Undo]" = asyncio.Queue()
        self._task = asyncio.ensure_future(self._work())

    def put(self, undo: Undo) -> None:
        """Hands over a release. Never waits."""
        self._queue.put_nowait(undo)

    def withdraw(self, place: Place, number: str) -> None:
        """Removes the place of a waiter that this client does not have."""
        call = place.call("withdraw", "strike", self._core.settings.channel, number)
        self.put(Undo(call, now() + REACH))

    async def run(self, undo: Undo) -> tuple[str, bool]:
        """Sends a release until it is answered. Returns the verdict, and whether it was repeated.

        Raises `Unavailable` after the client's patience.
        """
        until = now() + self._core.settings.patience
        resent, pause = False, 0.02
        while True:
            try:
                _, verdict, _ = calls.verdict(await self._link.run(undo.call, 1000.0))
                return verdict, resent
            except NoAnswer as error:
                resent |= error.may_have_run
                if now() >= until:
                    raise Unavailable(
                        "the server did not answer to a release", may_have_run=resent
                    ) from error
            await asyncio.sleep(pause)
            pause = min(2 * pause, 1.0)

    async def _work(self) -> None:
        while True:
            undo = await self._queue.get()
            try:
                await self._link.run(undo.call, 1000.0)
            except WrongKind:
                # Another program has the key: nothing is left to release.
                pass
            except (NoAnswer, RedlatchError):
                if now() < undo.give_up:
                    self._queue.put_nowait(undo)
                    await asyncio.sleep(0.1)
            except Exception:
                # An error of an unknown kind must not end the releases of all others.
                await asyncio.sleep(0.1)
            finally:
                self._queue.task_done()

    async def close(self, seconds: float) -> None:
        """Waits until nothing is left to release, or for this time, and ends the task."""
        await within(self._queue.join(), seconds, or_else=None)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


__all__: list[Any] = ["Keeper", "Releaser"]
