"""Requests of the synchronous client."""

from __future__ import annotations

from collections import deque
from typing import Any, Callable, Optional

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import SentinelConnectionPool

from . import _calls as calls
from ._calls import Call
from ._scripts import text_and_digest
from ._time import ServerClock, now
from ._wire import NoAnswer, check_client, connection_kwargs, error_of

ERRORS = (redis.RedisError, OSError)

# How many idle connections are kept for each time-out. Each thread that waits for a reply has one.
_IDLE = 10
# A connection has one time-out, so that there are few of them. In ms.
_TIMEOUTS = (10, 15, 20, 30, 50, 75, 100, 150, 200, 250, 350, 500, 750, 1000)


class Link:
    """Sends calls of scripts, each once, over connections of its own."""

    def __init__(self, client: Any, own: dict[str, Any]) -> None:
        self._pool = check_client(client, redis.Redis, SentinelConnectionPool)
        self._own = own
        self._pools: dict[float, deque[Any]] = {}
        self.closed = False
        # Whether the listening connection leads to a server that is the wrong one.
        self._moved = False
        try:
            millis = calls.millis(self.ask(1000.0, "TIME"))
        except NoAnswer as error:
            error.give_up(may_have_run=False)
        self.clock = ServerClock(now(), millis)

    def connection(self, timeout: Optional[float]) -> Any:
        """Makes a connection like those of the user's client, with a time-out in s."""
        kwargs = connection_kwargs(self._pool, timeout, self._own)
        return self._pool.connection_class(retry=Retry(NoBackoff(), 0), **kwargs)

    def run(self, call: Call, timeout: float) -> Any:
        """Sends a call and returns its reply. `timeout` is in ms.

        Raises `NoAnswer` if there is no clear answer, and `Refused` if the server will never
        execute it.
        """
        text, digest = text_and_digest(call.script)
        arguments = (len(call.keys), *call.keys, *call.args)
        try:
            return self.ask(timeout, "EVALSHA", digest, *arguments)
        except redis.exceptions.NoScriptError:
            return self.ask(timeout, "EVAL", text, *arguments)

    def ask(self, timeout: float, *command: object) -> Any:
        """Sends a command and returns its reply. See `run` for the errors.

        `timeout` is in ms. It is rounded down to one of the time-outs of connections.
        """
        timeout = max((step for step in _TIMEOUTS if step <= timeout), default=_TIMEOUTS[0])
        idle = self._pools.setdefault(timeout, deque())
        try:
            connection = idle.pop()
        except IndexError:
            connection = self.connection(timeout / 1000)
        try:
            if _is_stale(connection):
                connection.disconnect()
            connection.connect()
        except ERRORS as error:
            connection.disconnect()
            raise error_of(error, sent=False) from error
        try:
            connection.send_command(*command)
            reply = connection.read_response()
        except redis.exceptions.NoScriptError:
            self._keep(timeout, idle, connection)
            raise
        except ERRORS as error:
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
            self._drop()
            self._moved = True
        return meaning

    def close(self) -> None:
        """Closes the idle connections. Those in use end with their requests, or within 1 s."""
        self.closed = True
        self._drop()

    def _drop(self) -> None:
        pools, self._pools = self._pools, {}
        for idle in list(pools.values()):
            while idle:
                idle.pop().disconnect()

    def listen(self, channel: str, read: Callable[[Any], None]) -> None:
        """Hands each message of a channel to `read`, until `close`.

        Raises what `run` raises if the connection fails.
        """
        self._moved = False
        connection = self.connection(1.0)
        try:
            connection.connect()
            connection.send_command("SUBSCRIBE", channel, check_health=False)
            self._read_pushes(connection, read)
        except ERRORS as error:
            raise error_of(error, sent=False) from error
        finally:
            connection.disconnect()

    def _read_pushes(self, connection: Any, read: Callable[[Any], None]) -> None:
        asked, ask_at = False, now() + 5000
        while not self.closed and not self._moved:
            if connection.can_read(timeout=1.0):
                asked, ask_at = False, now() + 5000
                read(connection.read_response())
            elif asked:
                raise redis.ConnectionError("no answer to PING")
            elif now() >= ask_at:
                connection.send_command("PING", check_health=False)
                asked = True


def _is_stale(connection: Any) -> bool:
    """Tells whether an idle connection has ended: then it has something to read."""
    try:
        return bool(getattr(connection, "_sock", None) and connection.can_read(timeout=0))
    except ERRORS:
        return True
