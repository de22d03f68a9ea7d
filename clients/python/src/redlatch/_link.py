"""Requests and messages of the synchronous client."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import deque
from typing import Any, Callable, Optional
from weakref import WeakSet

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import SentinelConnectionPool

from ._calls import Call
from ._scripts import script_text
from ._time import ServerClock, now
from ._wire import NoAnswer, check_client, connection_kwargs, error_of

_ERRORS = (redis.RedisError, OSError)

# How many idle connections are kept. Each thread that waits for a reply has one.
_IDLE = 10


class Link:
    """Sends calls of scripts, each once, over connections of its own."""

    def __init__(self, client: Any, own: dict[str, Any]) -> None:
        self._pool = check_client(client, redis.Redis, SentinelConnectionPool)
        self._own = own
        self._pools: dict[float, deque[Any]] = {}
        self._scripts: dict[str, tuple[str, str]] = {}
        # Called when the server turns out to be the wrong one.
        self.on_elsewhere: Callable[[], None] = lambda: None
        seconds, micros = self.ask(1000.0, "TIME")
        self.clock = ServerClock(now(), int(seconds) * 1000 + int(micros) // 1000)

    def connection(self, timeout: Optional[float]) -> Any:
        """Makes a connection like those of the user's client, with a time-out in s."""
        kwargs = connection_kwargs(self._pool, timeout, self._own)
        return self._pool.connection_class(retry=Retry(NoBackoff(), 0), **kwargs)

    def run(self, call: Call, timeout: float) -> Any:
        """Sends a call and returns its reply. `timeout` is in ms.

        Raises `NoAnswer` if there is no clear answer, `Refused` if the server will never execute it.
        """
        if call.script not in self._scripts:
            text = script_text(call.script)
            self._scripts[call.script] = (text, hashlib.sha1(text.encode()).hexdigest())
        text, digest = self._scripts[call.script]
        arguments = (len(call.keys), *call.keys, *call.args)
        try:
            return self.ask(timeout, "EVALSHA", digest, *arguments)
        except redis.exceptions.NoScriptError:
            return self.ask(timeout, "EVAL", text, *arguments)

    def ask(self, timeout: float, *command: object) -> Any:
        """Sends a command and returns its reply. `timeout` is in ms. See `run` for the errors."""
        idle = self._pools.setdefault(timeout, deque())
        try:
            connection = idle.pop()
        except IndexError:
            connection = self.connection(timeout / 1000)
        try:
            if _is_stale(connection):
                connection.disconnect()
            connection.connect()
        except _ERRORS as error:
            connection.disconnect()
            raise error_of(error, sent=False) from error
        try:
            connection.send_command(*command)
            reply = connection.read_response()
        except redis.exceptions.NoScriptError:
            self._keep(timeout, idle, connection)
            raise
        except _ERRORS as error:
            raise self._failed(timeout, idle, connection, error) from error
        except BaseException:
            # The reply of this request must not be taken for that of the next one.
            connection.disconnect()
            raise
        self._keep(timeout, idle, connection)
        return reply

    def _keep(self, timeout: float, idle: deque[Any], connection: Any) -> None:
        # After an answer of the wrong server, or `close`, there is another deque.
        if len(idle) < _IDLE and self._pools.get(timeout) is idle:
            idle.append(connection)
        else:
            connection.disconnect()

    def _failed(
        self, timeout: float, idle: deque[Any], connection: Any, error: Exception
    ) -> Exception:
        meaning = error_of(error, sent=True)
        elsewhere = isinstance(meaning, NoAnswer) and meaning.elsewhere
        if isinstance(error, redis.ResponseError) and not elsewhere:
            self._keep(timeout, idle, connection)
        else:
            connection.disconnect()
        if elsewhere:
            self.close()
            self.on_elsewhere()
        return meaning

    def close(self) -> None:
        """Closes the idle connections. Those in use end with their requests."""
        pools, self._pools = self._pools, {}
        for idle in list(pools.values()):
            while idle:
                idle.pop().disconnect()


def _is_stale(connection: Any) -> bool:
    """Tells whether an idle connection has ended: then it has something to read."""
    try:
        return bool(getattr(connection, "_sock", None) and connection.can_read(timeout=0))
    except _ERRORS:
        return True


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
            except _ERRORS:
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


__all__ = ["Link", "Mailbox", "NoAnswer", "Wakes"]
