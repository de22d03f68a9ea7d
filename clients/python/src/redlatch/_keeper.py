"""The threads of the synchronous client: renewals, notices of loss, and background releases."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Callable, Optional
from weakref import ref

from . import _plans as plans
from ._acquisition import Undo
from ._base import RECORD_PAUSE, RECORD_RETRY, RECORD_TTL, Core
from ._lease import Lease
from ._link import Link
from ._plans import Ask, Plan, T
from ._time import now
from ._wire import NoAnswer
from .errors import RedlatchError

if TYPE_CHECKING:
    from ._hold import Hold

# Sleeps are bounded, since a timer may stand still while the machine is suspended. In ms.
_LONGEST_SLEEP = 60_000.0

# Begins a thread of the client. The client ends if the thread ends by an exception.
Spawn = Callable[[str, Callable[[], None]], threading.Thread]


def carry_out(link: Link, plan: Plan[T]) -> T:
    """Carries a plan out, and returns its result."""
    try:
        step = next(plan)
        while True:
            try:
                if isinstance(step, Ask):
                    reply = link.run(step.call, step.timeout)
                else:
                    reply = time.sleep(step.ms / 1000)  # type: ignore[func-returns-value]
            except (NoAnswer, RedlatchError) as error:
                step = plan.throw(error)
            else:
                step = plan.send(reply)
    except StopIteration as end:
        result: T = end.value
        return result


class Keeper:
    """Renews holds and tells them of their loss. One slow renewal does not delay a notice."""

    def __init__(self, link: Link, core: Core, spawn: Spawn) -> None:
        self._link, self._core = link, core
        # A hold that its owner has dropped must not live on here.
        self._holds: "dict[Lease, ref[Hold]]" = {}
        self._change = threading.Condition()
        self._ended = False
        spawn("renewals", lambda: self._run(lambda lease: lease.renew_at, self._renew))
        spawn("notices", lambda: self._run(self._tell_at, self._notice))

    def add(self, hold: "Hold") -> None:
        """Begins to renew a hold."""
        with self._change:
            self._holds[hold._lease] = ref(hold)
            self._change.notify_all()

    def wake(self) -> None:
        """Looks at the times of all holds again."""
        with self._change:
            self._change.notify_all()

    def remove(self, lease: Lease) -> None:
        """Ends the renewals of a hold."""
        with self._change:
            self._holds.pop(lease, None)

    def revoke(self, key: str, token: int) -> None:
        """Tells the hold with this token that it was ended by force."""
        with self._change:
            for lease in self._holds:
                if (lease.place.key, lease.token) == (key, token):
                    lease.lose("revoked")
            self._change.notify_all()

    def look(self, message: str) -> None:
        """Renews the holds of a key at once, if a message asks for that."""
        with self._change:
            for lease in self._holds:
                if message == f"{lease.place.key} 0" and self._core.may_answer():
                    lease.hurry(now())
            self._change.notify_all()

    def close(self) -> "list[Hold]":
        """Ends the threads, and tells all holds. Returns them."""
        with self._change:
            self._ended = True
            holds = [hold for found in self._holds.values() if (hold := found())]
            self._holds.clear()
            self._change.notify_all()
        for hold in holds:
            hold._lease.lose("closed")
            hold._tell()
        return holds

    def _tell_at(self, lease: Lease) -> float:
        return 0.0 if lease.cause(now()) is not None else lease.wake_at_loss

    def _run(self, due: Callable[[Lease], float], act: Callable[[Lease], None]) -> None:
        while True:
            with self._change:
                if self._ended:
                    return
                lease = min(self._holds, key=due, default=None)
                pause = _LONGEST_SLEEP
                if lease is not None:
                    pause = min(due(lease) - now(), pause)
                if lease is None or pause > 0:
                    self._change.wait(pause / 1000)
                    continue
            act(lease)

    def _notice(self, lease: Lease) -> None:
        if lease.cause(now()) is not None:
            found = self._holds.get(lease)
            self.remove(lease)
            hold = found() if found else None
            if hold:
                hold._tell()

    def _renew(self, lease: Lease) -> None:
        if lease.cause(now()) is not None:
            lease.renew_at = float("inf")
            return
        carry_out(self._link, plans.renew(self._core, self._link.clock, lease))
        self.wake()


class Releaser:
    """Sends releases and undos in the background, and the record of the client."""

    def __init__(self, link: Link, core: Core, spawn: Spawn) -> None:
        self._link, self._core = link, core
        # Garbage collection may put a release at any point of any thread, so that `put` takes no
        # lock that a thread may wait for: releasing `_bell` wakes the thread.
        self._queue: "deque[Undo]" = deque()
        self._bell = threading.Lock()
        self._until: Optional[float] = None
        self._thread = spawn("releases", self._work)

    def put(self, undo: Undo) -> None:
        """Hands over a release. Never waits."""
        self._queue.append(undo)
        self._ring()

    def _ring(self) -> None:
        try:
            self._bell.release()
        except RuntimeError:
            # It was rung, and not heard yet.
            pass

    def _work(self) -> None:
        announce_at = now()
        while self._until is None or (self._queue and now() < self._until):
            pause = min(announce_at - now(), _LONGEST_SLEEP)
            if self._queue:
                undo = self._queue.popleft()
                if carry_out(self._link, plans.give_back(undo)):
                    self._queue.append(undo)
                    time.sleep(0.1)
            elif pause <= 0:
                announce_at = now() + self._announce()
            else:
                self._bell.acquire(timeout=pause / 1000)
        if not self._queue:
            self._ask("DEL", self._core.record(self._link.clock)[0])

    def _announce(self) -> float:
        """Writes the record of the client. Returns after which time to write it again."""
        key, text = self._core.record(self._link.clock)
        written = self._ask("SET", key, text, "PX", RECORD_TTL)
        return RECORD_PAUSE if written else RECORD_RETRY

    def _ask(self, *command: object) -> bool:
        try:
            self._link.ask(1000.0, *command)
            return True
        except (NoAnswer, RedlatchError):
            # The record ends by itself.
            return False

    def close(self, seconds: float) -> None:
        """Waits until nothing is left to release, or for this time. Then ends the thread."""
        self._until = now() + seconds * 1000
        self._ring()
        self._thread.join(max(seconds, 0) + 2)
