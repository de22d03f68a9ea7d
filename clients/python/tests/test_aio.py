"""The asyncio client on a real server."""

import asyncio
import time

import pytest

import redlatch
from redlatch import aio


def run(work):
    return asyncio.run(asyncio.wait_for(work, 60))


async def eventually(holds, seconds=20):
    until = time.monotonic() + seconds
    while not await holds():
        assert time.monotonic() < until, "it never happened"
        await asyncio.sleep(0.01)


@pytest.fixture(params=["lock", "fair_lock"])
def kind(request):
    return request.param


def test_hold_excludes_and_a_waiter_is_called(url, kind):
    async def work():
        async with aio.Client.from_url(url) as one, aio.Client.from_url(url) as two:
            first, second = getattr(one, kind)("n", lease=60), getattr(two, kind)("n", lease=60)
            hold = await first.acquire()
            assert await second.acquire(wait=0) is None
            waiter = asyncio.ensure_future(second.acquire())

            async def waits():
                return (await first.info())["waiters"] == 1

            await eventually(waits)
            began = time.monotonic()
            assert await hold.release() == "free"
            later = await waiter
            assert time.monotonic() - began < 1.5
            assert later.token > hold.token
            assert await later.release() == "free"

    run(work())


def test_cancelled_acquire_leaves_nothing(url, kind, server):
    async def work():
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

                async def free():
                    return await first.info() is None

                await eventually(free)
            async with first:
                for turns in range(0, 400, 10):
                    task = asyncio.ensure_future(second.acquire())
                    await asyncio.sleep(turns / 10_000)
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)

                async def alone():
                    return (await first.info())["waiters"] == 0

                await eventually(alone)
        assert server.hget("redlatch:{n}", "o") is None

    run(work())


def test_tasks_count_without_loss(url, kind):
    async def work():
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

    run(work())


def test_work_is_cancelled_at_a_loss(url, kind, server):
    async def work():
        async with aio.Client.from_url(url) as client:
            lock = getattr(client, kind)("n", lease=1)
            with pytest.raises(redlatch.LockLost, match="forgotten"):
                async with lock as hold:
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

    run(work())


def test_renewal_keeps_a_hold_and_a_fixed_lease_ends(url, kind):
    async def work():
        async with aio.Client.from_url(url) as client:
            async with getattr(client, kind)("n", lease=1) as hold:
                await asyncio.sleep(2)
                assert hold.state == "held"
                assert await hold.run(asyncio.sleep(0, "done")) == "done"
            hold = await getattr(client, kind)("n", lease=0.2, renew=False).acquire()
            assert await hold.lost() == "expired"

    run(work())


def test_close_tells_and_frees(url, kind):
    async def work():
        client = aio.Client.from_url(url)
        hold = await getattr(client, kind)("n").acquire()
        await client.close()
        assert hold.lost_cause == "closed" and await hold.lost() == "closed"
        async with aio.Client.from_url(url) as other:
            assert await getattr(other, kind)("n").acquire(wait=0)

    run(work())


def test_close_ends_waits(url, kind, server):
    async def work():
        async with aio.Client.from_url(url) as one:
            client = aio.Client.from_url(url)
            hold = await getattr(one, kind)("n").acquire()
            lock = getattr(client, kind)("n")
            waiters = [asyncio.ensure_future(lock.acquire()) for _ in range(3)]

            async def waits():
                return (await getattr(one, kind)("n").info())["waiters"] >= 1

            await eventually(waits)
            await client.close()
            done = await asyncio.gather(*waiters, return_exceptions=True)
            assert [type(result) for result in done] == [redlatch.ClientClosed] * 3
            assert (await getattr(one, kind)("n").info())["waiters"] == 0
            await hold.release()
            assert await getattr(one, kind)("n").info() is None

    run(work())


def test_close_while_the_first_locks_are_taken_leaves_no_task(url, kind, server):
    async def work():
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

            async def alone():
                return len(asyncio.all_tasks()) == before

            await eventually(alone)

    run(work())


def test_block_whose_hold_was_lost_ends_at_once(url, kind, monkeypatch):
    async def silent(call, timeout):
        await asyncio.sleep(0.05)
        raise redlatch._wire.NoAnswer("silent", may_have_run=True)

    async def work():
        async with aio.Client.from_url(url, patience=0.3) as client:
            with pytest.raises(redlatch.LockLost, match="expired"):
                async with getattr(client, kind)("n", lease=0.2, renew=False) as hold:
                    monkeypatch.setattr(client._link, "run", silent)
                    await hold.lost()
                    began = time.monotonic()
                    hold.check()
            assert time.monotonic() - began < 0.25
            monkeypatch.undo()
            async with getattr(client, kind)("n") as hold:
                assert await hold.release() == "free"
            with pytest.raises(KeyError):
                async with getattr(client, kind)("n"):
                    monkeypatch.setattr(client._link, "run", silent)
                    raise KeyError
            monkeypatch.undo()

    run(work())


def test_server_is_asked_and_a_hold_extended_and_forced(url, kind, server):
    async def work():
        async with aio.Client.from_url(url) as one, aio.Client.from_url(url) as two:
            lock, other = getattr(one, kind)("n", lease=1), getattr(two, kind)("n", lease=60)
            assert not await lock.locked() and not await lock.force_release()
            hold = await lock.acquire()
            assert await other.locked() and await hold.owned()
            await hold.extend(60)
            assert 50 < hold.remaining < 60
            # The renewals go on, and shorten nothing.
            await asyncio.sleep(1)
            assert 50 < hold.remaining < 60
            waiter = asyncio.ensure_future(other.acquire())

            async def waits():
                return (await lock.info())["waiters"] == 1

            await eventually(waits)
            assert await lock.force_release(hold.token)
            assert await hold.lost() == "revoked" and not await hold.owned()
            with pytest.raises(redlatch.LockLost, match="revoked"):
                await hold.extend(60)
            later = await waiter
            assert later.abandoned
            # The holder is another client, whose next renewal is due after 16 s.
            assert await lock.force_release(later.token)
            assert await asyncio.wait_for(later.lost(), 5) == "revoked"
            assert await later.release() == "revoked"
            assert await hold.release() == "taken_over"

    run(work())
