"""Requests and messages of the asynchronous client.

All requests share one connection, over which they are sent without waiting for each other.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections import deque
from typing import Any, Awaitable, Callable, Coroutine, Optional

import redis
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.backoff import NoBackoff

from ._calls import Call
from ._scripts import script_text
from ._time import ServerClock, now
from ._wire import NoAnswer, check_client, connection_kwargs, error_of
from .errors import RedlatchError

_ERRORS = (redis.RedisError, OSError, EOFError, asyncio.TimeoutError)

# A connection that is silent for this long ends with a request whose time is over, in ms.
_SILENCE = 100.0
# A timer this late shows that the loop stood still. The reply may be unread.
_STOOD_STILL = 100.0
# The pause between two dials, in ms.
_REDIAL = 50.0

# Begins a task of the client. The client ends if the task is cancelled from outside.
Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


async def within(work: Awaitable[Any], seconds: float, or_else: Any = ...) -> Any:
    """Awaits `work` for a limited time. Returns `or_else` after it, or raises `TimeoutError`.

    A cancelled call is always cancelled, which `asyncio.wait_for` does not promise before Python
    3.12. `work` has ended when this returns.
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
    if or_else is ...:
        raise asyncio.TimeoutError(f"nothing for {seconds} s")
    return or_else


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


class _Request:
    """One command, and the place of its reply."""

    def __init__(self, command: tuple[object, ...]) -> None:
        self.command = command
        self.sent: Optional[float] = None
        self.reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def end(self, outcome: Any) -> None:
        """Takes the reply, or an exception, unless the caller has left."""
        if self.reply.done():
            return
        if not isinstance(outcome, Exception):
            return self.reply.set_result(outcome)
        self.reply.set_exception(outcome if self.sent else error_of(outcome, sent=False))
        # The caller may be about to raise another one.
        self.reply.exception()


