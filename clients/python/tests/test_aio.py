"""What only the asyncio client does: tasks, loops and cancellation."""

import asyncio
import gc
import subprocess
import sys
import threading
import time
import warnings

import pytest
from conftest import eventually
from test_servers import Refuser

import redlatch
from redlatch import aio


async def becomes(holds):
    await asyncio.to_thread(eventually, holds)


async def test_cancelled_acquire_leaves_nothing(url, kind, server):
    async with aio.Client.from_url(url) as one, aio.Client.from_url(url) as two:
        first, second = getattr(one, kind)("n"), getattr(two, kind)("n")
        # Cancelled at each of the first turns of the loop: before, in and after requests.
        for turns in range(60):
            task = asyncio.ensure_future(second.acquire())
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            result = (await asyncio.gather(task, return_exceptions=True))[0]
            if isinstance(result, aio.Hold):
                await result.release()
            await becomes(lambda: server.hget("redlatch:{n}", "o") is None)
        async with first:
            for turns in range(0, 400, 10):
                task = asyncio.ensure_future(second.acquire())
                await asyncio.sleep(turns / 10_000)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            await becomes(lambda: server.zcard("redlatch:{n}:q") == 0)
    assert server.hget("redlatch:{n}", "o") is None


async def test_tasks_count_without_loss(url, kind):
    count = 0
    async with aio.Client.from_url(url) as one, aio.Client.from_url(url) as two:

        async def increments(lock):
            nonlocal count
            async with lock:
                for _ in range(2):
                    seen = count
                    await asyncio.sleep(0)
                    count = seen + 1

        locks = [getattr(client, kind)("n") for client in (one, two) for _ in range(50)]
        await asyncio.gather(*(increments(lock) for lock in locks))
        assert count == 200


async def test_work_is_cancelled_at_a_loss(url, kind, server):
    async with aio.Client.from_url(url) as client:
        lock = getattr(client, kind)("n", lease=1)
        with pytest.raises(redlatch.LockLost, match="forgotten"):
            async with lock as hold:
                assert await hold.run(asyncio.sleep(0, "done")) == "done"
                server.flushall()
                ended = asyncio.Event()

                async def endless():
                    try:
                        await asyncio.sleep(60)
                    finally:
                        ended.set()

                with pytest.raises(redlatch.LockLost):
                    await hold.run(endless())
                assert ended.is_set()
                assert await hold.lost() == "forgotten"


async def test_close_while_the_first_locks_are_taken_leaves_no_task(url, kind, server):
    before = len(asyncio.all_tasks())
    for turns in range(12):
        client = aio.Client.from_url(url)
        lock = getattr(client, kind)("n", wait=5)
        calls = [asyncio.ensure_future(lock.acquire()) for _ in range(3)]
        for _ in range(turns):
            await asyncio.sleep(0)
        await client.close()
        await asyncio.gather(*calls, return_exceptions=True)
        assert server.hget("redlatch:{n}", "o") is None
        while len(asyncio.all_tasks()) > before:
            await asyncio.sleep(0.01)


async def sleeps(seconds=60):
    await asyncio.sleep(seconds)


def fails_elsewhere(client, hold):
    """Runs in another loop than that of the client: each call says so, and none hangs."""

    async def work():
        lock = client.lock("other")
        calls = [lock.acquire(), lock.acquire(wait=0), lock.info(), lock.locked()]
        calls += [lock.force_release(), lock.__aenter__()]
        calls += [hold.run(sleeps()), hold.extend(9), hold.owned(), hold.release()]
        for call in calls:
            with pytest.raises((redlatch.ClientClosed, redlatch.LockLost)):
                await asyncio.wait_for(call, 5)
        # It is known without a wait, or refused.
        try:
            assert await asyncio.wait_for(hold.lost(), 5) == "closed"
        except redlatch.ClientClosed:
            pass

    asyncio.run(work())


def test_client_ends_with_its_loop(url, kind):
    client = aio.Client.from_url(url)
    hold = asyncio.run(getattr(client, kind)("n").acquire())
    assert hold.lost_cause == "closed"
    with pytest.raises(redlatch.LockLost, match="closed"):
        hold.check()
    fails_elsewhere(client, hold)
    asyncio.run(client.close())


def test_client_that_was_made_in_another_loop_works_in_that_of_its_first_call(url):
    async def make():
        return aio.Client.from_url(url)

    async def use(client):
        async with client, client.lock("n") as hold:
            return hold.state

    assert asyncio.run(use(asyncio.run(make()))) == "held"


async def test_call_from_the_loop_of_another_thread_is_refused(url):
    async with aio.Client.from_url(url) as client, client.lock("n") as hold:
        thread = threading.Thread(target=fails_elsewhere, args=(client, hold))
        thread.start()
        while thread.is_alive():
            await asyncio.sleep(0.01)
        assert hold.state == "held" and await hold.owned()


