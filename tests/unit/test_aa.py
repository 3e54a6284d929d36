"""The A/A study on simulated repeats whose spread between processes is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kbverified import aa, protocol


def simulated(between: float, within: float, problems: int = 250, samples: int = 4, seed: int = 1) -> list[aa.Repeat]:
    """Repeats whose rounds' intervals are honest about ``within`` and know nothing of ``between``."""
    rng = np.random.default_rng(seed)
    found = []
    for problem in range(problems):
        for _ in range(samples):
            away = rng.normal(0, math.hypot(between, within))
            low, high = (math.exp(away + sign * aa.Z * within) for sign in (-1, 1))
            found.append(aa.Repeat(f"s/level1_{problem}", 1, "time-tf32", "cuda", "pass", math.exp(away), low, high))
    return found


@pytest.mark.parametrize(("between", "within"), [(0.01, 0.003), (0.004, 0.004), (0.02, 0.001)])
def test_the_standard_deviation_between_processes_is_found(between, within):
    found = simulated(between, within)
    assert aa.between_process_sd(found) == pytest.approx(between, rel=0.15)
    assert aa.sd_for_coverage(found) == pytest.approx(between, rel=0.15)


def test_where_rounds_say_all_there_is_nothing_between():
    found = simulated(0.0, 0.005)
    assert aa.between_process_sd(found) < 0.0015
    assert aa.sd_for_coverage(found) < 0.0015
    study = aa.study(found, "time-tf32")
    assert study.coverage.interval.low < 0.95 < study.coverage.interval.high


def test_with_the_found_value_the_coverage_is_right(monkeypatch):
    found = simulated(0.01, 0.003)
    before = aa.study(found, "time-tf32")
    assert before.coverage.value < 0.6 and before.coverage.interval.high < 0.7
    assert before.coverage_with_table is None
    monkeypatch.setattr(protocol, "BETWEEN_PROCESS_SD", {"cuda": before.sd_for_coverage})
    other = simulated(0.01, 0.003, seed=2)
    assert aa.study(other, "time-tf32").coverage_with_table == pytest.approx(0.95, abs=0.02)


def test_a_few_problems_that_are_far_off_move_only_what_has_to_cover_them():
    odd = [aa.Repeat("s/level1_999", 1, "time-tf32", "cuda", "pass", 1.3, 1.29, 1.31)] * 80
    found = simulated(0.005, 0.003) + odd
    assert aa.between_process_sd(found) == pytest.approx(0.005, rel=0.25)
    assert aa.sd_for_coverage(found) > 0.05


def test_repeats_of_one_problem_count_as_one():
    """A problem whose four repeats miss together widens the coverage's interval as one problem does, not as four."""
    rng = np.random.default_rng(3)
    together, apart = [], []
    for problem in range(100):
        miss = rng.random() < 0.1
        for sample in range(4):
            for found, name in ((together, problem), (apart, 4 * problem + sample)):
                bad = miss if found is together else rng.random() < 0.1
                ratio = 1.1 if bad else 1.0
                about = (f"s/level1_{name}", 1, "time-tf32", "cuda", "pass")
                found.append(aa.Repeat(*about, ratio, ratio * 0.99, ratio * 1.01))
    intervals = [aa.study(found, "time-tf32").coverage.interval for found in (together, apart)]
    widths = [high - low for low, high in intervals]
    assert widths[0] > 1.5 * widths[1]


def row(problem: str, **columns):
    """The columns of a kernel table's row that a repeat is read from; a time of neither stage unless given."""
    stages = {"time_fp32_verdict": None, "time_tf32_verdict": None, "matched_from": None}
    ratios = {f"speedup_{arm}{end}": None for arm in ("naive", "matched") for end in ("", "_low", "_high")}
    key = {"suite": "s", "problem": problem, "level": int(problem[5]), "device_kind": "cuda"}
    return key | stages | ratios | columns


def test_each_stage_reads_its_own_arm():
    both = row(
        "level1_1",
        time_fp32_verdict="pass",
        time_tf32_verdict="unstable",
        speedup_naive=1.01,
        speedup_naive_low=1.0,
        speedup_naive_high=1.02,
    )
    bf16 = row(
        "level2_1", time_fp32_verdict="pass", matched_from="time-fp32", speedup_matched=0.9, time_tf32_verdict="pass"
    )
    found = aa.repeats_of([both, bf16, row("level3_1")])
    assert [(one.problem, one.stage, one.verdict, one.ratio) for one in found] == [
        ("s/level1_1", "time-fp32", "pass", 1.01),
        ("s/level2_1", "time-fp32", "pass", None),
        ("s/level1_1", "time-tf32", "unstable", None),
    ]
    assert aa.known(found) == found[:1]


def repeat(problem: int, ratio: float, half: float = 0.005) -> aa.Repeat:
    name = f"s/level1_{problem}"
    return aa.Repeat(name, 1, "time-fp32", "cuda", "pass", ratio, ratio * math.exp(-half), ratio * math.exp(half))


def test_the_mean_is_of_problems_and_no_problem_weighs_more_for_more_repeats():
    found = [repeat(1, 1.21)] * 3 + [repeat(2, 1.0)]
    study = aa.study(found, "time-fp32")
    assert study.mean_ratio.value == pytest.approx(1.1), "sqrt(1.21 * 1.0)"
    assert study.mean_ratio.interval is None, "two problems have none"
    assert (study.n_known, study.n_problems_known) == (4, 2)


def test_where_every_repeat_hits_the_interval_does_not_claim_certainty():
    """Ten problems of ten: Clopper and Pearson's lower end is 0.025 ** (1 / 10), however many repeats each has."""
    found = [repeat(problem, 1.001) for problem in range(10) for _ in range(4)]
    study = aa.study(found, "time-fp32")
    assert study.within_1.value == study.coverage.value == 1.0
    assert study.coverage.interval == pytest.approx((0.025**0.1, 1.0))
    off = aa.study([repeat(problem, 1.05) for problem in range(10)], "time-fp32")
    assert off.within_3.value == off.coverage.value == 0.0
    assert off.coverage.interval == pytest.approx((0.0, 1.0 - 0.025**0.1))


def test_no_repeat_gives_no_number():
    study = aa.study([], "time-tf32")
    assert study.n == 0
    assert study.mean_ratio == study.within_1 == study.coverage == (None, None)
    assert aa.studies([]) == []
