"""The threads of the synchronous client, and how they wait. `_aio_crew` has the same for tasks."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from typing import Callable, Optional

_log = logging.getLogger("redlatch")

Line = threading.Lock


# Functions, since green threads replace the classes, maybe after the import of this package.
def new_line() -> Line:
    """Makes a lock of this process."""
    return threading.Lock()


def Mutex() -> threading.Lock:
    """Makes what excludes threads."""
    return threading.Lock()


def Event() -> threading.Event:
    """Makes an event."""
    return threading.Event()


def Condition(lock: Optional[threading.Lock] = None) -> threading.Condition:
    """Makes a condition."""
    return threading.Condition(lock)


class Bell:
    """Wakes one thread.

    Garbage collection may ring it at any point of any thread, so that `ring` takes no lock that
    a thread may wait for.
    """

    def __init__(self, _: "Threads") -> None:
        self._lock = threading.Lock()

    def ring(self) -> None:
        """Wakes the thread, or ends its next wait."""
        # The error says that it was rung, and not heard yet.
        with contextlib.suppress(RuntimeError):
            self._lock.release()

    def wait(self, seconds: float) -> None:
        """Waits for the bell, for this time at most."""
        self._lock.acquire(timeout=max(seconds, 0))


def current() -> int:
    """Returns what identifies the thread."""
    return threading.get_ident()


def sleep(seconds: float) -> None:
    """Waits for this time."""
    time.sleep(max(seconds, 0))


def take_turn(line: Line, seconds: Optional[float], taken: list[Line]) -> None:
    """Takes a lock of this process, and lists it as taken, unless the time is over before."""
    left = -1 if seconds is None else seconds
    # In one statement, so that an interrupt finds the line taken and listed, or neither.
    taken += [line] if line.acquire(timeout=left) else []


class Threads:
    """The threads of one client. The client ends with the first one that fails."""

    ended = None

    def __init__(self, collapse: Callable[[], None]) -> None:
        self._collapse = collapse

    def check(self) -> None:
        """Does nothing: each thread may use the client."""

    def spawn(self, name: str, work: Callable[[], None]) -> threading.Thread:
        """Begins a thread."""

        def run() -> None:
            try:
                work()
            except BaseException:
                _log.exception("a thread of the client has failed, so that the client ends")
                self._collapse()

        thread = threading.Thread(target=run, name=f"redlatch {name}", daemon=True)
        thread.start()
        return thread
