"""A server for the tests: `redis-server` of `REDLATCH_TEST_SERVERS` or of the `PATH`."""

import asyncio
import contextlib
import functools
import inspect
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time

import pytest
import redis

import redlatch
from redlatch import aio


def server_binary():
    """Returns the program. A machine without one fails the tests."""
    named = re.split("[,:]", os.environ.get("REDLATCH_TEST_SERVERS", ""))[0]
    found = named or shutil.which("redis-server") or shutil.which("valkey-server")
    assert found, "no redis-server in REDLATCH_TEST_SERVERS or in the PATH"
    return found


@contextlib.contextmanager
def running(folder, *options):
    """Runs a server in this folder. Gives its port."""
    # On Linux, a bound socket keeps the port from other sockets, even from one that connects to it.
    placeholder = socket.socket()
    placeholder.bind(("127.0.0.1", 0))
    placeholder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    port = placeholder.getsockname()[1]
    if not sys.platform.startswith("linux"):
        placeholder.close()
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
        placeholder.close()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Runs a test that is a coroutine, for a minute at most."""
    if inspect.iscoroutinefunction(pyfuncitem.obj):
        names = inspect.signature(pyfuncitem.obj).parameters

        async def work():
            asyncio.get_running_loop().call_later(60, asyncio.current_task().cancel)
            await pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})

        asyncio.run(work())
        return True
    return None


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
def kind(request):
    return request.param


@pytest.fixture
def make(url, kind):
    """Makes locks of the synchronous client, each with a client."""
    with contextlib.ExitStack() as clients:

        def make(name="n", **options):
            client = clients.enter_context(redlatch.Client.from_url(url))
            return getattr(client, kind)(name, **options)

        yield make


@pytest.fixture
def either(connect, url, kind):
    """Makes locks as `make` does, of either client."""

    def make(name="n", patience=10, **options):
        return getattr(connect(url, patience=patience), kind)(name, **options)

    return make


@pytest.fixture
def limiter(connect, url):
    """Makes rate limiters of either client, each with a client. Most need an hour per token."""

    def limiter(name="n", patience=10, rate=1, per=3600, **options):
        client = connect(url, patience=patience)
        return client.rate_limiter(name, rate=rate, per=per, **options)

    return limiter


@pytest.fixture(params=["sync", "aio"])
def connect(request):
    """Makes clients of either sort, whose calls wait."""
    with contextlib.ExitStack() as clients:
        loop = clients.enter_context(running_loop())

        def connect(url, **options):
            if request.param == "sync":
                client = redlatch.Client.from_url(url, **options)
            else:
                client = Waiting(aio.Client.from_url(url, **options), loop)
            return clients.enter_context(client)

        yield connect


@contextlib.contextmanager
def running_loop():
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


class Waiting:
    """A client, or what it makes, for asyncio, whose calls run in a loop of another thread."""

    def __init__(self, inner, loop):
        self._inner, self._loop = inner, loop

    def __getattr__(self, name):
        value = getattr(self._inner, name)
        value = functools.partial(self._call, value) if callable(value) else value
        return Waiting(value, self._loop) if isinstance(value, aio.Client) else value

    def _call(self, call, *args, **options):
        async def work():
            result = call(*args, **options)
            return await result if inspect.isawaitable(result) else result

        result = asyncio.run_coroutine_threadsafe(work(), self._loop).result(60)
        if isinstance(result, tuple):
            return tuple(map(self._wrapped, result))
        return self._wrapped(result)

    def _wrapped(self, result):
        ours = type(result).__module__.startswith("redlatch.")
        return Waiting(result, self._loop) if ours else result

    def __bool__(self):
        return bool(self._inner)

    def __enter__(self):
        return self._call(self._inner.__aenter__)

    def __exit__(self, *error):
        return self._call(self._inner.__aexit__, *error)

    def wait_lost(self, seconds):
        self._call(asyncio.wait_for, self._inner.lost(), seconds)
        return self.state == "lost"


def in_threads(works):
    """Starts a thread for each call. Gives the threads."""
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    return threads


def eventually(holds, seconds=20):
    """Waits until `holds()` is true. The limit is generous, and reached only by a failure."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "it never happened"
        time.sleep(0.01)