@pytest.mark.parametrize("which", ["all", 0, 1, 2, 3])
async def test_client_ends_with_its_tasks(url, server, which):
    client = aio.Client.from_url(url)
    lock = client.lock("n", lease=2)
    hold, own = await lock.acquire(), asyncio.current_task()
    waiter = asyncio.ensure_future(lock.acquire())
    if which == "all":
        # As a test framework does.
        tasks = [task for task in asyncio.all_tasks() if task not in (own, waiter)]
    else:
        tasks = [list(client._tasks._tasks)[which]]
    for task in tasks:
        task.cancel()
    assert await hold.lost() == "closed"
    with pytest.raises(redlatch.LockLost, match="closed"):
        await hold.run(sleeps())
    with pytest.raises(redlatch.ClientClosed, match="lock 'n': a task of the client"):
        await waiter
    with pytest.raises(redlatch.ClientClosed):
        await client.lock("m").acquire()
    # The loop is well, so that the release of a holder still works.
    assert await hold.release() == "free"
    assert server.hget("redlatch:{n}", "o") is None
    await client.close()
    await client.close()


async def test_run_and_lost_have_a_timer_of_their_own(url, monkeypatch):
    async with aio.Client.from_url(url) as client:
        hold = await client.lock("n", lease=0.3, renew=False).acquire()
        # Nothing in the background tells.
        monkeypatch.setattr(client._keeper, "_holds", {})
        with pytest.raises(redlatch.LockLost, match="expired"):
            await hold.run(sleeps())
        assert await hold.lost() == "expired"


@pytest.mark.parametrize("thread", [False, True])
async def test_dropped_hold_is_given_back(url, server, kind, thread):
    async with aio.Client.from_url(url) as client:
        held = [await getattr(client, kind)("n").acquire()]
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            if thread:
                await asyncio.to_thread(held.clear)
            held.clear()
            gc.collect()
            text = "'n' held> was dropped before its release"
            assert [text in str(one.message) for one in told] == [True]
            assert told[0].category is ResourceWarning
        while server.hget("redlatch:{n}", "o"):
            await asyncio.sleep(0.01)
        assert not client._keeper._holds


def test_hold_that_is_dropped_after_its_end_is_no_matter(url, server):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        client = aio.Client.from_url(url)
        hold = asyncio.run(client.lock("n").acquire())
        del hold
        sync = redlatch.Client.from_url(url)
        hold = sync.lock("m").acquire()
        sync.close()
        del hold
        gc.collect()


async def test_thousand_acquisitions_take_two_connections(url, server):
    async def one(client, number):
        hold = await client.lock(f"n{number}").acquire()
        if number % 100 == 0:
            assert len(server.client_list()) - before <= 2
        await hold.release()

    before = len(server.client_list())
    # Fresh, with all of them at once.
    async with aio.Client.from_url(url) as client:
        await asyncio.gather(*(one(client, number) for number in range(1000)))
    await becomes(lambda: len(server.client_list()) <= before)


async def test_cancelled_request_ends_no_other(url, server):
    async with aio.Client.from_url(url) as client:
        await client.lock("n").locked()
        before = server.info("stats")["total_connections_received"]
        for turns in range(50):
            tasks = [asyncio.ensure_future(client.lock("n").locked()) for _ in range(2)]
            for _ in range(turns % 7):
                await asyncio.sleep(0)
            tasks[0].cancel()
            assert await tasks[1] is False
        assert server.info("stats")["total_connections_received"] == before


class Loading(Refuser):
    """Answers to the first of two scripts, when both have come."""

    def reply(self, words):
        reply = super().reply(words)
        return "" if self.scripts == 1 else reply


async def test_answer_that_ends_the_connection_is_that_of_one_request(server):
    with Loading("LOADING Redis is") as other:
        async with aio.Client.from_url(other.url, patience=0.2) as client:
            calls = [client.lock(name).info() for name in "ab"]
            first, second = await asyncio.gather(*calls, return_exceptions=True)
    for error in (first, second):
        assert isinstance(error, redlatch.Unavailable) and "LOADING Redis is" in str(error)
    assert (first.may_have_run, second.may_have_run) == (False, True)


async def test_stopped_loop_takes_no_answer_for_silence(url):
    async with aio.Client.from_url(url) as client:
        lock = client.lock("n", lease=0.2, renew=False, wait=0)
        asyncio.get_running_loop().call_later(0.001, time.sleep, 0.15)
        hold = await lock.acquire()
        assert hold is not None


