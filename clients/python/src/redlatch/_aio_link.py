"""Requests and messages of the asynchronous client."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any, Awaitable, Callable, Optional

import redis
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from ._calls import Call
from ._scripts import script_text
from ._time import ServerClock, now
from ._wire import connection_kwargs, error_of

_ERRORS = (redis.RedisError, OSError, asyncio.TimeoutError)


async def within(work: Awaitable[Any], seconds: float, or_else: Any = ...) -> Any:
    """Awaits `work` for a limited time. Returns `or_else` after it, or raises `TimeoutError`.

    A cancelled call is always cancelled, which `asyncio.wait_for` does not promise before Python
    3.12. `work` has ended when this returns.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
        if task.done():
            return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
    if or_else is ...:
        raise asyncio.TimeoutError(f"no answer for {seconds} s")
    return or_else


async def wait_for_event(event: asyncio.Event, seconds: float) -> None:
    """Waits for an event, for a limited time."""
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


class Link:
    """Sends calls of scripts, each once, over connections of its own."""

    def __init__(self, client: redis.asyncio.Redis) -> None:
        self._pool = client.connection_pool
        self._idle: list[Any] = []
        self._scripts: dict[str, tuple[str, str]] = {}
        self._clock: Optional[ServerClock] = None

    @property
    def clock(self) -> ServerClock:
        """The server's clock, which `start` has read."""
        if self._clock is None:
            raise AssertionError("the clock was not read")
        return self._clock

    async def start(self) -> None:
        """Reads the server's clock. Raises `NoAnswer` or `Refused`."""
        if self._clock is None:
            seconds, micros = await self._exchange(1000.0, "TIME")
            self._clock = ServerClock(now(), int(seconds) * 1000 + int(micros) // 1000)

    def connection(self) -> Any:
        """Makes a connection like those of the user's client."""
        kwargs = connection_kwargs(self._pool, None)
        return self._pool.connection_class(retry=Retry(NoBackoff(), 0), **kwargs)

    async def run(self, call: Call, timeout: float) -> Any:
        """Sends a call and returns its reply. `timeout` is in ms.

        Raises `NoAnswer` if there is no clear answer, `Refused` if the server will never execute it.
        A cancelled call may have been executed.
        """
        if call.script not in self._scripts:
            text = script_text(call.script)
            self._scripts[call.script] = (text, hashlib.sha1(text.encode()).hexdigest())
        text, digest = self._scripts[call.script]
        arguments = (len(call.keys), *call.keys, *call.args)
        try:
            return await self._exchange(timeout, "EVALSHA", digest, *arguments)
        except redis.exceptions.NoScriptError:
            return await self._exchange(timeout, "EVAL", text, *arguments)

    async def _exchange(self, timeout: float, *command: object) -> Any:
        connection = self._idle.pop() if self._idle else self.connection()
        try:
            await within(connection.connect(), timeout / 1000)
        except _ERRORS as error:
            await connection.disconnect(nowait=True)
            raise error_of(error, connected=False) from error
        try:
            reply = await within(_ask(connection, command), timeout / 1000)
        except redis.exceptions.NoScriptError:
            self._idle.append(connection)
            raise
        except redis.ResponseError as error:
            self._idle.append(connection)
            raise error_of(error, connected=True) from error
        except _ERRORS as error:
            await connection.disconnect(nowait=True)
            raise error_of(error, connected=True) from error
        except BaseException:
            # The reply of this request must not be taken for that of the next one.
            await connection.disconnect(nowait=True)
            raise
        self._idle.append(connection)
        return reply

    async def close(self) -> None:
        """Closes the idle connections."""
        while self._idle:
            await self._idle.pop().disconnect(nowait=True)


async def _ask(connection: Any, command: tuple[object, ...]) -> Any:
    await connection.send_command(*command)
    return await connection.read_response()


class Mailbox:
    """What a waiter is told."""

    def __init__(self, key: str, attempt: int, subscribed: bool) -> None:
        self.key, self.attempt = key, attempt
        self.subscribed = subscribed
        self.called = False
        self.changed = False
        self.event = asyncio.Event()

    async def wait(self, until: float) -> None:
        """Waits for something to read, at most until then."""
        await wait_for_event(self.event, (until - now()) / 1000)
        self.event.clear()


class Wakes:
    """The subscription to the wake channel, in a task of its own."""

    def __init__(self, link: Link, channel: str, unknown: Callable[[str], None]) -> None:
        self._link, self._channel, self._unknown = link, channel, unknown
        self._boxes: set[Mailbox] = set()
        self._left = asyncio.Event()
        self.subscribed = False
        self._settled = asyncio.Event()
        self._heard = now()
        self._task = asyncio.ensure_future(self._run())

    async def settle(self, seconds: float) -> bool:
        """Waits for the first subscription. Returns whether messages reach the client."""
        if not self._settled.is_set():
            await within(self._settled.wait(), seconds, or_else=False)
        return self.subscribed

    def join(self, key: str, attempt: int) -> Mailbox:
        """Adds a waiter."""
        box = Mailbox(key, attempt, self.subscribed)
        self._boxes.add(box)
        return box

    def leave(self, box: Mailbox) -> None:
        """Removes a waiter."""
        self._boxes.discard(box)
        self._left.set()

    async def dismiss(self, seconds: float) -> None:
        """Lets all waiters look at whether the client was closed, and waits until they have left,
        for this time at most."""
        until = now() + seconds * 1000
        for box in self._boxes:
            box.event.set()
        while self._boxes and now() < until:
            self._left.clear()
            await wait_for_event(self._left, (until - now()) / 1000)

    def tell(self, key: str, attempt: Optional[int]) -> bool:
        """Calls the waiters of a key, or one of them. Returns whether there was one."""
        found = False
        for box in self._boxes:
            if box.key == key and attempt in (None, box.attempt):
                box.called = found = True
                box.event.set()
        return found

    def _receive(self, text: str) -> None:
        if self.tell(text, None):
            return
        key, _, number = text.rpartition(" ")
        if key and number.isdigit() and self.tell(key, int(number)):
            return
        self._unknown(text)

    def _set(self, subscribed: bool) -> None:
        self.subscribed = subscribed
        for box in self._boxes:
            box.subscribed, box.changed = subscribed, True
            box.event.set()
        if subscribed:
            self._settled.set()

    async def _run(self) -> None:
        while True:
            connection = self._link.connection()
            ping = asyncio.ensure_future(self._ping(connection))
            try:
                await self._listen(connection)
            except _ERRORS:
                pass
            finally:
                ping.cancel()
                self._set(False)
                await connection.disconnect(nowait=True)
            await asyncio.sleep(0.05)

    async def _listen(self, connection: Any) -> None:
        await within(connection.connect(), 1.0)
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
            except _ERRORS:
                break
        await connection.disconnect(nowait=True)

    async def close(self) -> None:
        """Ends the task."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