class Session:
    """One connection from its dialing to its end."""

    def __init__(self, connection: Any, clock: ServerClock) -> None:
        self._connection, self._clock = connection, clock
        self._waiting: deque[_Request] = deque()
        self._sent: deque[_Request] = deque()
        self._more = asyncio.Event()
        self._heard = now()
        self.connected, self.dialed = False, asyncio.Event()
        # Why nothing is sent any more, and whether the replies on their way still count.
        self.failure: Optional[Exception] = None
        self.failed_at = 0.0

    async def ask(self, command: tuple[object, ...], timeout: float) -> Any:
        """Sends a command, and returns its reply or raises the exception of redis-py.

        Raises `NoAnswer` if the command was not sent within `timeout` ms, and `TimeoutError` if the
        server has answered nothing at all for this time since then.
        """
        request = _Request(command)
        self._waiting.append(request)
        self._more.set()
        due, late = now() + timeout, False
        try:
            while not request.reply.done():
                await asyncio.wait({request.reply}, timeout=max(due - now(), 0) / 1000)
                at = now()
                if at < due or request.reply.done():
                    continue
                if request.sent and self._heard + timeout > at:
                    # The server is at work on the requests before this one.
                    due = self._heard + timeout
                elif at - due > _STOOD_STILL and not late:
                    due, late = at + timeout, True
                elif request.sent:
                    raise self._silence(at, timeout)
                else:
                    raise NoAnswer("no connection to the server in time", may_have_run=False)
            return request.reply.result()
        finally:
            request.reply.cancel()

    def _silence(self, at: float, timeout: float) -> Exception:
        error = redis.TimeoutError(f"nothing for {timeout / 1000:.3g} s")
        oldest = self._sent[0].sent if self._sent else None
        if at - max(self._heard, oldest or at) >= _SILENCE:
            self.end(error)
        return error

    def end(self, failure: Exception) -> None:
        """Ends the connection. Requests that are on their way have no answer."""
        self.leave(failure)
        for request in self._sent:
            request.end(failure)
        self._sent.clear()
        self._more.set()

    def leave(self, failure: Exception) -> None:
        """Sends nothing more. The connection ends with the reply to the last request."""
        if self.failure is None:
            self.failure, self.failed_at = failure, now()
        for request in self._waiting:
            request.end(failure)
        self._waiting.clear()
        self._more.set()
        self.dialed.set()

    async def run(self, connect_timeout: float) -> None:
        """Dials, and serves the requests until the connection ends."""
        tasks: list[asyncio.Task[None]] = []
        try:
            await within(self._dial(), connect_timeout)
            self.connected, self._heard = True, now()
            self.dialed.set()
            tasks = [asyncio.ensure_future(work) for work in (self._write(), self._read())]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        except _ERRORS as error:
            self.end(error)
        finally:
            self.end(redis.ConnectionError("the connection has ended"))
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._connection.disconnect(nowait=True)

    async def _dial(self) -> None:
        await self._connection.connect()
        await self._connection.send_command("TIME")
        seconds, micros = await self._connection.read_response()
        self._clock.observe(now(), int(seconds) * 1000 + int(micros) // 1000)

    async def _write(self) -> None:
        try:
            while self._sent or self.failure is None:
                await self._more.wait()
                self._more.clear()
                batch = [request for request in self._waiting if not request.reply.done()]
                self._waiting.clear()
                for request in batch:
                    request.sent = now()
                self._sent.extend(batch)
                if batch:
                    packed = self._connection.pack_commands([each.command for each in batch])
                    await self._connection.send_packed_command(packed, check_health=False)
        except _ERRORS as error:
            self.end(error)

    async def _read(self) -> None:
        while self._sent or self.failure is None:
            try:
                outcome = await self._connection.read_response()
            except redis.ResponseError as error:
                outcome = error
            except _ERRORS as error:
                return self.end(error)
            self._heard = now()
            if not self._sent:
                return self.end(redis.ConnectionError("a reply without a request"))
            self._sent.popleft().end(outcome)


class Link:
    """Sends calls of scripts, each once, over one connection at a time."""

    def __init__(self, client: Any, own: dict[str, Any], spawn: Spawn) -> None:
        self._pool = check_client(client, redis.asyncio.Redis, SentinelConnectionPool)
        self._own, self._spawn = own, spawn
        self._scripts: dict[str, tuple[str, str]] = {}
        self._loaded: set[str] = set()
        self._session: Optional[Session] = None
        # Called when the server turns out to be the wrong one.
        self.on_elsewhere: Callable[[], None] = lambda: None
        self.clock = ServerClock(now(), 0)

    def connection(self) -> tuple[Any, float]:
        """Makes a connection like those of the user's client. Returns its time to connect, in s."""
        kwargs = connection_kwargs(self._pool, None, self._own)
        connection = self._pool.connection_class(retry=Retry(NoBackoff(), 0), **kwargs)
        return connection, kwargs["socket_connect_timeout"]

    async def ready(self, until: Optional[float]) -> None:
        """Waits for the first connection or its failure, until then at most.

        It tells the server's time. A request that is dated before gets the answer `late`.
        """
        with contextlib.suppress(NoAnswer, RedlatchError):
            session = self._current()
            if not session.dialed.is_set():
                left = 60.0 if until is None else (until - now()) / 1000
                await within(session.dialed.wait(), left, or_else=None)

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
        for _ in range(2):
            try:
                return await self.ask(timeout, "EVALSHA", digest, *arguments)
            except redis.exceptions.NoScriptError:
                # Another call has sent the text, and the next request comes after it.
                if digest not in self._loaded:
                    break
        self._loaded.add(digest)
        return await self.ask(timeout, "EVAL", text, *arguments)

    async def ask(self, timeout: float, *command: object) -> Any:
        """Sends a command and returns its reply. `timeout` is in ms. See `run` for the errors."""
        session = self._current()
        try:
            return await session.ask(command, timeout)
        except redis.exceptions.NoScriptError:
            raise
        except _ERRORS as error:
            meaning = error_of(error, sent=True)
            if isinstance(meaning, NoAnswer) and meaning.elsewhere:
                session.leave(error)
                self.on_elsewhere()
            raise meaning from error

    def _current(self) -> Session:
        session = self._session
        if session is None or session.failure is not None:
            if session and not session.connected and now() < session.failed_at + _REDIAL:
                raise error_of(session.failure or OSError(), sent=False)
            connection, timeout = self.connection()
            session = self._session = Session(connection, self.clock)
            self._spawn(session.run(timeout))
        return session


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
            asyncio.ensure_future(self._connection.disconnect(nowait=True))

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
            except _ERRORS:
                pass
            finally:
                ping.cancel()
                self._set(False)
                await self._connection.disconnect(nowait=True)
            await asyncio.sleep(_REDIAL / 1000)

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
            except _ERRORS:
                break
        await connection.disconnect(nowait=True)
