"""What a worker may claim to its judge, and what the judge makes of it."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from kbverified.judge import side
from kbverified.judge.party import CandidateFailure
from kbverified.judge.side import checked_times
from kbverified.sandbox.channel import parse
from kbverified.worker import Bootstrap


@pytest.mark.parametrize(
    "claim",
    [
        None,
        {"0": 1.0},
        [1.0],
        [1.0, True],
        [1.0, "1"],
        [1.0, 0],
        [1.0, -1.0],
        [1.0, 5e-324],  # the ratio with it is infinite
        [1.0, 1.7e308],
        [1.0, 10**400],  # no float holds it
        [6.0, 6.0],  # together longer than the judge waited
    ],
)
def test_times_that_cannot_be_are_no_message(claim):
    with pytest.raises(CandidateFailure) as caught:
        checked_times(claim, 2, wall_ms=10.0)
    assert caught.value.verdict == "protocol_violation"


def test_times_within_the_judges_clock_are_taken():
    assert checked_times([1, 8.5], 2, wall_ms=10.0) == [1.0, 8.5]


class _NoText(RuntimeError):
    def __str__(self):
        raise KeyError("no text")

    __repr__ = __str__


@pytest.mark.parametrize(
    "error", [RuntimeError("lone \udc80 surrogate"), RuntimeError("\x00\x1b[2J"), RuntimeError("x" * 10**7), _NoText()]
)
def test_an_exception_with_an_odd_text_is_a_runtime_error(error):
    """A worker that sends it as it is, or stumbles over it, gets another verdict: protocol_violation or crash."""

    def forward():
        raise error

    bootstrap = Bootstrap(channel=None)  # type: ignore[arg-type]
    bootstrap.do_forward = lambda message, fds: bootstrap._guard("runtime_error", forward)  # type: ignore[method-assign]
    reply = bootstrap.answer({"do": "forward"}, [])
    assert reply["failure"] == "runtime_error"
    assert parse(json.dumps(reply).encode()) == reply


class _Party:
    """A worker that claims one time for every launch, and remembers how long the judge would have waited."""

    timeout_s = 60.0

    def __init__(self, claim_ms):
        self.claim_ms = claim_ms
        self.limits_s = []

    def post(self, message):
        self.posted = message

    def reply(self, timeout_s):
        self.limits_s.append(timeout_s)
        return {"times_ms": [self.claim_ms] * self.posted["repetitions"]}


def _timed(claim_ms, monkeypatch):
    party = _Party(claim_ms)
    job = SimpleNamespace(device=None, audit=None, settings=SimpleNamespace(device="cpu", dtype="fp32"))
    monkeypatch.setattr(side, "Exchange", lambda *_: None)
    monkeypatch.setattr(side, "checked_times", lambda claim, count, wall_ms: claim)
    timed = side.Side(job, party)
    timed.pilot()
    timed.time(timed.hot, max(timed.repetitions, 5))
    return party.limits_s


def test_a_short_claim_buys_no_time_to_sleep_in(monkeypatch):
    assert max(_timed(1e-3, monkeypatch)) < 63.0


def test_a_slow_honest_side_may_take_its_time(monkeypatch):
    assert _timed(50_000.0, monkeypatch)[-1] > 5 * 50.0
