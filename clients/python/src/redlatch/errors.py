"""The errors of this package. All derive from `RedlatchError`."""

from __future__ import annotations


class RedlatchError(Exception):
    """The base of all errors of this package."""


class InvalidName(RedlatchError, ValueError):
    """A name or a prefix is not allowed. The message says what is."""


class InvalidLease(RedlatchError, ValueError):
    """A lease is not allowed. The message says what is."""


class WrongKind(RedlatchError):
    """The name belongs to an object of another kind, or its key to another program."""


class Unavailable(RedlatchError):
    """No server has answered in time.

    `may_have_run` tells whether the server may have executed a request. Whatever it took is given
    back in the background.
    """

    def __init__(self, message: str, *, may_have_run: bool) -> None:
        super().__init__(message)
        self.may_have_run = may_have_run


class Refused(RedlatchError):
    """The server has refused the request, and will refuse it again: a missing right, no memory.

    `may_have_run` tells whether a script was stopped in the middle.
    """

    def __init__(self, message: str, *, may_have_run: bool) -> None:
        super().__init__(message)
        self.may_have_run = may_have_run


class ProtocolError(RedlatchError):
    """The server has answered what the scripts never answer."""


class LockLost(RedlatchError):
    """The hold is over. `cause` is one of the words of `Hold.lost_cause`."""

    def __init__(self, name: str, cause: str) -> None:
        super().__init__(f"the lock {name!r} was lost: {cause}")
        self.cause = cause


class LockBusy(RedlatchError):
    """Another owner had the name until the time to wait was over. Raised by `with` only."""


class ClientClosed(RedlatchError):
    """The client was closed, or this process is a fork of the one that made it."""
