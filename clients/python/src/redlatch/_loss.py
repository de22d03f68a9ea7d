"""How a hold of the synchronous client tells of its loss."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar

from ._base import HoldView
from ._calls import Call
from ._lease import Lease
from ._time import now

if TYPE_CHECKING:
    from ._sync import Client

L = TypeVar("L", bound="Loss")
_log = logging.getLogger("redlatch")


class Loss(HoldView):
    """The part of a hold that is about its loss."""

    def __init__(self, client: "Client", lease: Lease, release: Call, abandoned: bool) -> None:
        self._client = client
        super().__init__(client._core, lease, release, abandoned)
        self._told = threading.Event()
        self._telling = threading.Lock()
        self._callbacks: list[Callable[[Any], object]] = []
        # Calls them.
        self._caller: Optional[threading.Thread] = None

    def wait_lost(self, seconds: Optional[float] = None) -> bool:
        """Waits until the hold is lost, at most for this time. Returns whether it is.

        A release is no loss.
        """
        until = float("inf") if seconds is None else now() + seconds * 1000
        while not self._told.is_set() and self.lost_cause in (None, "released"):
            left = (until - now()) / 1000
            if left <= 0:
                return False
            # Its own timer: the thread that should tell may have failed.
            self._told.wait(min(left, self._pause() if self.lost_cause is None else 60.0))
        return True

    def on_lost(self: L, callback: Callable[[L], object]) -> None:
        """Calls `callback` once with this hold when it is lost, in a thread for this hold.

        Callbacks of one hold are called one after the other. `Client.close` releases the hold
        behind them, or after half of the client's patience.
        """
        with self._telling:
            if not self._told.is_set():
                self._callbacks.append(callback)
                return
        callback(self)

    def _tell(self) -> None:
        with self._telling:
            if self._told.is_set():
                return
            self._told.set()
        if self._callbacks:
            try:
                self._caller = self._client._threads.spawn("lost", self._call)
            except RuntimeError:
                # There are too many threads, or Python ends.
                self._call()

    def _call(self) -> None:
        for callback in self._callbacks:
            try:
                callback(self)
            except Exception:
                _log.exception("a callback for the loss of %r has failed", self.name)

    def _join(self, until: float) -> None:
        """Waits for the callbacks, until then at most."""
        if self._caller:
            self._caller.join(max(until - now(), 0) / 1000)
