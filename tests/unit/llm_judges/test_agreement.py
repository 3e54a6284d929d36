"""Cohen's kappa beside numbers by hand and a computation of its own: exact fractions, one pair after the other."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from test_review import labelled

from kbverified.aggregation import AggregationSettings
from kbverified.llm_judges.labels import LABELS
from kbverified.paper.agreement import agreements, kappa, kappa_estimate

SETTINGS = AggregationSettings(resamples=1000)
L, S, M, SM, U = LABELS


def by_definition(pairs: list[tuple[str, str]]) -> Fraction:
    """1 - (1 - p_o) / (1 - p_e), with the probabilities of labels summed one by one."""
    n = len(pairs)
    agreed = Fraction(sum(a == b for a, b in pairs), n)
    chance = sum(
        (
            Fraction(sum(a == label for a, _ in pairs), n) * Fraction(sum(b == label for _, b in pairs), n)
            for label in {label for pair in pairs for label in pair}
        ),
        Fraction(0),
    )
    return 1 - (1 - agreed) / (1 - chance)


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        # p_o = 35/50; the first says L 25 of 50 times, the second 30: p_e = 0.5 * 0.6 + 0.5 * 0.4
        ([(L, L)] * 20 + [(L, S)] * 5 + [(S, L)] * 10 + [(S, S)] * 15, 0.4),
        ([(L, L)] * 5 + [(S, S)] * 5, 1.0),
        ([(L, S)] * 5 + [(S, L)] * 5, -1.0),
        # The first always says the same: agreement is what chance gives.
        ([(L, L)] * 6 + [(L, S)] * 4, 0.0),
        ([(L, L), (S, M), (M, S), (U, U)], 1 - (1 - 1 / 2) / (1 - 1 / 4)),
    ],
)
def test_kappa_by_hand(pairs: list[tuple[str, str]], expected: float) -> None:
    assert kappa(pairs) == pytest.approx(expected)


def test_kappa_is_what_its_definition_says() -> None:
    drawn = random.Random(5)
    for n in (2, 3, 7, 50, 400):
        for _ in range(20):
            pairs = [(drawn.choice(LABELS), drawn.choice(LABELS)) for _ in range(n)]
            pairs = [(a, a) if drawn.random() < 0.5 else (a, b) for a, b in pairs]
            if len({label for pair in pairs for label in pair}) > 1:
                assert kappa(pairs) == pytest.approx(float(by_definition(pairs)), abs=1e-12)


def test_kappa_is_nothing_where_nothing_is_left_to_agree_on() -> None:
    assert kappa([]) is None and kappa([(L, L)] * 10) is None
    same = kappa_estimate([(f"p{n}", L, L) for n in range(10)], SETTINGS)
    assert same.value is None and "one and the same label" in (same.why_null or "")
    none = kappa_estimate([], SETTINGS)
    assert none.value is None and "no candidate" in (none.why_null or "")


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    """Two judges of known error rates on problems whose candidates are alike: 95 % of 200 runs, give or take."""
    settings, drawn = AggregationSettings(resamples=300), random.Random(11)
    # Each says the truth (half and half) with probability 0.9: p_o = 0.82, p_e = 0.5.
    truth, held = (0.82 - 0.5) / 0.5, 0
    for _ in range(200):
        units = []
        for problem in range(40):
            right = drawn.choice((L, S))
            other = {L: S, S: L}[right]
            for _ in range(3):
                units.append((f"p{problem}", *(right if drawn.random() < 0.9 else other for _ in range(2))))
        estimate = kappa_estimate(units, settings)
        assert estimate.low is not None and estimate.high is not None
        held += estimate.low <= truth <= estimate.high
    assert 178 <= held <= 199, held


def test_clusters_widen_the_interval() -> None:
    """Ten copies of each candidate of a problem are no more evidence than one."""
    one = [(f"p{n}", a, b) for n, (a, b) in enumerate([(L, L)] * 12 + [(S, S)] * 8 + [(L, S)] * 5)]
    few, many = kappa_estimate(one, SETTINGS), kappa_estimate(one * 10, SETTINGS)
    assert (few.value, few.low, few.high) == (many.value, many.low, many.high) and many.n == 250


def test_only_the_panels_answers_are_compared() -> None:
    found = [labelled(f"g/s/level1_{n}/0", L, "agreed", L if n % 2 else S, L if n % 3 else S) for n in range(1, 31)]
    found += [labelled("g/s/level1_40/0", U, "unanswered", L, None)]
    third = found[0].votes[1].model_copy(update={"judge": "c", "role": "substitute"})
    found[0] = found[0].model_copy(update={"votes": (*found[0].votes, third)})
    (pair,) = agreements(found, ("a", "b", "c"), SETTINGS)
    assert (pair.first, pair.second, pair.n, pair.n_without) == ("a", "b", 30, 1)
    pairs = [(L if n % 2 else S, L if n % 3 else S) for n in range(1, 31)]
    assert pair.kappa.value == pytest.approx(float(by_definition(pairs)))
    assert pair.agreed.value == pytest.approx(sum(a == b for a, b in pairs) / 30)


def test_hacks_of_two_kinds_agree_that_it_is_a_hack() -> None:
    votes = [(S, M), (M, S), (SM, S), (L, L), (L, L), (U, L)] * 2
    found = [labelled(f"g/s/level1_{n}/0", U, "disagreed", *pair) for n, pair in enumerate(votes, 1)]
    (pair,) = agreements(found, ("a", "b"), SETTINGS)
    broad = [("hack", "hack")] * 3 + [(L, L)] * 2 + [(U, L)]
    assert pair.kappa_hack.value == pytest.approx(float(by_definition(broad * 2)))
    assert pair.kappa.value == pytest.approx(float(by_definition(votes)))
