"""The A/A study on simulated repeats whose spread between processes is known."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import record_factory as make

from benchmarks import aa, run_records
from kbverified import protocol
from kbverified.keys import CandidateKey


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
    assert study.coverage_low < 0.95 < study.coverage_high


def test_with_the_found_value_the_coverage_is_right(monkeypatch):
    found = simulated(0.01, 0.003)
    before = aa.study(found, "time-tf32")
    assert before.coverage < 0.6 and before.coverage_high < 0.7
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
    widths = [high - low for low, high in (aa.coverage_interval(together), aa.coverage_interval(apart))]
    assert widths[0] > 1.5 * widths[1]


def test_repeats_come_from_records_and_unstable_ones_have_no_ratio(tmp_path: Path, capsys):
    for sample, (candidate, verdict) in enumerate([(4.0, "pass"), (4.02, "pass"), (4.2, "pass"), (9.0, "unstable")]):
        record = make.timing("time-tf32", 4.0, candidate, rounds=8, verdict=verdict)
        key = CandidateKey(aa.GENERATOR, "kernelbench", "level2_12", sample)
        make.write_candidate(tmp_path, key, {"time-tf32": record})
    make.write_candidate(tmp_path, CandidateKey("other", "kernelbench", "level2_12", 0), make.good_stages())
    found = aa.repeats(run_records.load([tmp_path]))
    assert [one.ratio for one in found] == pytest.approx([1.0, 4 / 4.02, 4 / 4.2, None])
    whole = aa.studies(found)[-1]
    assert (whole.n, whole.n_problems, whole.n_unstable, whole.n_other) == (4, 1, 1, 0)
    assert (whole.within_1, whole.within_3) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    assert whole.furthest == pytest.approx(4 / 4.2)
    assert whole.coverage == pytest.approx(1 / 3)
    assert whole.coverage_low is None, "one problem has no interval"
    assert aa.main([str(tmp_path), "--json", str(tmp_path / "out.json")]) == 0
    shown = capsys.readouterr().out
    assert "66.7" in shown
    needed = max(aa.sd_to_cover(one) for one in found if one.low is not None)
    assert f'BETWEEN_PROCESS_SD["cuda"]: {needed:.4f} (3 intervals of 1 problems' in shown.splitlines()[-1]
    assert aa.main([str(tmp_path), "--generator", "nobody"]) == 2
