"""Findings: an interval that crosses its threshold is undecided, and the sentence says so."""

from __future__ import annotations

import pytest

from kbverified.leaderboard.model import Estimate
from kbverified.paper.finding import Finding, claim, decide, from_json, measured, report, to_json


def estimate(low: float, value: float, high: float) -> Estimate:
    return Estimate(value=value, low=low, high=high, n=40)


@pytest.mark.parametrize(
    ("found", "above", "below"),
    [
        (estimate(1.01, 1.2, 1.4), "holds", "does not hold"),
        (estimate(0.5, 0.8, 0.99), "does not hold", "holds"),
        (estimate(0.9, 1.05, 1.2), "undecided", "undecided"),
        (estimate(1.0, 1.1, 1.2), "undecided", "does not hold"),  # at least 1 is not above 1, and not below
        (estimate(0.8, 0.9, 1.0), "does not hold", "undecided"),
        (Estimate(value=5.0, n=2, why_null="two problems"), "undecided", "undecided"),
        (Estimate(value=None, n=0, why_null="no sample"), "not measured", "not measured"),
        (None, "not measured", "not measured"),
    ],
)
def test_outcomes(found: Estimate | None, above: str, below: str) -> None:
    assert decide(found, 1.0) == above
    assert decide(found, 1.0, "below") == below


def test_the_sentence_follows_the_outcome() -> None:
    def said(found: Estimate | None) -> str:
        return claim("verified", "the speedup of a", found, 1.0, "matched arm").sentence

    assert said(estimate(1.01, 1.2, 1.4)) == "The speedup of a is above 1.00: 1.20 [1.01, 1.40], n 40."
    assert said(estimate(0.5, 0.8, 0.99)) == "The speedup of a is not above 1.00: 0.80 [0.50, 0.99], n 40."
    assert said(estimate(0.9, 1.05, 1.2)) == (
        "Whether the speedup of a is above 1.00 is undecided: 1.05 [0.90, 1.20], n 40."
    )
    assert said(Estimate(value=None, n=0, why_null="no sample")) == "The speedup of a was not measured: no sample."
    assert said(None) == "The speedup of a was not measured."


def test_a_decided_sentence_shows_that_its_interval_keeps_off_the_threshold() -> None:
    def said(found: Estimate, direction: str = "above", form: str = "factor", threshold: float = 1.0) -> str:
        return claim("memory", "it", found, threshold, "all", direction=direction, form=form).sentence

    assert said(estimate(1.0004, 1.04, 1.08)) == "It is above 1.0000: 1.0400 [1.0004, 1.0800], n 40."
    assert said(estimate(0.9, 0.95, 0.997), "below") == "It is below 1.000: 0.950 [0.900, 0.997], n 40."
    assert said(estimate(0.5003, 0.6, 0.7), form="percent", threshold=0.5) == (
        "It is above 50.00 %: 60.00 % [50.03 %, 70.00 %], n 40."
    )
    assert said(estimate(0.9, 0.95, 1.0)) == "It is not above 1.00: 0.95 [0.90, 1.00], n 40."  # 1 itself is not above 1


def test_percentages_and_reports() -> None:
    share = estimate(0.251, 0.3, 0.5)
    assert measured(share, "percent") == "30.0 % [25.1 %, 50.0 %], n 40"
    found = report("memory", "the share", share, "all problems", form="percent")
    assert (found.sentence, found.outcome, found.threshold) == (
        "The share is 30.0 % [25.1 %, 50.0 %], n 40.",
        "holds",
        None,
    )
    assert report("memory", "the share", None, "all problems").outcome == "not measured"


def test_json_both_ways() -> None:
    found = [claim("a", "x", estimate(0.9, 1.05, 1.2), 1.0, "c"), report("b", "y", None, "d")]
    assert from_json(to_json(found)) == found


def test_what_a_finding_refuses() -> None:
    with pytest.raises(ValueError, match="conditions"):
        Finding("t", "s", "", None, None, "holds")
    with pytest.raises(ValueError, match="without an estimate"):
        Finding("t", "s", "c", None, 1.0, "holds")
    with pytest.raises(ValueError, match="'maybe'"):
        Finding("t", "s", "c", None, 1.0, "maybe")  # type: ignore[arg-type]
