"""The tasks of the asynchronous client, and how they wait. `_crew` has the same for threads.

Nothing here swallows a cancellation, and nothing uses `asyncio.wait_for`: before Python 3.12 it may
drop a result that arrives with the time-out.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any, Awaitable, Callable, Coroutine, Optional

from .errors import ClientClosed

_log = logging.getLogger("redlatch")

# Threads need it. A loop has one.
Mutex = contextlib.nullcontext

current = asyncio.current_task
Line = asyncio.Lock
new_line = asyncio.Lock


class Event:
    """An event of one loop, for which no task is needed to wait for a limited time."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiters: set[asyncio.Future[None]] = set()

    def is_set(self) -> bool:
        """Tells whether the event is set."""
        return self._is_set

    def clear(self) -> None:
        """Takes the event back."""
        self._is_set = False

    def set(self) -> None:
        """Wakes all that wait."""
        self._is_set = True
        for waiter in self._waiters:
            _end(waiter)

    async def wait(self, seconds: float) -> bool:
        """Waits until the event is set, for this time at most. Returns whether it is."""
        if not self._is_set:
            loop = asyncio.get_running_loop()
            waiter = loop.create_future()
            timer = loop.call_later(max(seconds, 0), _end, waiter)
            self._waiters.add(waiter)
            try:
                await waiter
            finally:
                timer.cancel()
                self._waiters.discard(waiter)
        return self._is_set


def _end(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class Condition(contextlib.nullcontext[None]):
    """A condition of one loop."""

    def __init__(self, _: object = None) -> None:
        super().__init__()
        self._event = Event()

    def notify_all(self) -> None:
        """Wakes all that wait."""
        self._event.set()

    async def wait(self, seconds: float) -> None:
        """Waits for a notice, for this time at most."""
        self._event.clear()
        await self._event.wait(seconds)


class Bell:
    """Wakes one task. Any thread may ring it, also after the end of the loop."""

    def __init__(self, tasks: "Tasks") -> None:
        self._tasks, self._event = tasks, Event()

    def ring(self) -> None:
        """Wakes the task, or ends its next wait."""
        self._tasks.call(self._event.set)

    async def wait(self, seconds: float) -> None:
        """Waits for the bell, for this time at most."""
        await self._event.wait(seconds)
        self._event.clear()


async def sleep(seconds: float) -> None:
    """Waits for this time."""
    await asyncio.sleep(max(seconds, 0))


async def within(work: Awaitable[Any], seconds: float) -> Any:
    """Awaits `work` for a limited time. Raises `TimeoutError` after it.

    A cancelled call is always cancelled. `work` has ended when this returns.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=max(seconds, 0))
        if task.done():
            return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
    raise asyncio.TimeoutError(f"nothing for {seconds} s")


async def take_turn(line: Line, seconds: Optional[float], taken: list[Line]) -> None:
    """Takes a lock of this process, and lists it as taken, unless the time is over before.

    A cancelled call leaves it as it was.
    """
    task = asyncio.ensure_future(line.acquire())
    try:
        await asyncio.wait({task}, timeout=seconds)
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
        taken += [] if task.cancelled() else [line]
    except BaseException:
        if not task.cancel():
            line.release()
        raise


class Tasks:
    """The tasks of one client. The client ends with the first one that is cancelled or fails."""

    def __init__(self, collapse: Callable[[], None]) -> None:
        self._collapse = collapse
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._closing = False

    def check(self) -> None:
        """Raises `ClientClosed` in another event loop than that of the first task."""
        if self._loop not in (None, asyncio.get_running_loop()):
            raise ClientClosed(
                "the client belongs to another event loop; each loop needs a client of its own"
            )

    @property
    def ended(self) -> Optional[str]:
        """Why nothing can run any more, if that is so."""
        over = self._loop is not None and self._loop.is_closed()
        return "the event loop of the client has ended" if over else None

    def spawn(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begins a task. Raises `ClientClosed` after `close`."""
        if self._closing:
            raise ClientClosed("the client was closed")
        self._loop = asyncio.get_running_loop()
        task = self._loop.create_task(work(), name=f"redlatch {name}")
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        failure = None if task.cancelled() else task.exception()
        if failure:
            _log.error("a task of the client has failed", exc_info=failure)
        if (failure or task.cancelled()) and not self._closing:
            self._collapse()

    def call(self, work: Callable[[], None]) -> None:
        """Runs `work` soon. Any thread may call this, also after the end of the loop."""
        if self._loop:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(work)

    async def close(self) -> None:
        """Ends all tasks."""
        self._closing = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
