"""A worker of the tests beside the Rust client: takes and releases a lock until it is killed.

Arguments: URL, name, `plain` or `fair`, lease in ms, `sync` or `aio`. It prints its history:
`granted <token> <ns> <planned ms>`, then `released <ns>`, or `lost <ns>` with the time of the last
belief. All times are of the monotonic clock that the processes of a machine share.
"""

import asyncio
import random
import sys
import time

import redlatch
from redlatch import aio


def say(text):
    print(text, flush=True)


def beliefs(hold):
    """Believes in the hold for a few ms, and prints until when. Yields where it may sleep."""
    # One in eight is long enough to be caught by whoever suspends or kills.
    planned = 30 if random.randrange(8) == 0 else random.randrange(5)
    # A belief has the time before the look: the process may be suspended behind it.
    believed = looked = time.monotonic_ns()
    if hold.lost_cause is not None:
        return
    say(f"granted {hold.token} {believed} {planned}")
    until = believed + planned * 1_000_000
    while looked < until:
        if hold.lost_cause is not None:
            say(f"lost {believed}")
            return
        believed = looked
        yield
        looked = time.monotonic_ns()
    at = time.monotonic_ns()
    say(f"released {at}" if hold.lost_cause is None else f"lost {believed}")


def work(url, name, kind, lease):
    client = redlatch.Client.from_url(url)
    lock = (client.fair_lock if kind == "fair" else client.lock)(name, lease=lease)
    while True:
        hold = lock.acquire()
        for _ in beliefs(hold):
            time.sleep(0.001)
        hold.release()


async def work_async(url, name, kind, lease):
    async with aio.Client.from_url(url) as client:
        lock = (client.fair_lock if kind == "fair" else client.lock)(name, lease=lease)
        while True:
            hold = await lock.acquire()
            for _ in beliefs(hold):
                await asyncio.sleep(0.001)
            await hold.release()


if __name__ == "__main__":
    url, name, kind, lease, way = sys.argv[1:]
    if way == "aio":
        asyncio.run(work_async(url, name, kind, int(lease) / 1000))
    else:
        work(url, name, kind, int(lease) / 1000)
