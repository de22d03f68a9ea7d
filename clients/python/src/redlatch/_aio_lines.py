"""The lines of the calls to rate limiters, one for each key, in the asynchronous client.

One request of a line is under way at a time, since its scripts remember the last attempt of each
client only. A task of the client sends it, so that a call may end before its answer.
"""

from __future__ import annotations

import contextlib
import copy
from collections import OrderedDict
from typing import Optional, Union
from weakref import WeakSet

from . import _plans as plans
from ._aio_crew import Condition, Event, Mutex, Tasks
from ._aio_keeper import carry_out
from ._aio_link import Link
from ._base import Core, about
from ._calls import Place
from ._limit_calls import MOST_PASSES, Passed, Request, Settle, Take
from ._passes import Refusal
from ._time import now
from .errors import ClientClosed, RedlatchError, Unavailable

# Sleeps are bounded, since a timer may stand still while the machine is suspended. In ms.
_LONGEST_SLEEP = 60_000.0


class Asked:
    """A call, and what came of it."""

    def __init__(self, place: Place, request: Request, *, waits: bool = False) -> None:
        self.place, self.request, self.waits = place, request, waits
        self.since = now()
        # `None` until it comes. A settlement is answered with 0.
        self.answer: Union[Passed, Refusal, RedlatchError, int, None] = None
        self.event = Event()
        self.expected = True

    def is_late(self) -> bool:
        """Tells whether its time is over."""
        until = self.request.until if isinstance(self.request, Take) else None
        return until is not None and until <= now()


class Line:
    """The calls for one key."""

    def __init__(self) -> None:
        self.at_once: "OrderedDict[Asked, None]" = OrderedDict()
        # Those that wait for their turn, by arrival.
        self.waiting: "OrderedDict[Asked, None]" = OrderedDict()
        # The waiter whose pass counts later. The next one does not ask before.
        self.turn: Optional[Asked] = None
        # Whether the waiters go next, although others ask as soon as possible.
        self.waiters_next = False
        # What identifies the task that asks for the calls.
        self.asker: Optional[object] = None

    def queue(self, call: Asked) -> "OrderedDict[Asked, None]":
        """Returns where a call waits."""
        return self.waiting if call.waits else self.at_once

    def has_next(self) -> bool:
        """Tells whether a call may ask."""
        return bool(self.at_once or (self.waiting and self.turn is None))

    def is_over(self) -> bool:
        """Tells whether the line is of no use any more."""
        return not (self.at_once or self.waiting or self.turn or self.asker)

    def next(self) -> list[Asked]:
        """Removes the calls that go next in one request. Waiters and others take turns.

        A settlement goes first: it may free what the next waiter takes.
        """
        batch: list[Asked] = []
        queue = self.at_once
        waits = bool(self.waiting) and self.turn is None
        settles = bool(queue) and isinstance(next(iter(queue)).request, Settle)
        if waits and (not queue or (self.waiters_next and not settles)):
            queue = self.waiting
        self.waiters_next = queue is self.at_once
        while queue and len(batch) < MOST_PASSES:
            call = next(iter(queue))
            if batch and not (_joins(call) and batch[0].request.joins(call.request)):
                break
            batch.append(queue.popitem(last=False)[0])
        return batch


def _joins(call: Asked) -> bool:
    # One pass may be taken ahead. Waiters behind it ask again, and those who reserve cannot.
    return call.waits or (isinstance(call.request, Take) and call.request.until is None)


