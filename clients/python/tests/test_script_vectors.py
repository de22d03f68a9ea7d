"""The vectors of scripts, with the texts of this package, on a real server."""

import json
import time
from pathlib import Path

import pytest
from redis.exceptions import ResponseError

from redlatch._scripts import script_text

VECTORS = Path(__file__).parents[3] / "vectors"
SCRIPTS = ["acquire", "renew", "release", "inspect", "force", "withdraw", "settle", "look"]
FOLDERS = ["reentrant", "fair", "limit"]


def vectors():
    for folder in FOLDERS:
        file = json.loads((VECTORS / f"{folder}.json").read_text())
        assert file["version"] == 1
        for vector in file["vectors"]:
            if vector["script"].split("/")[1] in SCRIPTS:
                yield vector


def at_time(text, micros):
    seconds, rest = divmod(micros, 1_000_000)
    return (
        "local redis = (function(server) local function call(name, ...) "
        f"if name == 'TIME' then return {{'{seconds}', '{rest}'}} end return server.call(name, ...) end "
        "return {call = call, pcall = server.pcall, error_reply = server.error_reply} end)(redis)\n"
        + text
    )


def create(server, state):
    for key, value in state.items():
        if "hash" in value:
            server.hset(key, mapping=value["hash"])
        elif "sorted" in value:
            server.zadd(key, value["sorted"])
        else:
            server.set(key, value["text"])
        # A key whose last ms is not over would be gone here.
        if value.get("ttl"):
            server.pexpire(key, value["ttl"])


def read(server):
    state = {}
    for key in server.keys("*"):
        kind = server.type(key)
        if kind == "hash":
            value = {"hash": server.hgetall(key)}
        elif kind == "zset":
            pairs = server.zrange(key, 0, -1, withscores=True)
            value = {"sorted": {member: int(score) for member, score in pairs}}
        else:
            value = {"text": server.get(key)}
        ttl = server.pttl(key)
        state[key] = value | ({"ttl": ttl} if ttl >= 0 else {})
    return state


def compare(found, expected, took):
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        ttl, real = value.get("ttl"), found[key].get("ttl")
        assert {**found[key], "ttl": None} == {**value, "ttl": None}
        if ttl is None or real is None:
            assert real == ttl
        else:
            assert ttl - took <= real <= ttl


@pytest.mark.parametrize("folder", FOLDERS)
def test_scripts_answer_as_recorded(server, folder):
    ears = server.pubsub(ignore_subscribe_messages=True)
    ears.psubscribe("*")
    ears.get_message(timeout=5)
    count = 0
    for vector in vectors():
        if not vector["script"].startswith(folder):
            continue
        count += 1
        server.flushall()
        begun = time.monotonic()
        create(server, vector["before"])
        text = at_time(script_text(vector["script"]), vector["time"])
        try:
            reply = server.eval(text, len(vector["keys"]), *vector["keys"], *vector["args"])
        except ResponseError as error:
            reply = {"error": str(error).split(" ")[0]}
        title = f"{vector['script']}: {vector['name']}"
        assert reply == vector["reply"], title
        after = read(server)
        took = (time.monotonic() - begun) * 1000 + 1
        compare(after, vector.get("after", vector["before"]), took)
        server.publish("end", "")
        messages = []
        while (message := ears.get_message(timeout=5))["channel"] != "end":
            messages.append([message["channel"], message["data"]])
        assert messages == vector.get("messages", []), title
    assert count > 20
    ears.close()
