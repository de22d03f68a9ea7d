"""One connection of the asynchronous client, over which all its requests are sent."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Optional

import redis

from . import _calls as calls
from ._aio_crew import Event, within
from ._time import ServerClock, now
from ._wire import ANSWERS, NoAnswer, code_of, error_of

ERRORS = (redis.RedisError, OSError, EOFError, asyncio.TimeoutError)

# A connection that is silent for this long ends with a request whose time is over, in ms.
_SILENCE = 100.0
# A timer this late shows that the loop stood still. The reply may be unread.
_STOOD_STILL = 100.0

_NO_CONNECTION = "the server cannot be reached: no connection in time"


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
        self.connected, self.dialed = False, Event()
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
                    raise NoAnswer(_NO_CONNECTION, may_have_run=False)
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
        except Exception as error:
            # Whatever the server has answered instead, it is told to the callers.
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
        millis = calls.millis(await self._connection.read_response())
        self._clock.observe(now(), millis)

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
        except ERRORS as error:
            self.end(error)

    async def _read(self) -> None:
        while self._sent or self.failure is None:
            try:
                outcome = await self._connection.read_response()
            except ANSWERS as error:
                outcome = error
            except ERRORS as error:
                return self.end(error)
            self._heard = now()
            if not self._sent:
                return self.end(redis.ConnectionError("a reply without a request"))
            self._sent.popleft().end(outcome)
            if isinstance(outcome, redis.ConnectionError):
                # redis-py closes the connection behind such an answer, and the next ones are lost.
                words = " ".join(code_of(outcome))
                return self.end(redis.ConnectionError(f"the connection has ended with {words}"))
