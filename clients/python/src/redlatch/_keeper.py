"""The threads of the synchronous client: renewals, notices of loss, and background releases."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Any, Callable, Optional

from . import _calls as calls
from ._acquisition import Undo
from ._base import Core
from ._calls import Place
from ._link import Link, NoAnswer
from ._time import REACH, attempt_timeout, now
from .errors import RedlatchError, Unavailable, WrongKind

if TYPE_CHECKING:
    from ._sync import Hold

# Sleeps are bounded, since a timer may stand still while the machine is suspended.
_LONGEST_SLEEP = 60.0


class Keeper:
    """Renews holds and tells them of their loss. One slow renewal does not delay a notice."""

    def __init__(self, link: Link, core: Core) -> None:
        self._link, self._core = link, core
        self._holds: set[Hold] = set()
        self._change = threading.Condition()
        self._ended = False
        for name, due, act in (
            ("renewals", self._renew_at, self._renew),
            ("notices", self._tell_at, self._notice),
        ):
            run: Callable[..., None] = self._run
            args = (due, act)
            threading.Thread(target=run, args=args, name=f"redlatch {name}", daemon=True).start()

    def add(self, hold: "Hold") -> None:
        """Begins to renew a hold."""
        with self._change:
            self._holds.add(hold)
            self._change.notify_all()

    def remove(self, hold: "Hold") -> None:
        """Ends the renewals of a hold."""
        with self._change:
            self._holds.discard(hold)

    def close(self) -> "list[Hold]":
        """Ends the threads, and tells all holds. Returns them."""
        with self._change:
            self._ended = True
            holds = list(self._holds)
            self._holds.clear()
            self._change.notify_all()
        for hold in holds:
            hold._lease.lose("closed")
            hold._tell()
        return holds

    def _renew_at(self, hold: "Hold") -> float:
        return hold._lease.renew_at

    def _tell_at(self, hold: "Hold") -> float:
        return 0.0 if hold.lost_cause is not None else hold._lease.wake_at_loss

    def _run(self, due: "Callable[[Hold], float]", act: "Callable[[Hold], None]") -> None:
        while True:
            with self._change:
                if self._ended:
                    return
                hold = min(self._holds, key=due, default=None)
                pause = _LONGEST_SLEEP
                if hold is not None:
                    pause = min((due(hold) - now()) / 1000, pause)
                if hold is None or pause > 0:
                    self._change.wait(pause)
                    continue
            act(hold)

    def _notice(self, hold: "Hold") -> None:
        if hold.lost_cause is not None:
            self.remove(hold)
            hold._tell()

    def _renew(self, hold: "Hold") -> None:
        lease, settings = hold._lease, self._core.settings
        sent = now()
        if lease.cause(sent) is not None:
            lease.renew_at = float("inf")
            return
        by = self._link.clock.act_before(sent)
        call = lease.renewal(by, settings.retention, settings.allowance)
        try:
            reply = self._link.run(call, attempt_timeout(lease.lease))
            millis, verdict, _ = calls.verdict(reply)
            received = now()
            self._link.clock.observe(received, millis)
            random = self._core.random()
            lease.on_renewed(sent, received, verdict, settings.drift, random)
        except WrongKind:
            lease.lose("forgotten")
        except (NoAnswer, RedlatchError):
            lease.on_trouble(now(), self._core.random())
        with self._change:
            self._change.notify_all()


class Releaser:
    """Repeats releases and undos until they are answered."""

    def __init__(self, link: Link, core: Core) -> None:
        self._link, self._core = link, core
        self._queue: "queue.Queue[Optional[Undo]]" = queue.Queue()
        self._pause = threading.Event()
        threading.Thread(target=self._work, name="redlatch releases", daemon=True).start()

    def put(self, undo: Undo) -> None:
        """Hands over a release. Never waits."""
        self._queue.put(undo)

    def withdraw(self, place: Place, number: str) -> None:
        """Removes the place of a waiter that this client does not have."""
        call = place.call("withdraw", "strike", self._core.settings.channel, number)
        self.put(Undo(call, now() + REACH))

    def run(self, undo: Undo) -> tuple[str, bool]:
        """Sends a release until it is answered. Returns the verdict, and whether it was repeated.

        Raises `Unavailable` after the client's patience.
        """
        until = now() + self._core.settings.patience
        resent, pause = False, 0.02
        while True:
            try:
                _, verdict, _ = calls.verdict(self._link.run(undo.call, 1000.0))
                return verdict, resent
            except NoAnswer as error:
                resent |= error.may_have_run
                if now() >= until:
                    raise Unavailable(
                        "the server did not answer to a release", may_have_run=resent
                    ) from error
            self._pause.wait(pause)
            pause = min(2 * pause, 1.0)

    def _work(self) -> None:
        while True:
            undo = self._queue.get()
            if undo is None:
                return
            try:
                self._link.run(undo.call, 1000.0)
            except WrongKind:
                # Another program has the key: nothing is left to release.
                pass
            except (NoAnswer, RedlatchError):
                if now() < undo.give_up:
                    self._queue.put(undo)
                    self._pause.wait(0.1)
            except Exception:
                # An error of an unknown kind must not end the releases of all others.
                self._pause.wait(0.1)
            finally:
                self._queue.task_done()

    def close(self, seconds: float) -> None:
        """Waits until nothing is left to release, or for this time. Then ends the thread."""
        until = now() + seconds * 1000
        with self._queue.all_tasks_done:
            while self._queue.unfinished_tasks and now() < until:
                self._queue.all_tasks_done.wait(max((until - now()) / 1000, 0))
        self._queue.put(None)


__all__: list[Any] = ["Keeper", "Releaser"]
