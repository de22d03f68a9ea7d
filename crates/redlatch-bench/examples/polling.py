"""A contender of `cargo xtask bench` in another language: `SET NX PX`, asked again every 10 ms, and a script that deletes.

    cargo xtask bench W2 W3 --with=python="python3 crates/redlatch-bench/examples/polling.py"

It shows the lines of `src/contender/external.rs` and needs the standard library only. All tasks share one connection.
"""

import asyncio
import collections
import functools
import json
import sys
import time
import uuid
from urllib.parse import urlsplit

LEASE_MS = 30_000
PAUSE = 0.01
UNLOCK = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0"""


class Server:
    """A connection with as many requests in flight as there are tasks."""

    @classmethod
    async def connect(cls, url):
        self, place = cls(), urlsplit(url)
        reader, self.writer = await asyncio.open_connection(place.hostname, place.port or 6379)
        self.expected = collections.deque()
        self.reading = asyncio.create_task(self.read(reader))
        return self

    async def read(self, reader):
        # All replies here are of one line: +OK, :1, $-1 for nothing, or an error.
        while line := await reader.readline():
            self.expected.popleft().set_result(line.strip())
        for reply in self.expected:
            reply.set_exception(ConnectionError("the server is gone"))

    async def call(self, *words):
        words = [str(word).encode() for word in words]
        parts = [b"$%d\r\n%s\r\n" % (len(word), word) for word in words]
        self.writer.write(b"*%d\r\n" % len(words) + b"".join(parts))
        reply = asyncio.get_running_loop().create_future()
        self.expected.append(reply)
        answer = await reply
        if answer.startswith(b"-"):
            raise RuntimeError(answer.decode())
        return answer


async def acquire(server, name, owner, end):
    """Tells whether it has the name; it has not if the time is up before."""
    while await server.call("SET", name, owner, "NX", "PX", LEASE_MS) != b"+OK":
        await asyncio.sleep(PAUSE)
        if time.monotonic_ns() >= end:
            return False
    return True


async def task(server, name, end, enough, hold, is_one):
    """Locks and unlocks until it has done enough, and returns how it went."""
    owner, pairs, holds, latencies = uuid.uuid4().hex, 0, [], []
    while pairs < enough and (before := time.monotonic_ns()) < end:
        if not await acquire(server, name, owner, end):
            break
        got = time.monotonic_ns()
        if hold:
            await asyncio.sleep(hold)
        left = time.monotonic_ns()
        if await server.call("EVAL", UNLOCK, 1, name, owner) != b":1":
            raise RuntimeError("the name had another holder")
        pairs += 1
        if is_one:
            holds.append((got, left))
        else:
            latencies.append(time.monotonic_ns() - before)
    return {"pairs": pairs, "holds": holds, "latencies": latencies}


async def run(server, job):
    began = time.monotonic_ns()
    end = began + job["time"] if job["time"] else float("inf")
    enough = float("inf") if job["time"] else job["pairs"]
    running = []
    for number in range(job["tasks"]):
        name = f"{job['key']}:{number}" if job["names"] == "own" else job["key"]
        hold, is_one = job["hold"] / 1e9, job["names"] == "one"
        running.append(task(server, name, end, enough, hold, is_one))
    tasks = await asyncio.gather(*running)
    return {"wall": time.monotonic_ns() - began, "tasks": tasks}


async def serve(verbs, run):
    """Answers requests by `run` until the standard input ends."""
    print(f"ready {verbs}", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        try:
            print(json.dumps(await run(json.loads(line)["run"])), flush=True)
        except Exception as why:
            print(f"failed {why!r}", flush=True)


async def main(url):
    server = await Server.connect(url)
    await serve("set,eval", functools.partial(run, server))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
