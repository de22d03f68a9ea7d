"""What an error reply means, and what an error tells. The rules are those of docs/contributing/protocol.md."""

import json
import pickle
from pathlib import Path

import pytest
from redis import exceptions
from redis._parsers.base import BaseParser

import redlatch
from redlatch._wire import NoAnswer, error_of

REFUSED, WRONG = redlatch.Refused, redlatch.WrongKind
# What servers answer, and its class in the Rust client. That client reads the same file.
FILE = Path(__file__).parents[3] / "vectors" / "errors" / "replies.json"
REPLIES = [tuple(row.values()) for row in json.loads(FILE.read_text()) if row["class"] != "NoScript"]


def of(reply, sent=True):
    return error_of(BaseParser.parse_error(reply), sent=sent)


@pytest.mark.parametrize("reply, kind, elsewhere", REPLIES)
def test_reply_has_one_meaning(reply, kind, elsewhere):
    found = of(reply)
    if kind == "Halted(WrongType)":
        assert isinstance(found, WRONG)
    elif kind.startswith(("Fatal", "Halted")):
        assert isinstance(found, REFUSED)
        assert found.may_have_run == kind.startswith("Halted")
    else:
        assert isinstance(found, NoAnswer)
        assert found.may_have_run == (kind == "Unknown")
        assert found.elsewhere == elsewhere
        assert ("answers, but not to this" in str(found)) == (kind == "Unknown")
    # The words of the server reach the reader.
    assert reply.removeprefix("ERR ") in str(found).replace("NOAUTH invalid", "WRONGPASS invalid")
    assert "did not answer" not in str(found)


@pytest.mark.parametrize("reply, kind, elsewhere", REPLIES)
def test_reply_means_the_same_while_dialing_and_nothing_was_sent(reply, kind, elsewhere):
    found = of(reply, sent=False)
    assert type(found) is type(of(reply)) and not getattr(found, "may_have_run", False) or (
        "script" in reply
    )


@pytest.mark.parametrize(
    "error, sent, text",
    [
        (exceptions.ConnectionError("refused"), False, "the server cannot be reached: refused"),
        (exceptions.TimeoutError(""), True, "the server did not answer in time: TimeoutError"),
        (OSError("broken"), True, "the server did not answer in time: broken"),
    ],
)
def test_silence_is_told_as_silence(error, sent, text):
    found = error_of(error, sent=sent)
    assert (str(found), found.may_have_run) == (text, sent)
    assert isinstance(of("ERR DB index is out of range", sent=False), REFUSED)


@pytest.mark.parametrize("name", ["ClientClosed", "InvalidLease", "InvalidName", "InvalidOption"])
@pytest.mark.parametrize("about", [None, "a\nb"])
def test_errors_survive_another_process(name, about):
    plain = getattr(redlatch, name)("why")
    lost = redlatch.LockLost(cause="taken")
    unclear = [redlatch.Unavailable("w", may_have_run=True), redlatch.Refused("w")]
    for error in (plain, lost, *unclear):
        if about:
            error.about("lock", about)
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
        assert copy.name == about and (about is None or "lock 'a\\nb': " in str(copy))
