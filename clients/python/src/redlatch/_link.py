"""Requests and messages of the synchronous client."""

from __future__ import annotations

import hashlib
import threading
import time
from typing import Any, Callable
from weakref import WeakSet

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from ._calls import Call
from ._scripts import script_text
from ._time import ServerClock, now
from ._wire import NoAnswer, connection_kwargs, error_of

_ERRORS = (redis.RedisError, OSError)


class Link:
    """Sends calls of scripts, each once, over connections of its own."""

    def __init__(self, client: redis.Redis) -> None:
        self._pool = client.connection_pool
        self._pools: dict[float, Any] = {}
        self._lock = threading.Lock()
        self._scripts: dict[str, tuple[str, str]] = {}
        self.clock = ServerClock(now(), self.time())

    def connection(self, timeout: float | None) -> Any:
        """Makes a connection like those of the user's client, with a time-out in s."""
        kwargs = connection_kwargs(self._pool, timeout)
        return self._pool.connection_class(retry=Retry(NoBackoff(), 0), **kwargs)

    def time(self) -> float:
        """Returns the server's time in ms."""
        seconds, micros = self._exchange(1000.0, "TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    def run(self, call: Call, timeout: float) -> Any:
        """Sends a call and returns its reply. `timeout` is in ms.

        Raises `NoAnswer` if there is no clear answer, `Refused` if the server will never execute it.
        """
        text, digest = self._script(call.script)
        arguments = (len(call.keys), *call.keys, *call.args)
        try:
            return self._exchange(timeout, "EVALSHA", digest, *arguments)
        except redis.exceptions.NoScriptError:
            return self._exchange(timeout, "EVAL", text, *arguments)

    def _script(self, name: str) -> tuple[str, str]:
        if name not in self._scripts:
            text = script_text(name)
            self._scripts[name] = (text, hashlib.sha1(text.encode()).hexdigest())
        return self._scripts[name]

    def _idle(self, timeout: float) -> list[Any]:
        with self._lock:
            found: list[Any] = self._pools.setdefault(timeout, [])
            return found

    def _exchange(self, timeout: float, *command: object) -> Any:
        idle = self._idle(timeout)
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
            raise error_of(error, connected=False) from error
        try:
            connection.send_command(*command)
            reply = connection.read_response()
        except redis.exceptions.NoScriptError:
            idle.append(connection)
            raise
        except redis.ResponseError as error:
            idle.append(connection)
            raise error_of(error, connected=True) from error
        except _ERRORS as error:
            connection.disconnect()
            raise error_of(error, connected=True) from error
        except BaseException:
            # The reply of this request must not be taken for that of the next one.
            connection.disconnect()
            raise
        idle.append(connection)
        return reply

    def close(self) -> None:
        """Closes the idle connections."""
        with self._lock:
            pools, self._pools = self._pools, {}
        for idle in pools.values():
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
        self.key, self.attempt = key, attempt
        self.subscribed = subscribed
        self.called = False
        self.changed = False
        self.event = threading.Event()


class Wakes:
    """The subscription to the wake channel, in a thread of its own."""

    def __init__(self, link: Link, channel: str, unknown: Callable[[str], None]) -> None:
        self._link, self._channel, self._unknown = link, channel, unknown
        # A box goes with its waiter, even if an exception hit the waiter before it left.
        self._boxes: "WeakSet[Mailbox]" = WeakSet()
        self._lock = threading.Lock()
        self._left = threading.Condition(self._lock)
        self._ended = False
        self.subscribed = False
        self._settled = threading.Event()
        self._thread = threading.Thread(target=self._run, name="redlatch wakes", daemon=True)
        self._thread.start()

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

    def tell(self, key: str, attempt: int | None) -> bool:
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
        if key and number.isdigit() and self.tell(key, int(number)):
            return
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

    def _run(self) -> None:
        while not self._ended:
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
        while not self._ended:
            if not connection.can_read(timeout=1.0 if asked else 5.0):
                if asked:
                    raise redis.ConnectionError("no answer to PING")
                connection.send_command("PING", check_health=False)
                asked = True
                continue
            asked = False
            push = connection.read_response()
            if push[0] == "subscribe":
                self._set(True)
            elif push[0] == "message":
                self._receive(push[2])

    def close(self) -> None:
        """Ends the thread within 5 s. Does not wait for it."""
        self._ended = True


__all__ = ["Link", "Mailbox", "NoAnswer", "Wakes"]
