"""The vectors of clients: what this client sends, decides and believes."""

import itertools
import json
from pathlib import Path

import pytest

from redlatch import _acquisition as acquisition
from redlatch import _calls as calls
from redlatch._lease import Lease, released
from redlatch._time import ServerClock
from redlatch._wire import NoAnswer
from redlatch.errors import Unavailable

VECTORS = Path(__file__).parents[3] / "vectors" / "client"
STARTED = 1_700_000_000_000


def scenarios():
    for path in sorted(VECTORS.glob("*.json")):
        file = json.loads(path.read_text())
        assert file["version"] == 1
        for scenario in file["scenarios"]:
            yield pytest.param(file["client"], scenario, id=f"{path.stem}: {scenario['name']}")


def wire(call):
    return {"script": call.script, "keys": list(call.keys), "args": list(call.args)}


class Player:
    """Plays one scenario. Inputs go to the client; every other step is compared with it."""

    def __init__(self, client, scenario):
        kind = {"plain": calls.PLAIN, "fair": calls.FAIR}[scenario["kind"]]
        self.scenario, self.place = scenario, calls.Place(kind, "redlatch", "n")
        self.settings = acquisition.Settings("redlatch", client)
        self.clock = ServerClock(0, STARTED)
        numbers = itertools.count(1)
        options = acquisition.Options(
            scenario["lease"], scenario["mode"] == "wait", scenario.get("deadline")
        )
        self.machine = acquisition.Acquisition(
            self.place,
            self.settings,
            options,
            self.clock,
            lambda: next(numbers),
            lambda: scenario["jitter"],
            0,
            scenario["subscribed"],
        )
        self.hold, self.phase, self.sent, self.resent = None, "acquire", 0, False
        self.answer = None

    def play(self):
        for step in self.scenario["steps"]:
            (word,) = [key for key in step if key not in ("at", "valid_until", "cause")]
            getattr(self, word)(step["at"], step[word], step)

    # Inputs.

    def reply(self, at, reply, _):
        self.answer = reply
        if self.phase == "acquire":
            self.machine.on_reply(at, reply)
        elif self.phase == "renew":
            millis, verdict, _ = calls.verdict(reply)
            self.clock.observe(at, millis)
            self.hold.on_renewed(self.sent, at, verdict, 0.01, 0)

    def no_answer(self, at, _, __):
        if self.phase == "acquire":
            self.machine.on_failure(may_have_run=True, now=at)
        elif self.phase == "renew":
            self.hold.on_trouble(at, 0)
        else:
            self.resent = True

    def message(self, _, text, __):
        if text in (self.place.key, f"{self.place.key} {self.machine.attempt}"):
            self.machine.on_message()

    def subscribed(self, at, subscribed, _):
        self.machine.on_subscribed(at, subscribed)

    def abandon(self, _, __, ___):
        pass

    # What the client does.

    def send(self, at, call, _):
        assert wire(self.machine.step(at).call) == call

    def subscribe(self, at, _, __):
        assert self.machine.step(at) == acquisition.Subscribe()

    def wait(self, at, until, _):
        assert self.machine.step(at) == acquisition.Wait(until)

    def pause(self, at, until, _):
        assert self.machine.step(at) == acquisition.Pause(until)

    def start_over(self, at, start_over, _):
        undo = self.machine.step(at).undo
        assert (undo and wire(undo.call)) == start_over["undo"]

    def undo(self, at, call, _):
        undo = self.machine.abandon(at)
        assert (undo and wire(undo.call)) == call

    def ended(self, at, how, _):
        if how == "unanswered":
            with pytest.raises(Unavailable):
                self.machine.step(at)
        else:
            assert self.machine.step(at) == acquisition.End()

    def granted(self, at, granted, _):
        step = self.machine.step(at)
        assert (str(step.grant.token), step.valid_until) == (
            granted["token"],
            granted["valid_until"],
        )
        lease, token = self.scenario["lease"], step.grant.token
        owner, until = self.machine.owner, step.valid_until
        self.hold = Lease(self.place, owner, token, lease, until, renewed=True)
        self.sent, self.phase = step.sent, "hold"

    def renew_due(self, at, due, _):
        bounds = []
        for random in (0, 1):
            if self.phase == "hold":
                self.hold.schedule(self.sent, random)
            else:
                self.hold.on_trouble(at, random)
            bounds.append(self.hold.renew_at)
        assert bounds == due

    def renew(self, at, call, _):
        self.sent, self.phase = at, "renew"
        by = self.clock.act_before(at)
        assert wire(self.hold.renewal(by, self.settings.retention, 0)) == call

    def state(self, at, state, step):
        found = (self.hold.state(at), self.hold.valid_until, self.hold.cause(at))
        assert found == (state, step["valid_until"], step.get("cause"))

    def release(self, _, call, __):
        self.phase = "release"
        assert wire(self.machine.release()) == call

    def released(self, _, outcome, __):
        _, verdict, _ = calls.verdict(self.answer)
        assert released(verdict, resent=self.resent) == outcome


@pytest.mark.parametrize("client, scenario", list(scenarios()))
def test_client_does_as_the_vector_says(client, scenario):
    Player(client, scenario).play()


def test_there_are_scenarios():
    assert len(list(scenarios())) > 40


def acquiring(deadline):
    return acquisition.Acquisition(
        calls.Place(calls.PLAIN, "redlatch", "n"),
        acquisition.Settings("redlatch", "a1"),
        acquisition.Options(30_000, waits=True, deadline=deadline),
        ServerClock(0, STARTED),
        itertools.count(1).__next__,
        lambda: 0.5,
        0,
        False,
    )


@pytest.mark.parametrize(
    "deadline, timeout",
    [(None, 1000), (0, 500), (249, 500), (250, 750), (499, 750), (500, 1000), (60_000, 1000)],
)
def test_last_request_of_a_caller_ends_soon_after_its_time(deadline, timeout):
    assert acquiring(deadline).step(0).timeout == timeout


def test_words_of_the_server_are_told_although_it_falls_silent():
    machine = acquiring(1000)
    for at, words in ((0, None), (100, "READONLY"), (400, None)):
        machine.step(at)
        error = NoAnswer(f"at {at}", may_have_run=False, words=words)
        machine.on_failure(may_have_run=False, now=at, error=error)
    with pytest.raises(Unavailable, match="at 100"):
        machine.step(1000)
