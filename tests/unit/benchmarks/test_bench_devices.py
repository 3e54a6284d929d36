"""One GPU against several, out of records: paces, shares, ratios, and what is no comparison."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import record_factory as make

from benchmarks import devices
from benchmarks.run_records import load
from kbverified.keys import CandidateKey
from kbverified.records.stages import StageRecord

HOLDS_S = {"hidden-gate": 3.0, "time-fp32": 2.0, "time-tf32": 2.0, "memory": 1.0}
ROUND_S = sum(HOLDS_S.values())


def on(record: StageRecord, uuid: str) -> StageRecord:
    device = record.provenance.device
    assert device is not None
    named = record.provenance.model_copy(update={"device": device.model_copy(update={"uuid": uuid})})
    return record.model_copy(update={"provenance": named})


def run(root: Path, gpus: int, candidates: int = 4, slower: float = 1.0) -> Path:
    """Candidates dealt to GPUs in turn; on each one stage follows the other, every hold ``slower`` times as long."""
    for sample in range(candidates):
        end_s = (sample // gpus) * ROUND_S * slower
        stages = {}
        for stage, hold_s in HOLDS_S.items():
            end_s += hold_s * slower
            ended = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=100 + end_s)
            times = {
                "started_at": (ended - timedelta(seconds=30)).isoformat(),
                "duration_s": 30.0,
                "device_hold_s": hold_s * slower,
            }
            if stage.startswith("time-"):
                made = make.timing(stage, 4.0, 4.0 if sample else 3.9, rounds=8, **times)
            else:
                made = make.gate(**times) if stage == "hidden-gate" else make.memory(2000, 1000, **times)
            stages[stage] = on(made, f"GPU-{sample % gpus}")
        make.write_candidate(root, CandidateKey("renamed-reference", "kernelbench", "level1_1", sample), stages)
    return root


def test_two_devices_without_loss_do_twice_the_work(tmp_path, capsys):
    one, two = run(tmp_path / "one", 1), run(tmp_path / "two", 2)
    found = devices.compare(load([one]), load([two]))
    # 16 stages, one after the other without a pause.
    assert found.one.wall_s == pytest.approx(4 * ROUND_S) and found.many.wall_s == pytest.approx(2 * ROUND_S)
    assert found.one.per_hour == pytest.approx(3600 * 16 / 32)
    assert found.speedup == pytest.approx(2.0) and found.target == pytest.approx(1.9)
    assert [d.stages for d in found.many.devices] == [8, 8]
    assert [d.busy for d in found.many.devices] == pytest.approx([1.0, 1.0])
    first, second = found.many.devices
    assert first.furthest == pytest.approx(4 / 3.9) and second.furthest == pytest.approx(1.0)
    assert devices.main([str(one), str(two), "--json", str(tmp_path / "out.json")]) == 0
    assert "at least 1.9: met" in capsys.readouterr().out


def test_longer_holds_are_seen_and_miss_the_target(tmp_path, capsys):
    one, two = run(tmp_path / "one", 1), run(tmp_path / "two", 2, slower=1.3)
    found = devices.compare(load([one]), load([two]))
    assert found.many.holds["hidden-gate"].median == pytest.approx(3.9)
    assert devices.main([str(one), str(two)]) == 0 and "not met" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ({"gpus": 1}, {"gpus": 2, "candidates": 3}, "is in one run only"),
        ({"gpus": 2}, {"gpus": 2}, "2 and 2 devices"),
        ({"gpus": 1}, {"gpus": 1}, "1 and 1 devices"),
    ],
)
def test_what_does_not_compare_is_said(tmp_path, capsys, first, second, words):
    places = [str(run(tmp_path / name, **told)) for name, told in (("one", first), ("two", second))]
    assert devices.main(places) == 2
    assert words in capsys.readouterr().err
