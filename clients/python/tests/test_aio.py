"""What only the asyncio client does. The tests of both clients are in `test_lock`."""

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
