"""Requests of the asynchronous client."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Callable, Optional

import redis
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.backoff import NoBackoff

from ._aio_crew import Tasks, within
from ._aio_session import ERRORS, Session
from ._calls import Call
from ._scripts import text_and_digest
from ._time import ServerClock, now
from ._wire import NoAnswer, check_client, connection_kwargs, error_of
from .errors import RedlatchError

# The pause between two dials, in ms.
_REDIAL = 50.0


class Link:
    """Sends calls of scripts, each once, over one connection at a time."""

    def __init__(self, client: Any, own: dict[str, Any], tasks: Tasks) -> None:
        self._pool = check_client(client, redis.asyncio.Redis, SentinelConnectionPool)
        self._own, self._tasks = own, tasks
        self._loaded: set[str] = set()
        self._session: Optional[Session] = None
        self._listening: Any = None
        self._heard = now()
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
            await session.dialed.wait(60.0 if until is None else (until - now()) / 1000)

    async def run(self, call: Call, timeout: float) -> Any:
        """Sends a call and returns its reply. `timeout` is in ms.

        Raises `NoAnswer` if there is no clear answer, and `Refused` if the server will never
        execute it.
        A cancelled call may have been executed.
        """
        text, digest = text_and_digest(call.script)
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
        except ERRORS as error:
            meaning = error_of(error, sent=True)
            if isinstance(meaning, NoAnswer) and meaning.elsewhere:
                session.leave(error)
                if self._listening:
                    self._ending = asyncio.ensure_future(self._listening.disconnect(nowait=True))
            raise meaning from error

    def _current(self) -> Session:
        session = self._session
        if session is None or session.failure is not None:
            if session and not session.connected and now() < session.failed_at + _REDIAL:
                raise error_of(session.failure or OSError(), sent=False)
            connection, timeout = self.connection()
            session = self._session = Session(connection, self.clock)
            self._tasks.spawn("connection", lambda: session.run(timeout))
        return session

    async def listen(self, channel: str, read: Callable[[Any], None]) -> None:
        """Hands each message of a channel to `read`, until the connection fails.

        Raises then what `run` raises.
        """
        connection, timeout = self.connection()
        self._listening = connection
        ping = asyncio.ensure_future(self._ping(connection))
        try:
            await within(connection.connect(), timeout)
            await connection.send_command("SUBSCRIBE", channel)
            while True:
                push = await connection.read_response()
                self._heard = now()
                read(push)
        except ERRORS as error:
            raise error_of(error, sent=False) from error
        finally:
            ping.cancel()
            await connection.disconnect(nowait=True)

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
