"""What both clients have in common about connections: their parameters, and the meaning of errors.

redis-py repeats commands by itself. A repeated request would carry an old `act_before`, and nobody
would count it as a copy. So the connections of this package never repeat anything.
"""

from __future__ import annotations

from typing import Any, NoReturn, Optional, Type

from redis import exceptions

from .errors import InvalidOption, RedlatchError, Refused, Unavailable, WrongKind

# What a connection takes over from the user's client.
_TAKEN = (
    "host",
    "port",
    "path",
    "db",
    "username",
    "password",
    "credential_provider",
    "client_name",
    "socket_connect_timeout",
    "socket_keepalive",
    "socket_keepalive_options",
)


def check_client(client: Any, expected: Type[Any], sentinels: Type[Any]) -> Any:
    """Returns the pool of a client of redis-py, whose parameters all connections take over.

    Raises `InvalidOption` for anything but a client of one server.
    """
    own = f"{expected.__module__.rpartition('.')[0]}.{expected.__name__}"
    if not isinstance(client, expected):
        found = f"{type(client).__module__}.{type(client).__qualname__}"
        raise InvalidOption(
            f"a {found} is not a client of one server; give a {own}, or use Client.from_url. Make "
            f"the {own} of a pool by {own}(connection_pool=pool)"
        )
    if isinstance(client.connection_pool, sentinels):
        raise InvalidOption(
            "the Python client does not ask sentinels; give the address of the master, or of a "
            "service that leads to it"
        )
    return client.connection_pool


def connection_kwargs(
    pool: Any, timeout: Optional[float], own: dict[str, Any]
) -> dict[str, Any]:
    """Returns the parameters of a connection like those of `pool`, with a time-out in s.

    `own` has what the options of the client say.
    """
    given: dict[str, Any] = pool.connection_kwargs
    kwargs = {name: given[name] for name in given if name in _TAKEN or name.startswith("ssl")}
    kwargs.update(own, socket_timeout=timeout, decode_responses=True, protocol=2)
    kwargs["socket_connect_timeout"] = kwargs.get("socket_connect_timeout") or 3.0
    # Keys and messages of other programs may be no UTF-8.
    kwargs["encoding_errors"] = "surrogateescape"
    return kwargs


class NoAnswer(Exception):
    """A request has no clear answer.

    `may_have_run` tells whether it may have been executed. `words` are those of the server, if it
    has answered. `elsewhere` tells that the connection leads to a server that is not, or not any
    longer, the right one.
    """

    def __init__(
        self,
        message: str,
        *,
        may_have_run: bool,
        words: Optional[str] = None,
        elsewhere: bool = False,
    ) -> None:
        super().__init__(message)
        self.may_have_run, self.words, self.elsewhere = may_have_run, words, elsewhere

    def give_up(self, *, may_have_run: bool) -> NoReturn:
        """Raises the error of a caller whose time is over."""
        raise Unavailable(str(self), may_have_run=may_have_run) from self


# redis-py takes the code off the text of these. A class stands before the one that it is a part of.
_CODES: tuple[tuple[str, str], ...] = (
    ("NoScriptError", "NOSCRIPT"),
    ("ReadOnlyError", "READONLY"),
    ("BusyLoadingError", "LOADING"),
    ("MovedError", "MOVED"),
    ("AskError", "ASK"),
    ("TryAgainError", "TRYAGAIN"),
    ("MasterDownError", "MASTERDOWN"),
    ("ClusterDownError", "CLUSTERDOWN"),
    ("ClusterCrossSlotError", "CROSSSLOT"),
    ("OutOfMemoryError", "OOM"),
    ("NoPermissionError", "NOPERM"),
    ("AuthenticationError", "NOAUTH"),
)

# Answers which redis-py takes for errors of the connection are among them.
ANSWERS = (
    exceptions.ResponseError,
    exceptions.AuthenticationError,
    exceptions.BusyLoadingError,
)

