"""Reads an address as the library for Rust does, for one server."""

from __future__ import annotations

import logging
import re
from typing import Any, NoReturn
from urllib.parse import parse_qsl, unquote

from ._options import ClientOptions
from .errors import InvalidOption

_log = logging.getLogger("redlatch")

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_TEXTS = ("prefix", "application", "client_name")
_SPANS = ("lease", "patience", "connect_timeout", "token_retention", "server_clock_allowance")
_LOGIN = {"db": "db", "user": "username", "pass": "password"}
# The options of redis-py for TLS, which has no other form in an address.
_TLS = ("ca_certs", "ca_path", "certfile", "keyfile", "password", "cert_reqs", "check_hostname")
_SEVERAL = re.compile("node|service|sentinel_?(service_?name|username|password)", re.IGNORECASE)
_FORM = "an address is like redis://user:password@host:6379/0"


def _wrong(why: str) -> NoReturn:
    # No error shows the address: its password may be anywhere in it.
    raise InvalidOption(why) from None


def read(url: str) -> tuple[dict[str, Any], ClientOptions]:
    """Returns the parameters of a `redis.Redis`, and the options of the client in the address.

    Warns of parameters without effect. Raises `InvalidOption`.
    """
    scheme, server, rest = _split(url)
    tail, _, service = rest.partition("#")
    path, _, query = tail.partition("?")
    if service:
        _wrong(f"the address has a service of sentinels, which {scheme}:// does not take")
    kwargs: dict[str, Any] = {"db": 0, "socket_connect_timeout": 3.0, **server}
    if scheme in ("unix", "redis+unix", "valkey+unix"):
        kwargs["unix_socket_path"] = _decoded(path)
    elif path.strip("/"):
        kwargs["db"] = _decoded(path.strip("/"))
    if scheme in ("rediss", "valkeys"):
        kwargs.update(ssl=True, ssl_check_hostname=True)
    options = _parameters(scheme, query, kwargs)
    if kwargs.get("ssl_cert_reqs", "none") not in ("none", "optional", "required"):
        _wrong("ssl_cert_reqs in the address is none of none, optional and required")
    if kwargs.get("ssl_cert_reqs") == "none":
        kwargs["ssl_check_hostname"] = False
    if not re.fullmatch("[0-9]{1,9}", str(kwargs["db"] or 0)):
        _wrong(f"{kwargs['db']!r} is not a database number")
    kwargs["db"] = int(kwargs["db"] or 0)
    return kwargs, options


def _split(url: object) -> tuple[str, dict[str, Any], str]:
    """Returns the scheme, host and login, and what is behind them."""
    if not isinstance(url, str) or "://" not in url:
        _wrong(f"the address has no scheme; {_FORM}")
    scheme, _, rest = url.strip().partition("://")
    scheme = scheme.lower()
    base, _, kind = scheme.replace("-", "+").partition("+")
    if base in ("redis", "rediss", "valkey", "valkeys") and kind in (
        "cluster",
        "sentinel",
        "replicas",
    ):
        _wrong(
            f"the Python client does not know {scheme}://; give it the address of one server, or "
            "of a service that leads to the master"
        )
    unix = scheme in ("unix", "redis+unix", "valkey+unix")
    if not unix and scheme not in ("redis", "rediss", "valkey", "valkeys"):
        _wrong(
            f"the scheme {scheme[:20]}:// is unknown; use redis, rediss, valkey, valkeys or unix"
        )
    end = next((at for at, sign in enumerate(rest) if sign in "/?#"), len(rest))
    authority, tail = rest[:end], rest[end:]
    if "@" not in authority and tail[:1] in ("/", "#") and "@" in tail:
        _wrong(
            "the address has a / or ? or # before its @; in user and password they are written as "
            "%2F, %3F and %23"
        )
    login, _, host = authority.rpartition("@")
    user, _, password = login.partition(":")
    server = {"username": _decoded(user) or None, "password": _decoded(password) or None}
    if not unix:
        server.update(_host(host))
    return scheme, server, tail


def _host(text: str) -> dict[str, Any]:
    if "," in text:
        _wrong("the address names several servers; the Python client knows one")
    found = re.fullmatch(r"(\[[^\]]*\]|[^:\[\]]*)(?::([0-9]*))?", text)
    if not found:
        _wrong(f"host and port of the address are not of the form host:port; {_FORM}")
    port = int(found[2] or 6379) if len(found[2] or "") < 20 else 0
    if not 1 <= port <= 65535:
        _wrong(f"the port {port or found[2][:20]} of the address is out of range: 1 to 65535")
    return {"host": _decoded(found[1].strip("[]")) or "localhost", "port": port}


def _parameters(scheme: str, query: str, kwargs: dict[str, Any]) -> ClientOptions:
    options: Any = {}
    idle = []
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in _LOGIN:
            kwargs[_LOGIN[name]] = value
        elif name in _TEXTS:
            options[name] = value
        elif name in _SPANS:
            options[name] = _span(value)
        elif "ssl" in kwargs and name.startswith("ssl_") and name[4:] in _TLS:
            is_flag = name == "ssl_check_hostname"
            kwargs[name] = value.lower() in ("true", "yes", "1") if is_flag else value
        elif _SEVERAL.fullmatch(name):
            _wrong(f"the address has a parameter that {scheme}:// does not take: {name}")
        else:
            idle.append(name)
    if idle:
        # A name with other signs may be a part of a password.
        usual = re.compile("[A-Za-z0-9_.-]{1,32}")
        shown = [name if usual.fullmatch(name) else "(not shown)" for name in idle]
        _log.warning(
            "the address has parameters that the Python client does not know; they have no "
            "effect: %s",
            ", ".join(shown),
        )
    found: ClientOptions = options
    return found


def _span(text: str) -> float:
    found = re.fullmatch("([0-9]{1,18})(ms|s|m|h|d)", text)
    if not found:
        _wrong(f"{text[:32]!r} in the address is not a span of time; write 500ms, 30s, 5m, 2h or 7d")
    return int(found[1]) * _UNITS[found[2]]


def _decoded(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        _wrong("a part of the address with % is not UTF-8")
