"""Servers that are the wrong one, or that answer what no server of this kind should answer."""

import asyncio
import json
import os
import socket
import socketserver
import threading
import time

import pytest
import redis
from conftest import eventually, running

import redlatch


class Listener(socketserver.ThreadingTCPServer):
    """A server in this process. `answer` handles one connection."""

    daemon_threads = True

    def __init__(self, answer):
        super().__init__(("127.0.0.1", 0), None)
        self.answer = answer
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def finish_request(self, request, client_address):
        try:
            self.answer(request)
        except OSError:
            pass

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.server_address[1]}"

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class Address(Listener):
    """An address that leads new connections to `target`. Old ones stay where they are."""

    def __init__(self, target):
        super().__init__(self.relay)
        self.target = target

    def relay(self, request):
        with socket.create_connection(("127.0.0.1", self.target)) as server:
            for one, other in ((request, server), (server, request)):
                thread = threading.Thread(target=self.pump, args=(one, other), daemon=True)
                thread.start()
            thread.join()

    @staticmethod
    def pump(one, other):
        try:
            while data := one.recv(65536):
                other.sendall(data)
            other.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


class Refuser(Listener):
    """Answers to scripts with an error."""

    def __init__(self, line, time="*2\r\n$10\r\n1700000000\r\n$1\r\n0"):
        super().__init__(self.refuse)
        self.line, self.scripts, self.time = line, 0, time

    def refuse(self, request):
        lines = request.makefile("rb")
        while head := lines.readline():
            count = int(head[1:])
            words = []
            for _ in range(count):
                words.append(lines.read(int(lines.readline()[1:]) + 2)[:-2].upper())
            request.sendall(self.reply(words).encode())

    def reply(self, words):
        reply = "+OK"
        if words[0] == b"TIME":
            reply = self.time
        elif words[0] == b"SUBSCRIBE":
            reply = f"*3\r\n$9\r\nsubscribe\r\n${len(words[1])}\r\n{words[1].decode()}\r\n:1"
        elif words[0].startswith(b"EVAL"):
            self.scripts += 1
            reply = f"-{self.line}"
        return f"{reply}\r\n"


@pytest.fixture
def pair(tmp_path):
    """Two servers, of which the second one replicates the first."""
    (tmp_path / "b").mkdir()
    with running(tmp_path) as first, running(tmp_path / "b") as second:
        one, two = redis.Redis(port=first), redis.Redis(port=second)
        two.replicaof("127.0.0.1", first)
        eventually(lambda: two.info("replication")["master_link_status"] == "up")
        yield one, two, first, second
        one.close()
        two.close()


def test_answer_of_the_wrong_server_ends_the_connection(connect, pair, kind):
    one, two, first, second = pair
    with Address(first) as address, connect(address.url, server_clock_allowance=1) as client:
        hold = getattr(client, kind)("n", lease=1.5).acquire()
        eventually(lambda: two.hget("redlatch:{n}", "o"))
        two.replicaof("no", "one")
        address.target = second
        one.replicaof("127.0.0.1", second)
        # The same address has another master. Each connection is still with the old one.
        other = getattr(client, kind)("other").acquire()
        assert two.hget("redlatch:{other}", "o").decode() == other.owner
        time.sleep(2)
        assert hold.state == "held"
        # Messages come from the new master as well.
        channel = f"redlatch:w:{hold.owner.partition(':')[0]}"
        eventually(lambda: two.pubsub_numsub(channel) == [(channel.encode(), 1)])
        assert hold.release() == "free"
        assert other.release() == "free"


