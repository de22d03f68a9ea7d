"""The background work of the asynchronous client: renewals, notices of loss, and releases."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Callable, Coroutine, Optional
from weakref import ref

from . import _plans as plans
from ._acquisition import Undo
from ._aio_crew import Bell, Condition, Event, Tasks, sleep
from ._aio_link import Link
from ._base import RECORD_PAUSE, RECORD_RETRY, RECORD_TTL, Core
from ._lease import Lease
from ._plans import Ask, Plan, T
from ._time import now
from ._wire import NoAnswer
from .errors import RedlatchError

if TYPE_CHECKING:
    from ._aio_hold import Hold

# Sleeps are bounded, since a timer may stand still while the machine is suspended. In ms.
_LONGEST_SLEEP = 60_000.0

_Due = Callable[[Lease], float]
# sync: _Act = Callable[[Lease], None]
_Act = Callable[[Lease], Coroutine[Any, Any, None]]


async def carry_out(link: Link, plan: Plan[T]) -> T:
    """Carries a plan out, and returns its result."""
    reply: object = None
    try:
        step = next(plan)
        while True:
            try:
                if isinstance(step, Ask):
                    reply = await link.run(step.call, step.timeout)
                else:
                    await sleep(step.ms / 1000)
            except (NoAnswer, RedlatchError) as error:
                step = plan.throw(error)
            else:
                step = plan.send(reply)
    except StopIteration as end:
        result: T = end.value
        return result


def _renew_at(lease: Lease) -> float:
    return lease.renew_at


def _tell_at(lease: Lease) -> float:
    return 0.0 if lease.cause(now()) is not None else lease.wake_at_loss


class Keeper:
    """Renews holds and tells them of their loss. One slow renewal does not delay a notice."""

    def __init__(self, link: Link, core: Core, tasks: Tasks) -> None:
        self._link, self._core, self._tasks = link, core, tasks
        # A hold that its owner has dropped must not live on here.
        self._holds: "dict[Lease, ref[Hold]]" = {}
        self._change = Condition()
        # Until when the tasks sleep.
        self._sleeps: dict[_Due, float] = {}
        self._ended = False
        tasks.spawn("renewals", lambda: self._run(_renew_at, self._renew))
        tasks.spawn("notices", lambda: self._run(_tell_at, self._notice))

    def add(self, hold: "Hold") -> None:
        """Begins to renew a hold."""
        with self._change:
            self._holds[hold._lease] = ref(hold)
        self.plan(hold._lease)

    def plan(self, lease: Lease) -> None:
        """Sees that the next time of a hold is not missed."""
        with self._change:
            if any(due(lease) < until for due, until in self._sleeps.items()):
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
        """Tells all holds that the client is closed. Returns them."""
        with self._change:
            self._ended = True
            holds = [hold for found in self._holds.values() if (hold := found())]
            self._holds.clear()
            self._change.notify_all()
        for hold in holds:
            hold._lease.lose("closed")
            hold._tell()
        return holds

    async def _run(self, due: _Due, act: _Act) -> None:
        while True:
            with self._change:
                if self._ended:
                    return
                at = now()
                leases = sorted((each for each in self._holds if due(each) <= at), key=due)
                if not leases:
                    until = min(map(due, self._holds), default=at + _LONGEST_SLEEP)
                    self._sleeps[due] = until = min(until, at + _LONGEST_SLEEP)
                    await self._change.wait((until - at) / 1000)
            for lease in leases:
                await act(lease)

    async def _notice(self, lease: Lease) -> None:
        if lease.cause(now()) is not None:
            found = self._holds.get(lease)
            self.remove(lease)
            hold = found() if found else None
            if hold:
                hold._tell()

    async def _renew(self, lease: Lease) -> None:
        lost = lease.cause(now()) is not None
        lease.renew_at = float("inf")
        if not lost:
            # sync: self._send(lease)
            self._tasks.spawn("renewal", lambda: self._send(lease))

    async def _send(self, lease: Lease) -> None:
        await carry_out(self._link, plans.renew(self._core, self._link.clock, lease))
        self.plan(lease)


class Releaser:
    """Sends releases and undos in the background, and the record of the client."""

    def __init__(self, link: Link, core: Core, tasks: Tasks) -> None:
        self._link, self._core, self._tasks = link, core, tasks
        self._queue: "deque[Undo]" = deque()
        self._bell = Bell(tasks)
        # How many releases are on their way.
        self._sent = 0
        self._until: Optional[float] = None
        self._done = Event()

    def put(self, undo: Undo) -> None:
        """Hands over a release. Never waits: a garbage collection may do it at any point."""
        self._queue.append(undo)
        self._bell.ring()

    async def run(self) -> None:
        """Works until `close`."""
        try:
            announce_at = now()
            while self._until is None or (self._is_busy() and now() < self._until):
                until = min(announce_at, self._until or announce_at, now() + _LONGEST_SLEEP)
                if self._queue:
                    self._sent += 1
                    undo = self._queue.popleft()
                    # sync: self._repeat(undo)
                    self._tasks.spawn("release", lambda: self._repeat(undo))
                elif announce_at <= now():
                    announce_at = now() + await self._announce()
                else:
                    await self._bell.wait((until - now()) / 1000)
        finally:
            self._done.set()

    def _is_busy(self) -> bool:
        return bool(self._queue or self._sent)

    async def _repeat(self, undo: Undo) -> None:
        try:
            if await carry_out(self._link, plans.give_back(undo)):
                await sleep(0.1)
                self._queue.append(undo)
        finally:
            self._sent -= 1
            self._bell.ring()

    async def _announce(self) -> float:
        """Writes the record of the client. Returns after which time to write it again."""
        # The first answer has the time of the server.
        # sync:
        await self._ask("PING")
        key, text = self._core.record(self._link.clock)
        written = await self._ask("SET", key, text, "PX", RECORD_TTL)
        return RECORD_PAUSE if written else RECORD_RETRY

    async def _ask(self, *command: object) -> bool:
        try:
            await self._link.ask(1000.0, *command)
            return True
        except (NoAnswer, RedlatchError):
            # The record ends by itself.
            return False

    async def close(self, seconds: float) -> None:
        """Waits until nothing is left to release, or for this time. Removes the record."""
        self._until = now() + seconds * 1000
        self._bell.ring()
        await self._done.wait(max(seconds, 0) + 2)
        if not self._is_busy():
            await self._ask("DEL", self._core.record(self._link.clock)[0])