class Lines:
    """The lines of one client."""

    def __init__(self, link: Link, core: Core, tasks: Tasks) -> None:
        self._link, self._core, self._tasks = link, core, tasks
        self._lines: dict[str, Line] = {}
        self._lock = Mutex()
        self._left = Condition(self._lock)
        # To be woken when the client is closed.
        self._callers: "WeakSet[Asked]" = WeakSet()

    async def ask(self, call: Asked, until: Optional[float] = None) -> bool:
        """Waits for the answer to a call. Returns whether the call has asked.

        `until` ends the wait of a call that has not, and `abandon` what an exception leaves.
        """
        with self._lock:
            self._add(call)
            self._callers.add(call)
        while call.answer is None:
            self._core.check_open()
            if until is not None and until <= now():
                if self._withdraw(call):
                    return False
                # It has asked, and the answer comes within the client's patience.
                until = None
            left = _LONGEST_SLEEP if until is None else until - now()
            await call.event.wait(min(left, _LONGEST_SLEEP) / 1000)
        if isinstance(call.answer, RedlatchError):
            # Other callers may have the same one.
            raise copy.copy(call.answer) from call.answer.__cause__
        return True

    async def sleep(self, call: Asked, until: float) -> None:
        """Waits until a pass counts, and lets the next waiter ask."""
        while now() < until:
            call.event.clear()
            self._core.check_open()
            await call.event.wait(min(until - now(), _LONGEST_SLEEP) / 1000)
        with self._lock:
            self._leave(call)

    def abandon(self, call: Asked) -> None:
        """Takes back what a call has asked for: it is not sent, or its pass is given back."""
        # Nothing can be sent behind the end of the client.
        with contextlib.suppress(ClientClosed, RuntimeError), self._lock:
            call.expected = False
            self._leave(call)
            if isinstance(call.answer, Passed):
                self._give_back(call, call.answer)
                call.answer = None

    def _add(self, call: Asked) -> None:
        line = self._lines.setdefault(call.place.key, Line())
        line.queue(call)[call] = None
        self._start(call.place, line)

    def _withdraw(self, call: Asked) -> bool:
        with self._lock:
            line = self._lines.get(call.place.key)
            if line is None or call not in line.queue(call):
                return False
            self._leave(call)
            return True

    def _leave(self, call: Asked) -> None:
        line = self._lines.get(call.place.key)
        if line:
            line.queue(call).pop(call, None)
            if line.turn is call:
                line.turn = None
            self._start(call.place, line)
            self._forget(call.place, line)

    def _give_back(self, call: Asked, passed: Passed) -> None:
        if isinstance(call.request, Take):
            rate, cost = call.request.rate, call.request.cost
            self._add(Asked(call.place, Settle(rate, cost, -cost, passed.mark)))

    def _start(self, place: Place, line: Line) -> None:
        if line.asker is None and line.has_next():
            try:
                # The task finds another asker if an exception hits this one here.
                asker = line.asker = object()
                self._tasks.spawn("limit", lambda: self._run(place, line, asker))
            except BaseException:
                line.asker = None
                raise

    def _forget(self, place: Place, line: Line) -> None:
        if line.is_over() and self._lines.get(place.key) is line:
            del self._lines[place.key]
            self._left.notify_all()

    async def _run(self, place: Place, line: Line, asker: object) -> None:
        try:
            while batch := self._next(place, line, asker):
                await self._send(place, line, batch)
        finally:
            with self._lock:
                if line.asker is asker:
                    # The client ends with its task, and no call waits for `close`.
                    self._lines.pop(place.key, None)
                    self._left.notify_all()

    def _next(self, place: Place, line: Line, asker: object) -> list[Asked]:
        with self._lock:
            if line.asker is not asker:
                return []
            batch = line.next()
            if not batch:
                line.asker = None
                self._forget(place, line)
            return batch

    async def _send(self, place: Place, line: Line, batch: list[Asked]) -> None:
        request, core = batch[0].request, self._core
        call = request.call(place, core.settings.client, core.draw(), len(batch))
        try:
            with about(place):
                # sync:
                await self._link.ready(now() + core.settings.patience)
                passed = await carry_out(self._link, plans.change(core, self._link.clock, call))
        except RedlatchError as error:
            with self._lock:
                self._fail(line, batch, error)
            return
        with self._lock:
            if passed is None or not isinstance(request, Take):
                self._answer(batch[0], 0)
            else:
                self._hand_out(line, batch, request, passed)

    def _answer(self, call: Asked, answer: Union[Passed, Refusal, RedlatchError, int]) -> None:
        if call.expected:
            call.answer = answer
            call.event.set()
        elif isinstance(answer, Passed):
            self._give_back(call, answer)

    def _hand_out(self, line: Line, batch: list[Asked], request: Take, passed: Passed) -> None:
        """Hands passes to those who have come first, and tells the others.

        Waiters whose time is over have tried to leave meanwhile.
        """
        each = passed.each(request)
        got, rest = batch[: len(each)], batch[len(each) :]
        for call, own in zip(got, each):
            if call.waits and call.expected and own.wait > 0:
                line.turn = call
            self._answer(call, own)
        if batch[0].waits:
            # The first one is refused. The others ask again.
            again = rest if got else rest[1:]
            rest = [] if got else rest[:1]
            for call in reversed(again):
                if call.is_late():
                    rest.append(call)
                elif call.expected:
                    line.waiting[call] = None
                    line.waiting.move_to_end(call, last=False)
        for call in rest:
            self._answer(call, Refusal.of(request, passed))

    def _fail(self, line: Line, batch: list[Asked], error: RedlatchError) -> None:
        """Fails the calls of a request, and if it has no answer, those of this client that have not
        asked for as long as its patience."""
        for call in batch:
            self._answer(call, error)
        if isinstance(error, Unavailable):
            unsent = Unavailable(str(error), name=error.name)
            before = now() - self._core.settings.patience
            for queue in (line.at_once, line.waiting):
                for call in [call for call in queue if call.since <= before]:
                    del queue[call]
                    self._answer(call, unsent)

    def alarm(self) -> None:
        """Lets all callers look at whether the client was closed."""
        with self._lock:
            for call in self._callers:
                call.event.set()

    async def dismiss(self, seconds: float) -> None:
        """Waits until all callers have left and their passes are given back, or for this time."""
        until = now() + seconds * 1000
        self.alarm()
        with self._left:
            while self._lines and now() < until:
                await self._left.wait((until - now()) / 1000)
