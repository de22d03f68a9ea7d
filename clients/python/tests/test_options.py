"""The options of clients and locks, by every door: checked by a type checker and when they run."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import redis
import redis.asyncio
import redis.asyncio.cluster
import redis.cluster
import redis.sentinel

import redlatch
from redlatch import _derive, aio
from redlatch._base import Core

TYPED = Path(__file__).parent / "typed.py"
NAN, INF = float("nan"), float("inf")


def check_types(folder, *arguments):
    # A copy, since a checkout has no files of the derived half.
    package = shutil.copytree(Path(redlatch.__file__).parent, folder / "redlatch")
    for module in _derive.HALVES:
        (package / f"{module}.py").write_text(_derive.derive(module), encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", "cache", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=folder)


def test_package_has_types(tmp_path):
    found = check_types(tmp_path, "-p", "redlatch")
    assert found.returncode == 0, found.stdout + found.stderr


def test_type_checker_knows_the_options(tmp_path):
    found = check_types(tmp_path, str(TYPED))
    told = {int(line) for line in re.findall(r"typed\.py:([0-9]+): error", found.stdout)}
    lines = TYPED.read_text().splitlines()
    expected = {number for number, line in enumerate(lines, 1) if line.endswith("# ERROR")}
    assert told == expected and len(expected) > 10, found.stdout + found.stderr


@pytest.fixture(params=[redlatch.Client, aio.Client], ids=["sync", "aio"])
def client(request, url):
    return request.param.from_url(url)


@pytest.mark.parametrize(
    "options, error, why",
    [
        ({"lease": "5"}, "InvalidLease", "is a number, 1 s to 365 days.*'5'"),
        ({"lease": True}, "InvalidLease", "is a number"),
        ({"lease": 0.9}, "InvalidLease", "0.9 is not allowed; it is 1 s to 365 days"),
        ({"lease": 0.01, "renew": False}, "InvalidLease", "0.05 s to 365 days"),
        ({"lease": INF}, "InvalidLease", "365 days"),
        ({"lease": NAN}, "InvalidLease", "365 days"),
        ({"lease": -1}, "InvalidLease", "365 days"),
        ({"wait": "1"}, "InvalidOption", "a wait is a number"),
        ({"wait": NAN}, "InvalidOption", "without end"),
    ],
)
def test_wrong_options_of_a_lock_are_told(client, kind, options, error, why):
    with pytest.raises(getattr(redlatch, error), match=why) as told:
        getattr(client, kind)("n", **options)
    assert isinstance(told.value, ValueError)


@pytest.mark.parametrize("name", ["", "a" * 513, "\ud800", b"n", 5, None])
def test_wrong_names_are_told(client, name):
    for make in (client.lock, client.fair_lock):
        with pytest.raises(redlatch.InvalidName):
            make(name)


def test_unknown_options_are_refused(client):
    for call in (
        lambda: client.lock("n", leas=5),
        lambda: client.fair_lock("n", blocking=False),
        lambda: type(client).from_url("redis://h", prefx="a"),
    ):
        with pytest.raises(TypeError, match="unexpected keyword argument"):
            call()


@pytest.mark.parametrize(
    "options, error",
    [
        ({"prefix": "a b"}, "InvalidName"),
        ({"prefix": "\udfff"}, "InvalidName"),
        ({"prefix": 5}, "InvalidName"),
        ({"lease": 0.5}, "InvalidLease"),
        ({"application": 5}, "InvalidOption"),
        ({"client_name": b"n"}, "InvalidOption"),
        ({"token_retention": 9}, "InvalidOption"),
        ({"patience": 0}, "InvalidOption"),
        ({"patience": INF}, "InvalidOption"),
        ({"patience": "10"}, "InvalidOption"),
        ({"connect_timeout": 0}, "InvalidOption"),
        ({"clock_drift": 0.3}, "InvalidOption"),
        ({"clock_drift": NAN}, "InvalidOption"),
        ({"server_clock_allowance": -1}, "InvalidOption"),
    ],
)
def test_wrong_options_of_a_client_are_told(options, error):
    for kind in (redlatch.Client, aio.Client):
        with pytest.raises(getattr(redlatch, error)):
            kind.from_url("redis://127.0.0.1:1", **options)


@pytest.mark.parametrize("wait", [INF, 1e300, 10**400, 1e9])
def test_wait_without_end_is_a_wait(url, kind, wait):
    with redlatch.Client.from_url(url) as client:
        with getattr(client, kind)("n", wait=wait) as hold:
            assert hold.state == "held"
    assert getattr(client, kind)("n", wait=-INF) and Core(lease=1).lease == 1


@pytest.mark.parametrize(
    "wrong",
    [
        redis.Redis(),
        redis.ConnectionPool(),
        redis.sentinel.Sentinel([("127.0.0.1", 1)]),
        redis.sentinel.Sentinel([("127.0.0.1", 1)]).master_for("main"),
        redis.asyncio.Redis(),
        redis.asyncio.ConnectionPool(),
        redis.asyncio.cluster.RedisCluster("127.0.0.1", 1),
        redis.asyncio.sentinel.Sentinel([("127.0.0.1", 1)]).master_for("main"),
        "redis://localhost",
        None,
    ],
    ids=lambda client: f"{type(client).__module__}.{type(client).__name__}",
)
def test_other_clients_of_redis_py_are_refused_with_words(wrong):
    kinds = {redlatch.Client: redis.Redis, aio.Client: redis.asyncio.Redis}
    for kind, right in kinds.items():
        if type(wrong) is right and "Sentinel" not in type(wrong.connection_pool).__name__:
            continue
        with pytest.raises(redlatch.InvalidOption, match="one server|does not ask sentinels"):
            kind(wrong)


@pytest.mark.parametrize("pool", [redis.ConnectionPool, redis.BlockingConnectionPool])
def test_client_of_a_pool_is_taken(port, server, pool):
    with redlatch.Client(redis.Redis(connection_pool=pool(port=port))) as client:
        with client.lock("n") as hold:
            assert hold.state == "held"


@pytest.mark.parametrize("greens", ["gevent", "eventlet"])
def test_green_threads_can_use_it(url, server, greens):
    program = Path(__file__).parent / "green.py"
    command = [sys.executable, "-W", "ignore", str(program), greens, url]
    subprocess.run(command, check=True, timeout=60)
