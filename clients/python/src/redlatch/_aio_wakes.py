"""The waiters of the asynchronous client, and the messages for them."""

from __future__ import annotations

import logging
from typing import Any, Callable, Mapping, Optional, Union
from weakref import WeakValueDictionary

from ._aio_crew import Condition, Event, Mutex, sleep
from ._aio_link import Link
from ._time import now
from ._wire import NoAnswer
from .errors import RedlatchError

_log = logging.getLogger("redlatch")

# The pause between two connections, in s. It doubles until a subscription is confirmed.
_REDIAL = 0.05
_LONGEST_REDIAL = 1.0


class Mailbox:
    """What a waiter is told."""

    def __init__(self, key: str, attempt: int, subscribed: bool) -> None:
        self.key, self.attempt = key, str(attempt)
        self.subscribed = subscribed
        self.called = False
        self.changed = False
        self.event = Event()
        self.peers: "WeakValueDictionary[str, Mailbox]" = WeakValueDictionary()

    async def wait(self, until: float) -> None:
        """Waits for something to read, at most until then."""
        await self.event.wait((until - now()) / 1000)
        self.event.clear()


class Wakes:
    """The subscription to the wake channel. It has a connection and a task of its own."""

    def __init__(self, link: Link, channel: str, unknown: Callable[[str], None]) -> None:
        self._link, self._channel, self._unknown = link, channel, unknown
        # The waiters of a key, by attempt. A box keeps those of its key, and goes with its waiter,
        # even if an exception hit the waiter before it left.
        self._boxes: "WeakValueDictionary[str, WeakValueDictionary[str, Mailbox]]"
        self._boxes = WeakValueDictionary()
        self._lock = Mutex()
        self._left = Condition(self._lock)
        self.subscribed = False
        self._settled = Event()
        self._pause, self._warned = _REDIAL, False

    async def settle(self, seconds: float) -> bool:
        """Waits for the first subscription. Returns whether messages reach the client."""
        await self._settled.wait(seconds)
        return self.subscribed

    def join(self, key: str, attempt: int) -> Mailbox:
        """Adds a waiter."""
        with self._lock:
            box = Mailbox(key, attempt, self.subscribed)
            box.peers = self._boxes.setdefault(key, box.peers)
            box.peers[box.attempt] = box
            return box

    def leave(self, box: Mailbox) -> None:
        """Removes a waiter."""
        with self._left:
            box.peers.pop(box.attempt, None)
            self._left.notify_all()

    def _all(self) -> list[Mailbox]:
        return [box for boxes in self._boxes.values() for box in boxes.values()]

    def alarm(self) -> None:
        """Lets all waiters look at whether the client was closed."""
        with self._lock:
            for box in self._all():
                box.event.set()

    async def dismiss(self, seconds: float) -> None:
        """Waits until all waiters have left, for this time at most."""
        until = now() + seconds * 1000
        self.alarm()
        with self._left:
            while self._all() and now() < until:
                await self._left.wait((until - now()) / 1000)

    def tell(self, key: str, attempt: Optional[str]) -> bool:
        """Calls the waiters of a key, or one of them. Returns whether there was one."""
        with self._lock:
            boxes: Mapping[str, Mailbox] = self._boxes.get(key, {})
            called = boxes.values() if attempt is None else [boxes.get(attempt)]
            found = [box for box in called if box]
        for box in found:
            box.called = True
            box.event.set()
        return bool(found)

    def _receive(self, text: str) -> None:
        if self.tell(text, None):
            return
        key, _, number = text.rpartition(" ")
        if not self.tell(key, number):
            self._unknown(text)

    def _set(self, subscribed: bool) -> None:
        with self._lock:
            if self.subscribed == subscribed:
                return
            self.subscribed = subscribed
            for box in self._all():
                box.subscribed, box.changed = subscribed, True
                box.event.set()
        if subscribed:
            self._settled.set()

    def _read(self, push: Any) -> None:
        if push[0] == "subscribe":
            self._pause = _REDIAL
            self._set(True)
        elif push[0] == "message":
            self._receive(push[2])

    async def run(self) -> None:
        """Listens until the client is closed."""
        # sync: while not self._link.closed:
        while True:
            try:
                await self._link.listen(self._channel, self._read)
            except (NoAnswer, RedlatchError) as error:
                self._warn(error)
            finally:
                self._set(False)
            pause, self._pause = self._pause, min(2 * self._pause, _LONGEST_REDIAL)
            await sleep(pause)

    def _warn(self, error: Union[NoAnswer, RedlatchError]) -> None:
        """Logs the first answer of a server that refuses the subscription."""
        silent = isinstance(error, NoAnswer) and (error.elsewhere or not error.words)
        if not silent and not self._warned:
            self._warned = True
            _log.warning("the server sends no messages, so that waiters ask more often: %s", error)
