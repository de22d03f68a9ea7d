"""The rate limiter of the asynchronous client."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Optional, Union, overload

from . import _plans as plans
from ._aio_keeper import carry_out
from ._aio_lines import Asked
from ._base import about
from ._calls import Place
from ._limit_calls import LIMIT, Passed, Take
from ._options import wait_ms
from ._passes import PassView, Refusal
from ._rate import Level, Rate
from ._time import now
from .errors import InvalidName, OutOfRange

if TYPE_CHECKING:
    # sync: from ._sync import Client
    from .aio import Client

# How much later than its caller's time a pass may count, in ms: the time of an answer.
_LATE = 1000.0

_NEVER = "more than 365 days of the rate are taken ahead; try again later"


class RateLimiter:
    """A rate limiter under one name, shared by all processes with the same server and prefix.

    In any window of time, the costs of all passes are at most rate × window + burst, in tokens.
    `rate` tokens pass in each `per` seconds, and at most `burst` at once, which is the rate by
    default. Only the clock of the server counts, and a request that is sent twice counts once.

    The options are not stored: each call brings its own. A rate that has changed takes effect with
    the first call that brings it, or when all passes count that were taken ahead, and forgives no
    debt. See `RateLimiter` of the library for Rust.

    Calls raise `Unavailable` if the server was silent for the client's patience: the tokens may be
    taken then, as `may_have_run` tells. They raise `OutOfRange` for a cost above the burst,
    `InvalidOption`, `WrongKind`, `Refused` or `ClientClosed`.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        *,
        rate: int,
        per: float = 1.0,
        burst: Optional[int] = None,
    ) -> None:
        self._client, self.name = client, name
        self._options = (rate, per, burst)
        self._place = client._core.place(LIMIT, name)
        with about(self._place):
            self._rate = Rate.of(rate, per, burst)

    def key(self, id: Union[str, int]) -> "RateLimiter":
        """Returns the limiter of `id`, with the same options. It shares nothing with other ids.

        Its name is this name, a colon and `id`. Costs nothing.
        """
        if not isinstance(id, (str, int)):
            with about(self._place):
                raise InvalidName(f"an id is a str or an int, and not {id!r}; give str(id)")
        rate, per, burst = self._options
        name = f"{self.name}:{id}"
        return RateLimiter(self._client, name, rate=rate, per=per, burst=burst)

    async def try_acquire(self, cost: int = 1) -> "Union[Pass, Refusal]":
        """Takes `cost` tokens if they may pass now. A `Refusal` is false.

        Costs one request. Calls for one name that come meanwhile share the next one. An exception
        in the meantime, such as a cancellation or `KeyboardInterrupt`, takes nothing: a request
        that was not sent is not sent, and what a sent one takes is given back as by `Pass.settle`.
        """
        return await self.acquire(cost, wait=0)

    @overload
    async def acquire(self, cost: int = 1, wait: None = None) -> "Pass": ...

    @overload
    async def acquire(self, cost: int = 1, *, wait: float) -> "Union[Pass, Refusal]": ...

    @overload
    async def acquire(self, cost: int, wait: float) -> "Union[Pass, Refusal]": ...

    async def acquire(
        self, cost: int = 1, wait: Optional[float] = None
    ) -> "Union[Pass, Refusal]":
        """Waits until `cost` tokens have passed, at most for `wait` seconds.

        Returns a `Refusal`, which is false, at once if the server says that the time is too short.
        A pass that would count more than 1 s later, since the server was silent, is given back.
        Calls of one client for one name pass in order of arrival, and only the first of them asks:
        its pass is taken ahead, and the call returns when the pass counts. So a wait costs one
        request. A call behind others asks once more at the end of its wait.

        An exception takes nothing, as in `try_acquire`. If later passes are taken ahead, the turn
        of the call stays unused. Without `wait`, raises `OutOfRange` if more than 365 days of
        the rate are taken ahead.
        """
        asked: list[Asked] = []
        try:
            with about(self._place):
                span = wait_ms(wait)
                until = float("inf") if span is None else now() + span
                take = Take(self._rate, cost, None if span == 0 else until)
                answer = await self._ask(take, asked, waits=span != 0)
                if span is None and not answer:
                    raise OutOfRange(_NEVER)
                return answer
        except BaseException:
            self._abandon(asked)
            raise

    async def reserve(self, cost: int = 1) -> "tuple[Pass, float]":
        """Takes `cost` tokens now or ahead, in front of this client's waiters.

        Returns the pass, and the seconds after which you may use it. Costs one request. Raises
        `OutOfRange` if more than 365 days of the rate are taken ahead. An exception takes nothing,
        as in `try_acquire`.
        """
        asked: list[Asked] = []
        try:
            with about(self._place):
                answer = await self._ask(Take(self._rate, cost, float("inf")), asked)
                if not answer:
                    raise OutOfRange(_NEVER)
                return answer, answer._passed.wait / 1e6
        except BaseException:
            self._abandon(asked)
            raise

    async def peek(self) -> Level:
        """Returns the tokens that are left and when more are, without taking any.

        Costs one request.
        """
        with about(self._place):
            self._client._start()
            return await carry_out(
                self._client._link, plans.peek(self._client._core, self._place, self._rate)
            )

    async def _ask(
        self, take: Take, asked: list[Asked], *, waits: bool = False
    ) -> "Union[Pass, Refusal]":
        """Returns the answer, of a waiter when its pass counts. Lists what was asked before."""
        self._rate.check(take.cost)
        self._client._start()
        lines, call = self._client._limits, Asked(self._place, take, waits=waits)
        asked.append(call)
        if not await lines.ask(call, take.until if waits else None):
            # Its turn has not come.
            return await self._ask(replace(take, until=None), asked)
        if isinstance(call.answer, Passed):
            own = call.answer
            counts_at = now() + own.wait / 1000
            if waits and take.until is not None and counts_at > take.until + _LATE:
                # The server counts the wait from when a request reaches it.
                lines.abandon(call)
                return Refusal.of(take, own.without(take))
            if waits and own.wait > 0:
                await lines.sleep(call, counts_at)
            return Pass(self, take, own)
        if isinstance(call.answer, Refusal):
            return call.answer
        raise AssertionError("a call without an answer has ended")

    def _abandon(self, asked: list[Asked]) -> None:
        for call in asked:
            self._client._limits.abandon(call)

    def __repr__(self) -> str:
        return f"<redlatch.aio.{type(self).__name__} {self.name!r}>"


class Pass(PassView):
    """A permission that was taken from a rate limiter. It is true. See `PassView`."""

    def __init__(self, limiter: RateLimiter, take: Take, passed: Passed) -> None:
        super().__init__(take.rate, take.cost, passed)
        self._limiter = limiter

    async def settle(self, actual: int) -> None:
        """Sets the cost to `actual` tokens, which may be 0 or more than the burst, once.

        Use it if you knew only an estimate, such as for the tokens of a language model. More tokens
        are a debt at once, which delays later calls. Fewer are given back as far as they are still
        unpaid. Nothing is given back if the rate has changed, or if the answer to the request of
        this pass was lost. While passes are taken ahead, only the last one is given back, as a
        whole.

        Costs one request, and none if `actual` is the cost. After a cancellation or an error, the
        cost is the first or the actual one. Raises what the calls of `RateLimiter` raise.
        """
        client, place = self._limiter._client, self._limiter._place
        with about(place):
            request = self._settlement(actual)
            if request.tokens:
                client._start()
                lines, call = client._limits, Asked(place, request)
                try:
                    await lines.ask(call)
                except BaseException:
                    lines.abandon(call)
                    raise