# What a code says. The rules are those of "Errors" in docs/contributing/protocol.md.
_REDIRECTED = ("MOVED", "ASK")
_ELSEWHERE = ("READONLY", "CLUSTERDOWN", "MASTERDOWN", "LOADING", "NOREPLICAS")
_LATER = ("TRYAGAIN", "BUSY", "MISCONF")
_DENIED = ("NOPERM",)
_NEVER = ("NOAUTH", "WRONGPASS", "OOM", "CROSSSLOT", "CLOCK")

_DENIALS = (
    "unknown command",
    "Unknown Redis command called from",
    # Valkey.
    "Unknown command called from",
    "The user executing the script can't",
    "ACL failure in script",
    # Refused to every user: some managed services, and Valkey without its module lua.
    "This Redis command is not allowed from script",
    "This Valkey command is not allowed from script",
    "Could not find scripting engine",
)
_KNOWN = ("WRONGTYPE", "ERR", *_REDIRECTED, *_ELSEWHERE, *_LATER, *_DENIED, *_NEVER)


def code_of(error: Exception) -> tuple[str, str]:
    """Returns the code of an error reply, and the rest of its line."""
    text = str(error)
    for name, code in _CODES:
        if isinstance(error, getattr(exceptions, name)) and not text.startswith(f"{code} "):
            return code, text
    code, _, rest = text.partition(" ")
    return (code, rest) if code in _KNOWN else ("ERR", text)


def _meaning(code: str, message: str) -> str:
    """Returns the code that says what to do: one of the lists above, `WRONGTYPE`, or `ERR`."""
    if code != "ERR":
        return code
    if message.startswith(_DENIALS):
        return "NOPERM"
    if message.startswith("max number of clients"):
        return "BUSY"
    if message.startswith("Error compiling script"):
        return "CLOCK"
    # Redis 6.2 wraps the error of a command inside of a script.
    inner = message.rpartition("@user_script:")[2].partition(": ")[2]
    if "@user_script:" not in message or not inner:
        return "ERR"
    if "can't run this command" in inner or "can't access" in inner:
        return "NOPERM"
    inner = inner.lstrip("-")
    code, _, rest = inner.partition(" ")
    return _meaning(code, rest) if code in _KNOWN else _meaning("ERR", inner)


def error_of(error: Exception, *, sent: bool) -> NoAnswer | RedlatchError:
    """Returns what an exception of redis-py means. `sent` is false while dialing."""
    if isinstance(error, RedlatchError):
        return error
    text = str(error) or type(error).__name__
    if not isinstance(error, ANSWERS) and "max number of clients" not in text:
        if sent:
            return NoAnswer(f"the server did not answer in time: {text}", may_have_run=True)
        return NoAnswer(f"the server cannot be reached: {text}", may_have_run=False)
    code, message = code_of(error)
    meaning = _meaning(code, message)
    words = message if code == "ERR" else f"{code} {message}"
    of_script = any(mark in message for mark in ("@user_script", " script: ", " called from "))
    if meaning == "WRONGTYPE":
        return WrongKind(f"a value of another program has the key of the name: {words}")
    if meaning in _DENIED:
        return Refused(words, may_have_run=of_script)
    if meaning in _NEVER or (not sent and message.startswith("DB index")):
        return Refused(words, may_have_run=False)
    if meaning in _REDIRECTED:
        return NoAnswer(
            "this server belongs to a cluster, which the Python client does not know; give it the "
            f"address of one server: {words}",
            may_have_run=False,
            words=words,
            elsewhere=True,
        )
    if meaning in _ELSEWHERE or meaning in _LATER:
        return NoAnswer(
            f"the server cannot serve the request for the moment: {words}",
            may_have_run=False,
            words=words,
            elsewhere=meaning in _ELSEWHERE,
        )
    text = f"the server answers, but not to this: {words}"
    return NoAnswer(text, may_have_run=sent, words=words)
