"""A contender of `cargo xtask bench` in another language: `SET NX PX`, asked again every 10 ms, and a script that deletes.

    cargo xtask bench W2 W3 --with=python="python3 crates/redlatch-bench/examples/polling.py"

It shows the lines of `src/contender/external.rs` and needs the standard library only. All tasks share one connection.
"""

import asyncio
import collections
import functools
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


async def task(server, number, name, end, enough, hold, is_one):
    """Locks and unlocks until it has done enough, and returns the lines that say how it went."""
    owner, pairs, lines = uuid.uuid4().hex, 0, []
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
        took = time.monotonic_ns() - before
        lines.append(f"hold {number} {got} {left}" if is_one else f"latency {took}")
    return lines + [f"task {pairs}"]


async def run(server, names, key, tasks, ms, pairs, hold):
    began = time.monotonic_ns()
    end = began + int(ms) * 1_000_000 if int(ms) else float("inf")
    enough = float("inf") if int(ms) else int(pairs)
    running = []
    for number in range(int(tasks)):
        name = f"{key}:{number}" if names == "own" else key
        one = task(server, number, name, end, enough, int(hold) / 1e6, names == "one")
        running.append(one)
    answers = await asyncio.gather(*running)
    lines = [line for answer in answers for line in answer]
    return "\n".join(lines + [f"done {time.monotonic_ns() - began}"])


async def serve(verbs, run):
    """Answers requests by `run` until the standard input ends."""
    print(f"ready {verbs}", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        word, *rest = line.split()
        try:
            if word != "run":
                raise ValueError(f"unknown request {word}")
            print(await run(*rest), flush=True)
        except Exception as why:
            print(f"failed {why}", flush=True)


async def main(url):
    server = await Server.connect(url)
    await serve("set,eval", functools.partial(run, server))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
