"""Best of k against counting every subset, one by one."""

import math
import random
from itertools import combinations, pairwise

import pytest

from kbverified import best_of_k, metrics

CASES = [(n, m, k) for n in range(1, 8) for m in range(n + 1) for k in range(1, n + 1)]


def pools(n: int, m: int) -> list[float | None]:
    """n samples in an order of no meaning: m competitors with values, the others None."""
    rng = random.Random(f"{n}/{m}")
    found: list[float | None] = [rng.uniform(-2.0, 2.0) for _ in range(m)] + [None] * (n - m)
    rng.shuffle(found)
    return found


def subsets(samples: list[float | None], k: int) -> list[list[float]]:
    """The competitors in every subset of k."""
    return [[value for value in chosen if value is not None] for chosen in combinations(samples, k)]


def test_pass_at_k_counts_the_subsets_that_hold_one():
    for n, m, k in CASES:
        found = [bool(competitors) for competitors in subsets(pools(n, m), k)]
        assert best_of_k.pass_at_k(n, m, k) == sum(found) / len(found)


def test_expected_best_is_the_mean_over_all_subsets():
    for n, m, k in CASES:
        samples = pools(n, m)
        every = subsets(samples, k)
        expected = sum(max(competitors) for competitors in every if competitors) / len(every)
        ranked = sorted(value for value in samples if value is not None)
        assert best_of_k.expected_best(ranked, n, k) == pytest.approx(expected, abs=1e-12)


def test_who_wins_is_who_is_highest_in_a_subset():
    for n, m, k in CASES:
        samples = pools(n, m)
        ranked = sorted(value for value in samples if value is not None)
        winners = [max(competitors) for competitors in subsets(samples, k) if competitors]
        assert best_of_k.winning_subsets(n, m, k) == [winners.count(value) for value in ranked]
        hits = [i % 3 == 0 for i in range(m)]
        hit = sum(hits[ranked.index(winner)] for winner in winners) / math.comb(n, k)
        assert best_of_k.chance_that_best(hits, n, k) == pytest.approx(hit, abs=1e-15)
        assert best_of_k.chance_that_best([True] * m, n, k) == best_of_k.pass_at_k(n, m, k), "to the last bit"


def test_one_sample_is_the_mean_and_all_samples_are_the_maximum():
    values = sorted([0.3, -1.2, 0.9, 0.1])
    assert best_of_k.expected_best(values, 4, 1) == pytest.approx(sum(values) / 4)
    assert best_of_k.expected_best(values, 4, 4) == max(values)
    assert best_of_k.expected_best(values, 9, 9) == max(values)
    assert best_of_k.pass_at_k(9, 4, 1) == 4 / 9
    assert (best_of_k.pass_at_k(9, 1, 9), best_of_k.pass_at_k(9, 0, 9)) == (1.0, 0.0)


def test_more_samples_never_make_it_worse():
    rng = random.Random(5)
    for _ in range(50):
        n = rng.randint(2, 12)
        values = sorted(rng.uniform(-2.0, 2.0) for _ in range(rng.randint(1, n)))
        chances = [best_of_k.pass_at_k(n, len(values), k) for k in range(1, n + 1)]
        assert chances == sorted(chances)
        # Among the subsets that have one: with failures in between, the number of competitors grows with k.
        means = [best_of_k.expected_best(values, n, k) / chance for k, chance in enumerate(chances, 1)]
        assert all(later >= earlier - 1e-12 for earlier, later in pairwise(means))


def test_the_winner_of_all_samples_is_that_of_the_leaderboard():
    samples = [(0, 1.5), (1, 3.0), (2, None), (3, 3.0)]
    ranked = sorted((s for s in samples if s[1]), key=lambda s: (s[1], -s[0]))
    wins = best_of_k.winning_subsets(4, 3, 4)
    (best,) = [sample for sample, won in zip(ranked, wins) if won]
    assert best == metrics.best_of(samples, speedup_of=lambda s: s[1], order=lambda s: s[0]) == (1, 3.0)


def test_thousands_of_samples_are_no_overflow():
    # 1 - (1 - 50/5000) (1 - 50/4999) ... is close to 1 - 0.99^50.
    assert best_of_k.pass_at_k(5000, 50, 50) == pytest.approx(1 - 0.99**50, rel=5e-3)
    chances = [won / math.comb(5000, 50) for won in best_of_k.winning_subsets(5000, 50, 50)]
    assert math.fsum(chances) == pytest.approx(best_of_k.pass_at_k(5000, 50, 50), rel=1e-12)


def test_an_unbiased_estimate_is_right_on_average():
    # A source that is right three times in ten: over all outcomes of 6 samples, pass@3 is 1 - 0.7^3 on average.
    p, n, k = 0.3, 6, 3
    average = sum(math.comb(n, c) * p**c * (1 - p) ** (n - c) * best_of_k.pass_at_k(n, c, k) for c in range(n + 1))
    assert average == pytest.approx(1 - 0.7**3, rel=1e-12)


@pytest.mark.parametrize(("n", "m", "k"), [(5, 2, 6), (5, 2, 0), (5, 6, 1), (5, -1, 1), (0, 0, 1)])
def test_what_cannot_be_estimated_is_refused(n, m, k):
    with pytest.raises(ValueError):
        best_of_k.pass_at_k(n, m, k)
    with pytest.raises(ValueError):
        best_of_k.winning_subsets(n, m, k)
