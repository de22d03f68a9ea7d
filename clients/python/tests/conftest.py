"""A server for the tests: `redis-server` of `REDLATCH_TEST_SERVERS` or of the `PATH`."""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import time

import pytest
import redis

import redlatch


def server_binary():
    """Returns the program. A machine without one fails the tests."""
    named = re.split("[,:]", os.environ.get("REDLATCH_TEST_SERVERS", ""))[0]
    found = named or shutil.which("redis-server") or shutil.which("valkey-server")
    assert found, "no redis-server in REDLATCH_TEST_SERVERS or in the PATH"
    return found


@contextlib.contextmanager
def running(folder, *options):
    """Runs a server in this folder. Gives its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    args = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    server = subprocess.Popen(
        [server_binary(), *args, "--dir", str(folder), *options], stdout=subprocess.DEVNULL
    )
    try:
        client = redis.Redis(port=port)
        for _ in range(200):
            try:
                client.ping()
                break
            except redis.ConnectionError:
                time.sleep(0.05)
        client.ping()
        client.close()
        yield port
    finally:
        server.kill()
        server.wait()


@pytest.fixture(scope="session")
def port(tmp_path_factory):
    with running(tmp_path_factory.mktemp("server")) as port:
        yield port


@pytest.fixture
def server(port):
    """A connection to the empty server, which shares no code with the client under test."""
    client = redis.Redis(port=port, decode_responses=True)
    client.flushall()
    yield client
    client.close()


@pytest.fixture
def url(server, port):
    return f"redis://127.0.0.1:{port}"


@pytest.fixture(params=["lock", "fair_lock"])
def make(request, url):
    clients = []

    def make(name="n", **options):
        client = redlatch.Client.from_url(url)
        clients.append(client)
        return getattr(client, request.param)(name, **options)

    yield make
    for client in clients:
        client.close()


def eventually(holds, seconds=20):
    """Waits until `holds()` is true. The limit is generous, and reached only by a failure."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "it never happened"
        time.sleep(0.01)