def test_end_of_a_loop_without_close_is_quiet(url):
    program = f"""
import asyncio
from redlatch import aio

async def main():
    lock = aio.Client.from_url({url!r}).lock("n")
    hold = await lock.acquire()
    asyncio.ensure_future(lock.acquire())
    await asyncio.sleep(0.1)
    return hold

print(asyncio.run(main()).lost_cause)
"""
    command = [sys.executable, "-X", "dev", "-W", "ignore", "-c", program]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (found.stdout, found.stderr) == ("closed\n", "")


async def test_cancelled_call_of_a_limiter_takes_nothing(url, server):
    async with aio.Client.from_url(url) as client, aio.Client.from_url(url) as other:
        look = other.rate_limiter("n", rate=1, per=3600, burst=9)
        limiter = client.rate_limiter("n", rate=1, per=3600, burst=9)
        for call in (limiter.try_acquire, limiter.acquire, limiter.reserve):
            passed = 0
            # Cancelled at each of the first turns of the loop: before, in and after requests.
            for turns in range(60):
                task = asyncio.ensure_future(call(2))
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                result = (await asyncio.gather(task, return_exceptions=True))[0]
                while client._limits._lines:
                    await asyncio.sleep(0)
                if not isinstance(result, asyncio.CancelledError):
                    passed += 1
                    assert (await look.peek()).remaining == 7
                    await (result[0] if isinstance(result, tuple) else result).settle(0)
                assert (await look.peek()).remaining == 9
            assert passed < 60


async def test_cancelled_wait_gives_its_pass_back_and_the_next_one_asks(url, server):
    async with aio.Client.from_url(url) as client:
        limiter = client.rate_limiter("n", rate=1, per=0.5)
        assert await limiter.acquire()
        first, second = (asyncio.ensure_future(limiter.acquire()) for _ in range(2))
        while not any(line.turn for line in client._limits._lines.values()):
            await asyncio.sleep(0)
        began = time.monotonic()
        first.cancel()
        assert await second and first.cancelled()
        # Its own half second, and not that of the first one.
        assert time.monotonic() - began < 0.9


async def test_calls_that_come_together_share_a_request(url, server):
    async with aio.Client.from_url(url) as client:
        limiter = client.rate_limiter("n", rate=1, per=3600, burst=20)
        # The first one loads the script.
        assert await limiter.try_acquire(2)
        before = server.info("commandstats")["cmdstat_evalsha"]["calls"]
        found = await asyncio.gather(*(limiter.try_acquire() for _ in range(64)))
        assert server.info("commandstats")["cmdstat_evalsha"]["calls"] == before + 1
        assert [bool(one) for one in found] == [True] * 18 + [False] * 46
        # Each knows where its own debt ends.
        marks = [one._passed.mark.left for one in found[:18]]
        assert [mark - marks[0] for mark in marks] == [at * 3600 * 10**6 for at in range(18)]
        await found[0].settle(0)
        await found[17].settle(0)
        assert (await limiter.peek()).remaining == 2
        # One at most may be taken ahead with a request, so that each has its own.
        passes = await asyncio.gather(*(limiter.reserve(1) for _ in range(4)))
        assert [round(wait / 3600) for _, wait in passes] == [0, 0, 1, 2]


def test_limiter_ends_with_its_loop(url, server):
    client = aio.Client.from_url(url)
    limiter = client.rate_limiter("n", rate=9)
    assert asyncio.run(limiter.try_acquire())
    for call in (limiter.try_acquire, limiter.acquire, limiter.reserve, limiter.peek):
        with pytest.raises(redlatch.ClientClosed):
            asyncio.run(call())


async def test_waiter_of_a_limiter_is_told_of_the_end_of_the_tasks(url, server):
    client = aio.Client.from_url(url)
    limiter = client.rate_limiter("n", rate=1, per=3600)
    assert await limiter.acquire()
    waiter, own = asyncio.ensure_future(limiter.acquire()), asyncio.current_task()
    while not any(line.turn for line in client._limits._lines.values()):
        await asyncio.sleep(0)
    for task in asyncio.all_tasks() - {own, waiter}:
        task.cancel()
    with pytest.raises(redlatch.ClientClosed, match="rate limiter 'n': a task of the client"):
        await waiter
    await client.close()


async def test_end_of_the_tasks_in_a_request_of_a_limiter_is_told_at_once(url, server):
    client = aio.Client.from_url(url)
    limiter, own = client.rate_limiter("n", rate=9), asyncio.current_task()
    assert await limiter.acquire()
    callers = {asyncio.ensure_future(limiter.acquire(cost)) for cost in (1, 2)}
    while not any(line.asker and len(line.waiting) < 2 for line in client._limits._lines.values()):
        await asyncio.sleep(0)
    for task in asyncio.all_tasks() - {own} - callers:
        task.cancel()
    began = time.monotonic()
    for caller in callers:
        with pytest.raises(redlatch.ClientClosed):
            await caller
    await client.close()
    assert time.monotonic() - began < 5
