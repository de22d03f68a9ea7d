"""The waiters of the asynchronous client, and the messages for them."""

from __future__ import annotations

import asyncio
from typing import Any, Callable, Optional

from ._aio_link import REDIAL, Link
from ._aio_session import ERRORS, within
from ._time import now


async def wait_for_event(event: asyncio.Event, seconds: float) -> None:
    """Waits for an event, for a limited time. Sets the event at the end of the time."""
    timer = asyncio.get_running_loop().call_later(max(seconds, 0), event.set)
    try:
        await event.wait()
    finally:
        timer.cancel()


async def take_turn(line: asyncio.Lock, seconds: Optional[float]) -> bool:
    """Takes a lock of this process for a limited time. A cancelled call leaves it as it was."""
    task = asyncio.ensure_future(line.acquire())
    try:
        await asyncio.wait({task}, timeout=seconds)
        if task.done():
            return True
        task.cancel()
        await asyncio.wait({task})
        return not task.cancelled()
    except BaseException:
        if not task.cancel():
            line.release()
        raise


class Mailbox:
    """What a waiter is told."""

    def __init__(self, key: str, attempt: int, subscribed: bool) -> None:
        self.key, self.attempt = key, str(attempt)
        self.subscribed = subscribed
        self.called = False
        self.changed = False
        self.event = asyncio.Event()

    async def wait(self, until: float) -> None:
        """Waits for something to read, at most until then."""
        await wait_for_event(self.event, (until - now()) / 1000)
        self.event.clear()


class Wakes:
    """The subscription to the wake channel, on a connection of its own."""

    def __init__(self, link: Link, channel: str, unknown: Callable[[str], None]) -> None:
        self._link, self._channel, self._unknown = link, channel, unknown
        self._boxes: dict[str, dict[str, Mailbox]] = {}
        self._left = asyncio.Event()
        self.subscribed = False
        self._settled = asyncio.Event()
        self._heard = now()
        self._connection: Any = None
        link.on_elsewhere = self._reconnect

    def _reconnect(self) -> None:
        if self._connection:
            self._ending = asyncio.ensure_future(self._connection.disconnect(nowait=True))

    async def settle(self, seconds: float) -> bool:
        """Waits for the first subscription. Returns whether messages reach the client."""
        if not self._settled.is_set():
            await within(self._settled.wait(), seconds, or_else=False)
        return self.subscribed

    def join(self, key: str, attempt: int) -> Mailbox:
        """Adds a waiter."""
        box = Mailbox(key, attempt, self.subscribed)
        self._boxes.setdefault(key, {})[box.attempt] = box
        return box

    def leave(self, box: Mailbox) -> None:
        """Removes a waiter."""
        boxes = self._boxes.get(box.key, {})
        boxes.pop(box.attempt, None)
        if not boxes:
            self._boxes.pop(box.key, None)
        self._left.set()

    def _all(self) -> list[Mailbox]:
        return [box for boxes in self._boxes.values() for box in boxes.values()]

    def alarm(self) -> None:
        """Lets all waiters look at whether the client was closed."""
        for box in self._all():
            box.event.set()

    async def dismiss(self, seconds: float) -> None:
        """Waits until all waiters have left, for this time at most."""
        until = now() + seconds * 1000
        self.alarm()
        while self._boxes and now() < until:
            self._left.clear()
            await wait_for_event(self._left, (until - now()) / 1000)

    def tell(self, key: str, attempt: Optional[str]) -> bool:
        """Calls the waiters of a key, or one of them. Returns whether there was one."""
        boxes = self._boxes.get(key, {})
        called = list(boxes.values()) if attempt is None else [boxes.get(attempt)]
        for box in called:
            if box:
                box.called = True
                box.event.set()
        return any(called)

    def _receive(self, text: str) -> None:
        if self.tell(text, None):
            return
        key, _, number = text.rpartition(" ")
        if not self.tell(key, number):
            self._unknown(text)

    def _set(self, subscribed: bool) -> None:
        self.subscribed = subscribed
        for box in self._all():
            box.subscribed, box.changed = subscribed, True
            box.event.set()
        if subscribed:
            self._settled.set()

    async def run(self) -> None:
        """Listens until the task is cancelled."""
        while True:
            self._connection, timeout = self._link.connection()
            ping = asyncio.ensure_future(self._ping(self._connection))
            try:
                await within(self._connection.connect(), timeout)
                await self._listen(self._connection)
            except ERRORS:
                pass
            finally:
                ping.cancel()
                self._set(False)
                await self._connection.disconnect(nowait=True)
            await asyncio.sleep(REDIAL / 1000)

    async def _listen(self, connection: Any) -> None:
        await connection.send_command("SUBSCRIBE", self._channel)
        while True:
            push = await connection.read_response()
            self._heard = now()
            if push[0] == "subscribe":
                self._set(True)
            elif push[0] == "message":
                self._receive(push[2])

    async def _ping(self, connection: Any) -> None:
        """Ends a connection that is silent for 10 s although it is asked."""
        self._heard = now()
        while now() - self._heard < 10_000:
            await asyncio.sleep(5.0)
            try:
                await connection.send_command("PING")
            except ERRORS:
                break
        await connection.disconnect(nowait=True)
