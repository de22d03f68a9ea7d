"""What an error reply means, and what an error tells. The rules are those of docs/PROTOCOL.md."""

import pickle

import pytest
from redis import exceptions
from redis._parsers.base import BaseParser

import redlatch
from redlatch._wire import NoAnswer, error_of

WRAPPED = "ERR Error running script (call to f_1): @user_script:12: "
AT = " script: 0a1b, on @user_script:33."
# The reply, what it means, and whether the script may have written before.
LATER, ELSEWHERE, UNKNOWN = "later", "elsewhere", "unknown"
REFUSED, WRONG = redlatch.Refused, redlatch.WrongKind

REPLIES = [
    ("READONLY You can't write against a read only replica.", ELSEWHERE, False),
    ("LOADING Redis is loading the dataset in memory", ELSEWHERE, False),
    ("CLUSTERDOWN The cluster is down", ELSEWHERE, False),
    ("MASTERDOWN Link with MASTER is down", ELSEWHERE, False),
    ("MOVED 3999 127.0.0.1:7001", ELSEWHERE, False),
    ("ASK 3999 127.0.0.1:7001", ELSEWHERE, False),
    ("BUSY Redis is busy running a script", LATER, False),
    ("TRYAGAIN Multiple keys request during rehashing of slot", LATER, False),
    ("MISCONF Redis is configured to save RDB snapshots", LATER, False),
    ("NOREPLICAS Not enough good replicas to write.", ELSEWHERE, False),
    ("ERR max number of clients reached", LATER, False),
    (f"{WRAPPED}-READONLY You can't write", ELSEWHERE, False),
    (f"{WRAPPED}@user_script: 12: -MISCONF Errors writing", LATER, False),
    ("NOPERM User x has no permissions to run the 'evalsha' command", REFUSED, False),
    (f"NOPERM User x has no permissions to run the 'zadd' command{AT}", REFUSED, True),
    (f"ERR The user executing the script can't run this command or subcommand{AT}", REFUSED, True),
    (f"ERR ACL failure in script: User app has no permissions{AT}", REFUSED, True),
    (f"{WRAPPED}The user executing the script can't run this command", REFUSED, True),
    ("NOAUTH Authentication required.", REFUSED, False),
    ("WRONGPASS invalid username-password pair", REFUSED, False),
    ("OOM command not allowed when used memory > 'maxmemory'.", REFUSED, False),
    (f"{WRAPPED}@user_script: 12: -OOM command not allowed", REFUSED, False),
    (f"OOM command not allowed{AT}", REFUSED, False),
    ("CROSSSLOT Keys in request don't hash to the same slot", REFUSED, False),
    ("CLOCK the clock of the server", REFUSED, False),
    ("ERR unknown command 'EVALSHA', with args beginning with: 'a'", REFUSED, False),
    (f"ERR Unknown Redis command called from script{AT}", REFUSED, True),
    ("ERR Unknown command called from script script: on @user_script:22.", REFUSED, True),
    (f"{WRAPPED}@user_script: 12: Unknown Redis command called from Lua script", REFUSED, True),
    ("ERR Error compiling script (new function): user_script:3: '=' expected", REFUSED, False),
    ("WRONGTYPE Operation against a key holding the wrong kind of value", WRONG, None),
    (f"{WRAPPED}WRONGTYPE Operation against a key", WRONG, None),
    (f"{WRAPPED}attempt to compare nil with number", UNKNOWN, True),
    ("ERR something new", UNKNOWN, True),
    ("UNBLOCKED force unblock", UNKNOWN, True),
    ("STRANGE", UNKNOWN, True),
    ("DENIED by the proxy", UNKNOWN, True),
]


def of(reply, sent=True):
    return error_of(BaseParser.parse_error(reply), sent=sent)


@pytest.mark.parametrize("reply, meaning, may_have_run", REPLIES)
def test_reply_has_one_meaning(reply, meaning, may_have_run):
    found = of(reply)
    if isinstance(meaning, str):
        assert isinstance(found, NoAnswer)
        assert found.may_have_run == may_have_run
        assert found.elsewhere == (meaning is ELSEWHERE)
        assert ("answers, but not to this" in str(found)) == (meaning is UNKNOWN)
    else:
        assert isinstance(found, meaning)
        assert getattr(found, "may_have_run", None) == may_have_run
    # The words of the server reach the reader.
    assert reply.removeprefix("ERR ") in str(found).replace("NOAUTH invalid", "WRONGPASS invalid")
    assert "did not answer" not in str(found)


@pytest.mark.parametrize("reply, meaning, _", REPLIES)
def test_reply_means_the_same_while_dialing_and_nothing_was_sent(reply, meaning, _):
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
