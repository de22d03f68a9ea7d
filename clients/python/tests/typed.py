"""What a type checker has to accept and to refuse; `test_options.py` runs it. Nothing runs this."""

from typing import Optional

import redlatch
from redlatch import aio


def accepted(client: redlatch.Client, hold: redlatch.Hold) -> None:
    redlatch.Client.from_url("redis://h", prefix="shop", lease=5, application="a", patience=2.5)
    lock: redlatch.Lock = client.lock("n", lease=5, renew=False, wait=None)
    found: Optional[redlatch.Hold] = lock.acquire(wait=1)
    lock.acquire(None)
    info = lock.info()
    token: int = info["token"] if info else hold.token
    ended: bool = lock.force_release(token)
    hold.extend(5)
    print(found, ended, hold.owned(), lock.locked())


def limited(client: redlatch.Client) -> int:
    api: redlatch.RateLimiter = client.rate_limiter("n", rate=5, per=0.5, burst=9).key(7)
    granted: redlatch.Pass = api.acquire(2)
    granted, wait = api.reserve()
    api.acquire(wait=wait).settle(1)  # ERROR
    client.rate_limiter("n")  # ERROR
    client.rate_limiter("n", 5)  # ERROR
    api.key(None)  # ERROR
    if found := api.try_acquire():
        found.settle(5)
        found.retry_after  # ERROR
        return found.remaining
    found.settle(5)  # ERROR
    level: redlatch.Level = api.peek()
    print(found.retry_after, level.retry_after(3))
    return found.remaining


async def awaited(client: aio.Client) -> Optional[str]:
    async with client.fair_lock("n", lease=5, wait=1.5) as hold:
        held: aio.Hold = hold
        await held.extend(1)
        passed: aio.Pass = await client.rate_limiter("n", rate=1).acquire()
        await passed.settle(2)
        inner: Optional[aio.Hold] = await held.run(aio.Lock(client, "m").acquire())
        return await held.release() if inner else None


async def refused(client: redlatch.Client, other: aio.Client, hold: redlatch.Hold) -> None:
    client.lock("n", leas=5)  # ERROR
    client.fair_lock("n", lease="5")  # ERROR
    client.lock("n", wait="1")  # ERROR
    client.lock("n", renew=None)  # ERROR
    client.lock(5)  # ERROR
    redlatch.Client.from_url("redis://h", prefx="a")  # ERROR
    redlatch.Client.from_url("redis://h", patience="10")  # ERROR
    redlatch.Lock(client, "n", leas=5)  # ERROR
    other.lock("n", leas=5)  # ERROR
    other.fair_lock("n", wait="1")  # ERROR
    aio.Client.from_url("redis://h", leas=5)  # ERROR
    client.lock("n").acquire(wait="1")  # ERROR
    client.lock("n").force_release("1")  # ERROR
    hold.extend("5")  # ERROR
    client.lock("n").info()["token"]  # ERROR
    await other.lock("n").acquire(blocking=False)  # ERROR
