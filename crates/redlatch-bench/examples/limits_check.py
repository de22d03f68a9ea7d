"""A contender of `cargo xtask bench W14`: the library `limits`, with a fixed window, its default in web frameworks.

    pip install limits redis
    cargo xtask bench W14 --with=limits="python3 crates/redlatch-bench/examples/limits_check.py"

It shows the lines of `src/contender/external.rs`. A pair is one check, and all tasks share one client.
"""

import asyncio
import functools
import sys
import time

from limits import RateLimitItemPerSecond
from limits.aio.storage import RedisStorage
from limits.aio.strategies import FixedWindowRateLimiter
from polling import serve

# More than a round takes: all checks pass.
LIMIT = RateLimitItemPerSecond(1_000_000, 1_000)


async def task(limiter, name, end):
    latencies = []
    while (before := time.monotonic_ns()) < end:
        if not await limiter.hit(LIMIT, name):
            raise RuntimeError("limits has refused")
        latencies.append(time.monotonic_ns() - before)
    return {"pairs": len(latencies), "latencies": latencies}


async def run(limiter, job):
    began = time.monotonic_ns()
    names = [f"{job['key']}:{number}" for number in range(job["tasks"])]
    running = [task(limiter, name, began + job["time"]) for name in names]
    tasks = await asyncio.gather(*running)
    return {"wall": time.monotonic_ns() - began, "tasks": tasks}


async def main(url):
    # By default, 100 tasks at most have a connection.
    options = {"implementation": "redispy", "max_connections": 1_000}
    storage = RedisStorage(f"async+{url}", **options)
    limiter = FixedWindowRateLimiter(storage)
    verbs = "evalsha,eval,script|load,hello,client|setinfo"
    await serve(verbs, functools.partial(run, limiter))


asyncio.run(main(sys.argv[-1]))
