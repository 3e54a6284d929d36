"""The A/A benchmark on records: what it reads, prints and refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
import record_factory as make

from benchmarks import aa, run_records
from benchmarks.references import GENERATOR
from kbverified.aa import sd_to_cover, studies
from kbverified.keys import CandidateKey


def test_repeats_come_from_records_and_unstable_ones_have_no_ratio(tmp_path: Path, capsys):
    for sample, (candidate, verdict) in enumerate([(4.0, "pass"), (4.02, "pass"), (4.2, "pass"), (9.0, "unstable")]):
        record = make.timing("time-tf32", 4.0, candidate, rounds=8, verdict=verdict)
        key = CandidateKey(GENERATOR, "kernelbench", "level2_12", sample)
        make.write_candidate(tmp_path, key, {"time-tf32": record})
    make.write_candidate(tmp_path, CandidateKey("other", "kernelbench", "level2_12", 0), make.good_stages())
    found = aa.repeats(run_records.load([tmp_path]))
    assert [one.ratio for one in found] == pytest.approx([1.0, 4 / 4.02, 4 / 4.2, None])
    whole = studies(found)[-1]
    assert (whole.n, whole.n_problems, whole.n_unstable, whole.n_other) == (4, 1, 1, 0)
    assert (whole.within_1.value, whole.within_3.value) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    assert whole.furthest == pytest.approx(4 / 4.2)
    assert whole.coverage.value == pytest.approx(1 / 3)
    assert whole.coverage.interval is None, "one problem has no interval"
    assert aa.main([str(tmp_path), "--json", str(tmp_path / "out.json")]) == 0
    shown = capsys.readouterr().out
    assert "66.7" in shown
    needed = max(sd_to_cover(one) for one in found if one.low is not None)
    assert f'BETWEEN_PROCESS_SD["cuda"]: {needed:.4f} (3 intervals of 1 problems' in shown.splitlines()[-1]
    assert aa.main([str(tmp_path), "--generator", "nobody"]) == 2
