"""Addresses: what a client takes from one, and what it refuses. The rules are those of Rust."""

import logging

import pytest

import redlatch
from redlatch import aio
from redlatch._address import read

SERVER = {"host": "h", "port": 6379, "db": 0, "username": None, "password": None}


@pytest.mark.parametrize(
    "url, server",
    [
        ("redis://h", {}),
        ("redis://", {"host": "localhost"}),
        ("redis://10.0.0.1:7000/3", {"host": "10.0.0.1", "port": 7000, "db": 3}),
        ("valkey://[::1]:7000", {"host": "::1", "port": 7000}),
        ("redis://[::1]", {"host": "::1"}),
        ("redis://h/?db=5", {"db": 5}),
        ("redis://h/4?db=5", {"db": 5}),
        ("redis://h?user=ann&pass=p%40+s", {"username": "ann", "password": "p@ s"}),
        ("redis://ann:p%40ss@h", {"username": "ann", "password": "p@ss"}),
        ("redis://:p@ss@h", {"password": "p@ss"}),
        ("REDIS://h", {}),
        ("rediss://h", {"ssl": True, "ssl_check_hostname": True}),
        (
            "valkeys://h?ssl_cert_reqs=none",
            {"ssl": True, "ssl_cert_reqs": "none", "ssl_check_hostname": False},
        ),
        ("rediss://h?ssl_ca_certs=/ca.pem", {"ssl": True, "ssl_ca_certs": "/ca.pem"}),
        ("unix:///run/redis.sock?db=2", {"unix_socket_path": "/run/redis.sock", "db": 2}),
        ("redis+unix:///run/redis.sock", {"unix_socket_path": "/run/redis.sock"}),
    ],
)
def test_addresses_of_one_server(url, server):
    found, options = read(url)
    assert found.pop("socket_connect_timeout") == 3 and options == {}
    expected = {**SERVER, **server}
    if "unix_socket_path" in server:
        del expected["host"], expected["port"]
    assert {name: found.get(name) for name in expected} == expected


def test_parameters_are_options_of_the_client(caplog):
    url = (
        "redis://h?prefix=shop&lease=10s&application=checkout&patience=2s&connect_timeout=500ms"
        "&token_retention=1h&server_clock_allowance=3s&client_name=me&max_waiters=7"
        "&self_check=false&long_wait=5s&ssl_ca_certs=x&%3Asecret%40=1"
    )
    with caplog.at_level(logging.WARNING, "redlatch"):
        _, options = read(url)
    assert options == {
        "prefix": "shop",
        "lease": 10,
        "application": "checkout",
        "patience": 2,
        "connect_timeout": 0.5,
        "token_retention": 3600,
        "server_clock_allowance": 3,
        "client_name": "me",
    }
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.endswith("no effect: max_waiters, self_check, long_wait, ssl_ca_certs, (not shown)")


@pytest.mark.parametrize(
    "url, why",
    [
        ("", "no scheme"),
        ("localhost:6379", "no scheme"),
        (None, "no scheme"),
        ("http://h", "scheme"),
        ("redis+moon://h", "scheme"),
        ("redis+cluster://a,b", "cluster"),
        ("redis-sentinel://a/main", "sentinel"),
        ("valkeys+replicas://a", "replicas"),
        ("redis://a,b", "several servers"),
        ("redis://a?node=b", "does not take"),
        ("redis://a?sentinelServiceName=b", "does not take"),
        ("redis://a?sentinel_password=secret", "does not take"),
        ("redis://a/0#main", "service"),
        ("redis://h/x", "database"),
        ("redis://h?db=-1", "database"),
        ("redis://:secret@h:99999", "1 to 65535"),
        ("redis://:secret@h:x", "host:port"),
        ("redis://:secret/@h", "%2F"),
        ("redis://::1", "host:port"),
        ("redis://:%ff@h", "UTF-8"),
        ("rediss://h?ssl_cert_reqs=no", "ssl_cert_reqs"),
        ("redis://h?lease=10", "is not a span of time"),
        ("redis://h?patience=1.5s", "is not a span of time"),
        ("redis://h?patience=1ms", "100 ms to 1 day"),
        ("redis://h?token_retention=1s", "10 s to 365 days"),
        ("redis://h?connect_timeout=2m", "1 minute"),
        ("redis://h?server_clock_allowance=2h", "1 hour"),
    ],
)
@pytest.mark.parametrize("client", [redlatch.Client, aio.Client])
def test_wrong_addresses_are_refused_and_keep_secrets(client, url, why):
    with pytest.raises(redlatch.InvalidOption, match=why) as told:
        client.from_url(url)
    assert "secret" not in str(told.value) and told.value.__cause__ is None


def test_options_in_an_address_have_their_bounds():
    with pytest.raises(redlatch.InvalidName):
        redlatch.Client.from_url("redis://h?prefix=a%7B")
    with pytest.raises(redlatch.InvalidLease):
        redlatch.Client.from_url("redis://h?lease=10ms")


def test_option_counts_before_the_parameter_of_the_address(url, server):
    address = f"{url}?prefix=shop&lease=5s"
    with redlatch.Client.from_url(address) as shop, shop.lock("n") as hold:
        assert server.hget("shop:{n}", "o") == hold.owner and hold.remaining < 5
    with redlatch.Client.from_url(address, prefix="redlatch", lease=9) as bank:
        with bank.lock("n") as hold:
            assert server.hget("redlatch:{n}", "o") == hold.owner and hold.remaining > 5
