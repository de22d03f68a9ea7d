"""The errors of this package. All derive from `RedlatchError`."""

from __future__ import annotations

from typing import Optional


class RedlatchError(Exception):
    """The base of all errors of this package.

    `name` is that of the lock or the rate limiter, or `None` if the error is about none.
    """

    def __init__(self, message: str = "", *, name: Optional[str] = None) -> None:
        super().__init__(message)
        self.name = name

    def about(self, kind: str, name: str) -> None:
        """Names the object in the error, unless the error names one already."""
        if self.name is None:
            self.name = name
            self.args = (f"{kind} {name!r}: {self}",)


class InvalidName(RedlatchError, ValueError):
    """A name or a prefix is not allowed. The message says what is."""


class InvalidLease(RedlatchError, ValueError):
    """A lease is not allowed. The message says what is."""


class InvalidOption(RedlatchError, ValueError):
    """An option, an address or the client of redis-py is not allowed. The message says what is."""


class OutOfRange(RedlatchError, ValueError):
    """A cost is above the burst, so that it never passes, or 365 days of a rate are taken ahead."""


class WrongKind(RedlatchError):
    """The name belongs to an object of another kind, or its key to another program."""


class _Unclear(RedlatchError):
    """An error after which a request may have been executed, as `may_have_run` tells."""

    def __init__(
        self, message: str = "", *, name: Optional[str] = None, may_have_run: bool = False
    ) -> None:
        super().__init__(message, name=name)
        self.may_have_run = may_have_run


class Unavailable(_Unclear):
    """The server cannot be reached, did not answer in time, or answered that it cannot serve.

    The message has the words of the server. `may_have_run` tells whether the server may have
    executed a request. Whatever it took of a lock is given back in the background. The tokens of
    a rate limiter may be taken.
    """


class Refused(_Unclear):
    """The server has refused the request, and will refuse it again: a missing right, no memory.

    `may_have_run` tells whether a script was stopped in the middle.
    """


class ProtocolError(RedlatchError):
    """The server has answered what the scripts never answer."""


class LockLost(RedlatchError):
    """The hold is over. `cause` is one of the words of `Hold.lost_cause`."""

    def __init__(
        self, message: str = "", *, name: Optional[str] = None, cause: str = "expired"
    ) -> None:
        super().__init__(message or f"the hold is lost: {cause}", name=name)
        self.cause = cause


class LockBusy(RedlatchError):
    """Another owner had the name until the time to wait was over. Raised by `with` only."""


class ClientClosed(RedlatchError):
    """The client was closed or has ended, or belongs to another process or event loop."""
