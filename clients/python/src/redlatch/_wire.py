"""What both clients have in common about connections: their parameters, and the class of an error.

redis-py repeats commands by itself. A repeated request would carry an old `act_before`, and nobody
would count it as a copy. So the connections of this package never repeat anything.
"""

from __future__ import annotations

from typing import Any

from redis import exceptions

from .errors import RedlatchError, Refused, WrongKind

# What a connection takes over from the user's client.
_TAKEN = (
    "host",
    "port",
    "path",
    "db",
    "username",
    "password",
    "credential_provider",
    "socket_connect_timeout",
    "socket_keepalive",
    "socket_keepalive_options",
)


def connection_kwargs(pool: Any, timeout: float | None) -> dict[str, Any]:
    """Returns the parameters of a connection like those of `pool`, with a time-out in s."""
    given: dict[str, Any] = pool.connection_kwargs
    kwargs = {name: given[name] for name in given if name in _TAKEN or name.startswith("ssl")}
    kwargs.setdefault("socket_connect_timeout", 1.0)
    kwargs.update(socket_timeout=timeout, decode_responses=True, protocol=2)
    return kwargs


class NoAnswer(Exception):
    """A request has no clear answer. `may_have_run` tells whether it may have been executed."""

    def __init__(self, cause: object, *, may_have_run: bool) -> None:
        super().__init__(str(cause))
        self.may_have_run = may_have_run


_LATER = (
    exceptions.BusyLoadingError,
    exceptions.ReadOnlyError,
    exceptions.TryAgainError,
    exceptions.ClusterDownError,
    exceptions.MasterDownError,
)
_LATER_CODES = ("BUSY", "MISCONF", "NOREPLICAS", "LOADING", "READONLY", "MASTERDOWN", "TRYAGAIN")
_NEVER = (
    exceptions.NoPermissionError,
    exceptions.AuthenticationError,
    exceptions.AuthorizationError,
    exceptions.OutOfMemoryError,
)
_NEVER_CODES = ("NOPERM", "NOAUTH", "WRONGPASS", "OOM", "CROSSSLOT", "CLOCK")


def code_of(message: str) -> str:
    """Returns the code of an error reply. Redis 6.2 wraps an error inside of a script."""
    _, found, inner = message.rpartition("@user_script:")
    if found:
        inner = inner.partition(": ")[2].lstrip("-")
        message = inner or message
    return message.partition(" ")[0]


def error_of(error: Exception, *, connected: bool) -> NoAnswer | RedlatchError:
    """Returns what an exception of redis-py means. `connected` is false while dialing."""
    text = str(error)
    halted = "script" in text
    if isinstance(error, _NEVER):
        return Refused(text, may_have_run=halted)
    if isinstance(error, _LATER):
        return NoAnswer(text, may_have_run=False)
    if isinstance(error, exceptions.ResponseError):
        code = code_of(text)
        if code == "WRONGTYPE":
            return WrongKind(f"a value of another program has the key of the name: {text}")
        if code in _NEVER_CODES or text.startswith("unknown command"):
            return Refused(text, may_have_run=halted and code != "OOM")
        if code in _LATER_CODES or "max number of clients" in text:
            return NoAnswer(text, may_have_run=False)
        return NoAnswer(text, may_have_run=True)
    return NoAnswer(text, may_have_run=connected)
