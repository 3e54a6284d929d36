"""What a worker may claim to its judge, and what the judge makes of it."""

from __future__ import annotations

import json

import pytest

from kbverified.judge.party import CandidateFailure
from kbverified.judge.timing import checked_times
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