@pytest.mark.parametrize(
    "line, kind, words",
    [
        ("READONLY You can't write", "Unavailable", "cannot serve .* for the moment: READONLY You"),
        ("MOVED 3 127.0.0.1:1", "Unavailable", "belongs to a cluster.*: MOVED 3 127.0.0.1:1"),
        ("CLUSTERDOWN Hash slot", "Unavailable", "for the moment: CLUSTERDOWN Hash slot"),
        ("MISCONF Redis is", "Unavailable", "for the moment: MISCONF Redis is"),
        ("ERR the proxy says no", "Unavailable", "answers, but not to this: the proxy says no"),
        ("DENIED by rule 7", "Unavailable", "answers, but not to this: DENIED by rule 7"),
        ("ERR unknown command 'evalsha'", "Refused", "unknown command 'evalsha'"),
        (
            "ERR Unknown Redis command called from script script: 0a, on @user_script:1.",
            "Refused",
            "Unknown Redis command",
        ),
        ("OOM command not allowed", "Refused", "OOM command not allowed"),
    ],
)
def test_words_of_the_server_reach_the_caller(connect, line, kind, words):
    with Refuser(line) as server, connect(server.url, patience=0.5) as client:
        lock = client.lock("n")
        for call in (lock.acquire, lambda: lock.acquire(wait=0.2), lock.info, lock.locked):
            began = time.monotonic()
            with pytest.raises(getattr(redlatch, kind), match=words) as told:
                call()
            assert told.value.name == "n" and "did not answer" not in str(told.value)
            if kind == "Refused":
                # It is permanent, and tried once.
                assert time.monotonic() - began < 0.3
    assert kind != "Refused" or server.scripts <= 8


@pytest.mark.parametrize("answer", ["+OK", "*1\r\n+OK", "HTTP/1.1 400", "$-1", "-ERR no clock"])
def test_server_that_is_none_is_told(connect, answer):
    with Refuser("ERR", answer) as server, pytest.raises(redlatch.RedlatchError):
        with connect(server.url, patience=0.3) as client:
            client.lock("n").acquire()


def test_refused_subscription_is_dialed_less_and_less_often(
    connect, port, server, monkeypatch, caplog
):
    pauses = []

    def sync_sleep(seconds):
        pauses.append(seconds)
        time.sleep(0.001)

    async def aio_sleep(seconds):
        pauses.append(seconds)
        await asyncio.sleep(0.001)

    monkeypatch.setattr(redlatch._wakes, "sleep", sync_sleep)
    monkeypatch.setattr(redlatch._aio_wakes, "sleep", aio_sleep)
    server.execute_command("ACL", "SETUSER", "deaf", "on", ">pw", "~*", "+@all", "resetchannels")
    try:
        with connect(f"redis://deaf:pw@127.0.0.1:{port}") as client:
            assert not client.lock("n").locked()
            wakes = client._wakes
            box = wakes.join("key", 1)
            eventually(lambda: len(pauses) > 8)
            assert pauses[:8] == [0.05, 0.1, 0.2, 0.4, 0.8, 1, 1, 1]
            # Nothing has changed for the waiters.
            assert not box.changed and not box.event.is_set()
            assert [" NOPERM " in record.getMessage() for record in caplog.records] == [True]
            server.execute_command("ACL", "SETUSER", "deaf", "allchannels")
            eventually(lambda: wakes.subscribed)
            assert box.changed and box.subscribed
            before = len(pauses)
            server.client_kill_filter(_type="pubsub")
            eventually(lambda: len(pauses) > before)
            assert pauses[before] == 0.05
            wakes.leave(box)
    finally:
        server.execute_command("ACL", "DELUSER", "deaf")


def test_command_that_is_missing_in_a_script_is_told(connect, tmp_path):
    with running(tmp_path, "--rename-command", "HSET", "") as port:
        with connect(f"redis://127.0.0.1:{port}") as client:
            with pytest.raises(redlatch.Refused, match="Unknown (Redis )?command"):
                client.lock("n").acquire()


def test_hold_shows_who_has_it(connect, url, server):
    with connect(url, application="checkout") as client:
        with client.lock("n") as hold:
            key = f"redlatch:{{{hold.owner.partition(':')[0]}}}:m"
            eventually(lambda: server.get(key))
            found = json.loads(server.get(key))
            age = server.time()[0] - found.pop("since") / 1000
            assert found == {"host": socket.gethostname(), "pid": os.getpid(), "app": "checkout"}
            assert -1 < age < 30 and server.pttl(key) > 3_500_000
    assert server.get(key) is None
