"""The waiters of the synchronous client, and the messages for them."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Optional
from weakref import WeakSet

import redis

from ._link import ERRORS, Link
from ._time import now


class Mailbox:
    """What a waiter is told."""

    def __init__(self, key: str, attempt: int, subscribed: bool) -> None:
        self.key, self.attempt = key, str(attempt)
        self.subscribed = subscribed
        self.called = False
        self.changed = False
        self.event = threading.Event()


class Wakes:
    """The subscription to the wake channel. It has a thread of its own."""

    def __init__(self, link: Link, channel: str, unknown: Callable[[str], None]) -> None:
        self._link, self._channel, self._unknown = link, channel, unknown
        # A box goes with its waiter, even if an exception hit the waiter before it left.
        self._boxes: "WeakSet[Mailbox]" = WeakSet()
        self._lock = threading.Lock()
        self._left = threading.Condition(self._lock)
        self._ended = False
        self.subscribed = False
        self._settled = threading.Event()
        self._moved = False
        link.on_elsewhere = self._reconnect

    def _reconnect(self) -> None:
        self._moved = True

    def settle(self, seconds: float) -> bool:
        """Waits for the first subscription. Returns whether messages reach the client."""
        self._settled.wait(max(seconds, 0))
        return self.subscribed

    def join(self, key: str, attempt: int) -> Mailbox:
        """Adds a waiter."""
        with self._lock:
            box = Mailbox(key, attempt, self.subscribed)
            self._boxes.add(box)
            return box

    def leave(self, box: Mailbox) -> None:
        """Removes a waiter."""
        with self._left:
            self._boxes.discard(box)
            self._left.notify_all()

    def dismiss(self, seconds: float) -> None:
        """Lets all waiters look at whether the client was closed, and waits until they have left,
        for this time at most."""
        with self._left:
            for box in self._boxes:
                box.event.set()
            self._left.wait_for(lambda: not self._boxes, max(seconds, 0))

    def tell(self, key: str, attempt: Optional[str]) -> bool:
        """Calls the waiters of a key, or one of them. Returns whether there was one."""
        with self._lock:
            boxes = [
                box
                for box in self._boxes
                if box.key == key and attempt in (None, box.attempt)
            ]
        for box in boxes:
            box.called = True
            box.event.set()
        return bool(boxes)

    def _receive(self, text: str) -> None:
        if self.tell(text, None):
            return
        key, _, number = text.rpartition(" ")
        if not self.tell(key, number):
            self._unknown(text)

    def _set(self, subscribed: bool) -> None:
        with self._lock:
            self.subscribed = subscribed
            boxes = list(self._boxes)
            for box in boxes:
                box.subscribed, box.changed = subscribed, True
        for box in boxes:
            box.event.set()
        if subscribed:
            self._settled.set()

    def run(self) -> None:
        """Listens until `close`."""
        while not self._ended:
            self._moved = False
            connection = self._link.connection(1.0)
            try:
                self._listen(connection)
            except ERRORS:
                pass
            finally:
                self._set(False)
                connection.disconnect()
            if not self._ended:
                time.sleep(0.05)

    def _listen(self, connection: Any) -> None:
        connection.connect()
        connection.send_command("SUBSCRIBE", self._channel, check_health=False)
        asked = False
        ask_at = now() + 5000
        while not self._ended and not self._moved:
            if not connection.can_read(timeout=1.0):
                if asked:
                    raise redis.ConnectionError("no answer to PING")
                if now() >= ask_at:
                    connection.send_command("PING", check_health=False)
                    asked = True
                continue
            asked, ask_at = False, now() + 5000
            push = connection.read_response()
            if push[0] == "subscribe":
                self._set(True)
            elif push[0] == "message":
                self._receive(push[2])

    def close(self) -> None:
        """Ends the thread within 1 s. Does not wait for it."""
        self._ended = True
