"""Measures what the scripts of a hand-off cost a server, without the system calls.

    python3 crates/redlatch-bench/examples/scripts.py fair 1 16

takes a kind (`lock`, `fair` or `write`), the number of clients, and the waiters of each. It starts
`redis-server`, or the program in `SERVER`. A hand-off is a release and the request that queues the
last holder again, and for the plain lock also the request of the waiter that was called. The cost
is the time of all `EVALSHA` in `INFO commandstats`, per hand-off: the median of five times 2,000.
"""

import os
import socket
import subprocess
import sys
import time

KEY = "redlatch:{bench}"
# The folder of the scripts, and the endings of their keys.
KINDS = {
    "lock": ("reentrant", "acquire", ["", ":q"]),
    "fair": ("fair", "acquire", ["", ":q", ":l"]),
    "write": ("rwlock", "write", ["", ":q", ":r", ":l", ":d"]),
}
FOR_READERS = ["PUBLISH", KEY + ":b"]


class Connection:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def __call__(self, *words):
        parts = [str(word).encode() for word in words]
        lines = [b"*%d\r\n" % len(parts)]
        lines += [b"$%d\r\n%s\r\n" % (len(part), part) for part in parts]
        self.socket.sendall(b"".join(lines))
        return self.reply()

    def reply(self):
        line = self.file.readline()[:-2]
        kind, rest = line[:1], line[1:].decode()
        if kind == b"-":
            raise RuntimeError(rest)
        if kind == b"$":
            return None if rest == "-1" else self.file.read(int(rest) + 2)[:-2].decode()
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        return rest


class Lock:
    """One name of a kind, its holder and its waiters in order."""

    def __init__(self, server, kind, clients):
        folder, acquire, ends = KINDS[kind]
        self.server, self.kind, self.attempts, self.waiters = server, kind, 0, []
        self.clients = [f"{client:032x}" for client in range(clients)]
        self.keys = [len(ends), *(KEY + end for end in ends)]
        texts = [script(f"{folder}/{name}") for name in (acquire, "release")]
        self.acquire, self.release = [server("SCRIPT", "LOAD", text) for text in texts]

    def ask(self, client, attempt=None):
        """Asks for the lock. Returns the attempt and the items of the reply."""
        if attempt is None:
            self.attempts += 1
            attempt = self.attempts
        owner = f"{client}:{attempt}"
        address = f"PUBLISH redlatch:wake:{client} {attempt}"
        if self.kind != "lock":
            address += f" {attempt} g30000.630000.{attempt:016x}"
        words = ["9999999999999", owner, owner, 30000, 630000, 5000, address]
        words += ["", *FOR_READERS] if self.kind == "write" else []
        return attempt, items(self.server("EVALSHA", self.acquire, *self.keys, *words))

    def hand_over(self):
        """Releases the lock, and queues its last holder again."""
        client, attempt, token = self.holder
        owner = f"{client}:{attempt}"
        words = [owner, owner, "", 600000, ""]
        words += ["w", token, *FOR_READERS] if self.kind == "write" else [token]
        reply = items(self.server("EVALSHA", self.release, *self.keys, *words))
        assert reply[1] == "released", reply
        if self.kind == "lock":
            called = next(one for one in self.waiters if reply[3].endswith(one[0]))
            token = self.ask(*called)[1][3]
        else:
            at = reply.index("granted")
            called, token = self.waiters[0], reply[at + 2].split(".")[1]
            assert reply[at + 1] == f"{called[0]}:{called[1]}", reply
        self.waiters.remove(called)
        self.holder = (*called, token)
        self.waiters.append((client, self.ask(client)[0]))


def items(reply):
    return reply.split(" ") if isinstance(reply, str) else reply


def script(name):
    command = ["cargo", "run", "--quiet", "--locked", "--package", "xtask", "--", "lua", name]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def spent(server):
    """Returns the time of all EVALSHA so far, in µs."""
    for line in server("INFO", "commandstats").splitlines():
        if line.startswith("cmdstat_evalsha:"):
            return int(line.split("usec=")[1].split(",")[0])
    return 0


def measure(server, kind, clients, each):
    lock = Lock(server, kind, clients)
    # Each client hears its messages.
    for client in lock.clients:
        server.others.append(Connection(server.port))
        server.others[-1]("SUBSCRIBE", "redlatch:wake:" + client)
    attempt, reply = lock.ask(lock.clients[0])
    lock.holder = (lock.clients[0], attempt, reply[3])
    for _ in range(each):
        lock.waiters += [(client, lock.ask(client)[0]) for client in lock.clients]
    for _ in range(300):
        lock.hand_over()
    times = []
    for _ in range(5):
        before = spent(server)
        for _ in range(2000):
            lock.hand_over()
        times.append((spent(server) - before) / 2000)
    return sorted(times)[2]


def main():
    kind, clients, each = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = os.environ.get("SERVER", "redis-server")
    words = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    try:
        time.sleep(0.5)
        server = Connection(port)
        server.port, server.others = port, []
        print(f"{kind}: {measure(server, kind, clients, each):.1f} µs per hand-off")
    finally:
        process.terminate()
        process.wait()


main()
