"""The rate limiters of both clients on a real server."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import eventually, in_threads
from test_servers import Address, Refuser

import redlatch

HOUR = 3600


def calls(server):
    """Returns how many scripts were run. The first call of a text has another name."""
    stats = server.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("eval", "evalsha"))


def waiting(limiter):
    """Returns how many calls wait behind the first one, in this client."""
    lines = list(limiter._client._limits._lines.values())
    return len(lines[0].waiting) if lines and lines[0].turn else -1


def check_windows(passes, rate, burst):
    """Checks the passes in each window. They are pairs of time in s and cost.

    A repeated request is told a time in whole ms.
    """
    passes.sort()
    for first in range(len(passes)):
        cost = 0
        for at, more in passes[first:]:
            cost += more
            assert cost <= rate * (at - passes[first][0] + 0.001) + burst + 1e-6


def test_burst_passes_and_then_the_time_is_told(limiter, server):
    api = limiter(burst=5)
    found = [api.try_acquire(cost) for cost in (1, 2)]
    assert [bool(one) for one in found] == [True, True]
    assert [(one.cost, one.remaining) for one in found] == [(1, 4), (2, 2)]
    assert 3 * HOUR - 10 < found[1].reset_after <= 3 * HOUR
    assert abs(found[1].counts_at - server.time()[0]) < 5
    refused = api.try_acquire(3)
    assert not refused and refused.remaining == 2
    assert HOUR - 10 < refused.retry_after <= HOUR
    assert 3 * HOUR - 10 < refused.reset_after <= 3 * HOUR
    # Nothing was taken, so that a smaller one passes.
    assert api.try_acquire(2) and not api.try_acquire()


def test_key_has_a_limit_of_its_own(limiter, server):
    tenants = limiter("tenant")
    assert tenants.key(42).try_acquire() and not tenants.key("42").try_acquire()
    assert tenants.key("ann").try_acquire() and tenants.try_acquire()
    assert tenants.key("ann").name == "tenant:ann" and server.exists("redlatch:{tenant:ann}")


def test_peek_takes_nothing(limiter):
    api = limiter(burst=3)
    assert (api.peek().remaining, api.peek().reset_after) == (3, 0)
    api.acquire(2)
    level = api.peek()
    assert level.remaining == 1 and 2 * HOUR - 10 < level.reset_after <= 2 * HOUR
    assert level.retry_after(1) == 0 and level.retry_after(4) is None
    assert HOUR - 10 < level.retry_after(2) <= HOUR


def test_changed_rate_forgives_no_debt(limiter):
    assert limiter(burst=2).try_acquire(2)
    other = limiter(rate=2, burst=2)
    # 2 tokens are owed, at 2 an hour.
    assert HOUR - 10 < other.peek().reset_after <= HOUR
    assert HOUR / 2 - 10 < other.try_acquire().retry_after <= HOUR / 2


def test_new_rate_that_begins_later_lets_nothing_pass(limiter):
    api = limiter()
    assert api.acquire() and api.reserve()
    # It begins when the reserved pass counts. The debt alone would leave much of the burst.
    refused = limiter(rate=1000, burst=9000).try_acquire()
    assert not refused and HOUR - 10 < refused.retry_after <= HOUR
    assert refused.remaining == 0


def test_rate_holds_over_time(limiter):
    api = limiter(rate=50, per=1, burst=3)
    began = time.monotonic()
    passes = [api.acquire() for _ in range(23)]
    assert time.monotonic() - began >= 20 / 50
    check_windows([(one.counts_at, 1) for one in passes], 50, 3)
    # A token comes each 20 ms, and this caller is there for it.
    spans = [later.counts_at - one.counts_at for one, later in zip(passes[5:], passes[6:])]
    assert sorted(spans)[len(spans) // 2] >= 0.019


def test_waiters_pass_in_order_and_only_the_first_one_asks(limiter, server):
    one = limiter(rate=1, per=0.5)
    assert one.acquire()
    before, order, threads = calls(server), [], []

    def work(number):
        one.acquire()
        order.append(number)

    for number in range(5):
        threads += in_threads([lambda number=number: work(number)])
        eventually(lambda: waiting(one) == number)
    assert calls(server) == before + 1
    for thread in threads:
        thread.join(20)
    assert order == [0, 1, 2, 3, 4] and calls(server) == before + 5


def test_wait_that_is_too_short_is_refused_at_once(limiter):
    api = limiter()
    assert api.acquire()
    began = time.monotonic()
    refused = api.acquire(wait=600)
    assert not refused and HOUR - 10 < refused.retry_after <= HOUR
    assert time.monotonic() - began < 60
    # It took nothing.
    assert api.peek().reset_after <= HOUR


def test_pass_that_counts_too_late_for_its_caller_is_given_back(limiter, monkeypatch):
    api, late = limiter(rate=3, per=7, burst=3), [0]
    run = api._client._link.run

    def slow(call, timeout):
        # As after 3 s without an answer.
        late[0] = 3000
        return run(call, timeout)

    with monkeypatch.context() as patch:
        patch.setattr(api._client._link, "run", slow)
        for half in (redlatch._limit, redlatch._aio_limit):
            patch.setattr(half, "now", lambda: redlatch._time.now() + late[0])
        # It counts at once.
        refused = api.acquire(3, wait=1)
        assert not refused and (refused.remaining, refused.retry_after) == (3, 0)
        eventually(lambda: not api._client._limits._lines)
        late[0] = 0
        assert api.try_acquire(2)
        late[0] = 0
        # It would count 5.3 s after the call.
        refused = api.acquire(2, wait=4)
    assert not refused and refused.remaining == 1
    assert 1 < refused.retry_after <= 7 / 3 and 3 < refused.reset_after < 14 / 3
    eventually(lambda: not api._client._limits._lines)
    assert api.try_acquire()


def test_wait_that_is_long_enough_passes(limiter):
    api = limiter(rate=1, per=0.2)
    assert api.acquire() and api.acquire(wait=20)
    assert api.try_acquire() or api.acquire(1, 5)


def test_waiter_behind_another_asks_once_at_the_end_of_its_wait(limiter, server):
    api = limiter()
    assert api.acquire()
    raised = []

    def endless():
        with pytest.raises(redlatch.ClientClosed, match="rate limiter 'n': the client was closed"):
            api.acquire()
        raised.append("closed")

    (thread,) = in_threads([endless])
    eventually(lambda: waiting(api) == 0)
    before, began = calls(server), time.monotonic()
    assert not api.acquire(wait=0.2)
    assert time.monotonic() - began >= 0.2 and calls(server) == before + 1
    assert waiting(api) == 0
    # The others do not wait behind it, and get what it leaves.
    assert not api.try_acquire() and HOUR < api.peek().reset_after <= 2 * HOUR
    api._client.close()
    thread.join(20)
    assert raised == ["closed"]
    # What the waiter had taken ahead is given back.
    assert HOUR - 60 < limiter().peek().reset_after <= HOUR
    with pytest.raises(redlatch.ClientClosed):
        api.try_acquire()


def test_reservation_is_taken_ahead_of_waiters(limiter):
    api = limiter()
    first, wait = api.reserve()
    assert first and wait == 0
    second, wait = api.reserve()
    assert HOUR - 10 < wait <= HOUR
    assert abs(second.counts_at - first.counts_at - HOUR) < 1
    # What is reserved may be given back.
    second.settle(0)
    assert HOUR - 10 < api.peek().reset_after <= HOUR


def test_more_than_a_year_ahead_is_refused(limiter):
    api = limiter(rate=1, per=300 * 24 * HOUR)
    assert api.acquire() and api.reserve()
    with pytest.raises(redlatch.OutOfRange, match="rate limiter 'n': more than 365 days"):
        api.reserve()
    with pytest.raises(redlatch.OutOfRange, match="rate limiter 'n': more than 365 days"):
        api.acquire()


def test_settlement_gives_back_and_adds(limiter, server):
    api = limiter(burst=9)
    api.acquire(6).settle(2)
    assert api.peek().remaining == 7
    api.acquire(1).settle(4)
    assert api.peek().remaining == 3
    api.acquire(1).settle(9)
    level = api.peek()
    assert level.remaining == 0 and 14 * HOUR < level.reset_after <= 15 * HOUR


def test_settlement_of_the_same_cost_asks_nothing_and_one_is_enough(limiter, server):
    api = limiter(burst=9)
    granted = api.acquire(3)
    before = calls(server)
    granted.settle(3)
    assert calls(server) == before
    with pytest.raises(redlatch.InvalidOption, match="limiter .n.: the pass was settled before"):
        granted.settle(1)
    for wrong in (-1, 1.5, "1", None, True):
        with pytest.raises(redlatch.InvalidOption, match="actual cost in tokens is a whole number"):
            api.acquire(1).settle(wrong)
        assert api.peek().remaining < 6


@pytest.mark.parametrize(
    "options, error, words",
    [
        ({"rate": 0}, "InvalidOption", "whole number, 1 or more, and not 0"),
        ({"rate": 1.5}, "InvalidOption", "the rate in tokens.* whole number.* not 1.5"),
        ({"rate": True}, "InvalidOption", "not True"),
        ({"rate": 2**53}, "InvalidOption", "below 2\\^53"),
        ({"per": 0}, "InvalidOption", "1 µs to 365 days"),
        ({"per": "1"}, "InvalidOption", "per is a number, 1 µs to 365 days, in seconds"),
        ({"per": 366 * 24 * HOUR}, "InvalidOption", "1 µs to 365 days"),
        ({"burst": 0}, "InvalidOption", "a burst in tokens"),
        ({"burst": 8761}, "InvalidOption", "of 8761 tokens is not allowed.* 1 to 8760"),
        ({"name": ""}, "InvalidName", "1 to 512 bytes"),
    ],
)
def test_wrong_options_are_told(limiter, options, error, words):
    with pytest.raises(getattr(redlatch, error), match=words):
        limiter(**options)


def test_wrong_costs_waits_and_ids_are_told(limiter, server):
    api, before = limiter(burst=3), calls(server)
    for call in (api.try_acquire, api.acquire, api.reserve, lambda cost: api.acquire(cost, 5)):
        with pytest.raises(redlatch.OutOfRange, match="'n': a cost of 4 .* the burst is 3") as told:
            call(4)
        assert told.value.name == "n"
        for wrong in (0, -1, 1.0, "1", None, False):
            with pytest.raises(redlatch.InvalidOption, match="'n': a cost in tokens is a whole"):
                call(wrong)
    for wait in ("1", True, float("nan")):
        with pytest.raises(redlatch.InvalidOption, match="'n': a wait"):
            api.acquire(wait=wait)
    for wrong in (None, b"a", 1.5):
        with pytest.raises(redlatch.InvalidName, match="'n': an id is a str or an int.* give str"):
            api.key(wrong)
    with pytest.raises(redlatch.InvalidName, match="1 to 512 bytes"):
        api.key("x" * 512)
    assert calls(server) == before and api.peek().remaining == 3


def test_name_of_another_kind_is_told(limiter, server):
    api = limiter()
    with api._client.lock("n"):
        for call in (api.try_acquire, api.acquire, api.reserve, api.peek):
            with pytest.raises(redlatch.WrongKind, match="rate limiter 'n': .*'lock:1'"):
                call()
    server.set("redlatch:{m}", "mine")
    with pytest.raises(redlatch.WrongKind, match="WRONGTYPE"):
        limiter("m").try_acquire()
    assert limiter("other").acquire()
    with pytest.raises(redlatch.WrongKind, match="limit:1"):
        api._client.lock("other").acquire()


class Losing(Address):
    """An address that loses every other answer with passes, and the connection with it."""

    def __init__(self, target):
        super().__init__(target)
        self.answers = self.lost = 0

    def pump(self, one, other):
        try:
            while data := one.recv(65536):
                if b" passed " in data:
                    self.answers += 1
                    if self.answers % 2:
                        self.lost += 1
                        break
                other.sendall(data)
            other.shutdown(2)
        except OSError:
            pass


def test_request_whose_answer_is_lost_counts_once(connect, port, limiter, server):
    with Losing(port) as address:
        api = connect(address.url).rate_limiter("n", rate=1, per=HOUR, burst=9)
        for number in range(1, 5):
            granted = api.try_acquire(2)
            assert granted and granted.remaining == 9 - 2 * number and address.lost == number
        assert not api.try_acquire(2)
    look = limiter(burst=9)
    assert look.peek().remaining == 1
    # Nobody knows where the debt of this pass ends. More is added all the same.
    granted.settle(0)
    assert look.peek().remaining == 1


def test_wait_whose_answer_is_lost_counts_once(connect, port, server):
    with Losing(port) as address:
        api = connect(address.url).rate_limiter("n", rate=1, per=0.3)
        began = time.monotonic()
        for _ in range(4):
            assert api.acquire()
        assert 0.9 <= time.monotonic() - began < 30 and address.lost == 4


def test_words_of_the_server_reach_every_caller(connect):
    with Refuser("MISCONF Redis is") as server:
        api = connect(server.url, patience=0.5).rate_limiter("n", rate=1, burst=9)
        told = []

        def work(cost):
            with pytest.raises(redlatch.Unavailable, match="rate limiter 'n': .*MISCONF") as error:
                api.try_acquire(cost)
            told.append(error.value)

        began = time.monotonic()
        threads = in_threads([lambda cost=cost: work(cost) for cost in range(1, 7)])
        for thread in threads:
            thread.join(30)
        # Those behind a request without an answer do not wait for as long each.
        assert len(told) == 6 and time.monotonic() - began < 6 * 0.5
        assert {(one.name, one.may_have_run) for one in told} == {("n", False)}
        assert len({id(one) for one in told}) == 6 and not api._client._limits._lines


WORKER = Path(__file__).parent / "limit_worker.py"


@pytest.mark.parametrize("door", ["", "lossy"])
def test_processes_never_pass_more_than_rate_and_burst(url, port, server, door):
    # Behind an address that loses answers they take nothing ahead: they are told a later time then.
    with Losing(port) as address:
        asks = [sys.executable, str(WORKER), address.url if door else url, door or "waits"]
        workers = [
            subprocess.Popen([*asks, way], stdout=subprocess.PIPE, text=True)
            for way in ("sync", "sync", "aio")
        ]
        passes = []
        for worker in workers:
            lines = worker.communicate(timeout=60)[0].splitlines()
            assert worker.returncode == 0 and len(lines) > 5
            passes += [(float(at), int(cost)) for at, cost in map(str.split, lines)]
        assert not door or address.lost > 20
    check_windows(passes, 60, 6)
    # A worker on a busy machine goes on alone.
    begun = passes[0][0]
    early = [(at, cost) for at, cost in passes if at < begun + 2]
    span = early[-1][0] - begun
    assert span > 1 and sum(cost for _, cost in early) > 0.5 * 60 * span


def test_idle_lines_take_no_memory(limiter):
    api = limiter()
    for number in range(100):
        assert api.key(number).try_acquire()
    eventually(lambda: not api._client._limits._lines)
