"""Requests of the asynchronous client."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from typing import Any, Callable, Coroutine, Optional

import redis
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.backoff import NoBackoff

from ._aio_session import ERRORS, Session, within
from ._calls import Call
from ._scripts import script_text
from ._time import ServerClock, now
from ._wire import NoAnswer, check_client, connection_kwargs, error_of
from .errors import RedlatchError

# The pause between two dials, in ms.
REDIAL = 50.0

# Begins a task of the client. The client ends if the task is cancelled from outside.
Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


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

        Raises `NoAnswer` if there is no clear answer, and `Refused` if the server will never
        execute it.
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
        except ERRORS as error:
            meaning = error_of(error, sent=True)
            if isinstance(meaning, NoAnswer) and meaning.elsewhere:
                session.leave(error)
                self.on_elsewhere()
            raise meaning from error

    def _current(self) -> Session:
        session = self._session
        if session is None or session.failure is not None:
            if session and not session.connected and now() < session.failed_at + REDIAL:
                raise error_of(session.failure or OSError(), sent=False)
            connection, timeout = self.connection()
            session = self._session = Session(connection, self.clock)
            self._spawn(session.run(timeout))
        return session
