"""A worker of the tests: takes passes of one rate limiter, and prints when each counts. It ends
after 2 s, but not before it has six.

Arguments: URL, `waits` or `lossy`, `sync` or `aio`. A line is `<seconds since 1970> <cost>`.
"""

import asyncio
import random
import sys
import time

import redlatch
from redlatch import aio

SPAN = 2
LEAST = 6

told = 0


def say(granted):
    global told
    told += 1
    print(f"{granted.counts_at:.6f} {granted.cost}", flush=True)


def work(url, waits):
    with redlatch.Client.from_url(url) as client:
        limiter = client.rate_limiter("shared", rate=60, burst=6)
        until = time.monotonic() + SPAN
        while time.monotonic() < until or told < LEAST:
            cost = random.randint(1, 3)
            found = limiter.acquire(cost) if waits else limiter.try_acquire(cost)
            if found:
                say(found)
            else:
                time.sleep(found.retry_after)


async def work_async(url, waits):
    async with aio.Client.from_url(url) as client:
        limiter = client.rate_limiter("shared", rate=60, burst=6)
        until = time.monotonic() + SPAN

        async def one():
            while time.monotonic() < until or told < LEAST:
                cost = random.randint(1, 3)
                found = await (limiter.acquire(cost) if waits else limiter.try_acquire(cost))
                if found:
                    say(found)
                else:
                    await asyncio.sleep(found.retry_after)

        await asyncio.gather(*(one() for _ in range(4)))


if __name__ == "__main__":
    url, mode, way = sys.argv[1:]
    if way == "aio":
        asyncio.run(work_async(url, mode == "waits"))
    else:
        work(url, mode == "waits")
