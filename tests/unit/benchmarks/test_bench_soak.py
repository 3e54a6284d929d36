"""The soak's own judgement: what it takes for a leak, and for two verdicts on one file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import soak, soak_report
from benchmarks.soak_samples import LIMITS_KIB, growths


def samples(rss_kib: list[float], descriptors: list[int] | None = None) -> list[dict[str, Any]]:
    """One evaluator, as read back from JSON."""
    return [
        {"done": 10 * i, "processes": 5, "zombies": 0, "snakemake": {}, "judges": [100_000],
         "evaluator": {"7": {"rss_kib": rss, "descriptors": descriptors[i] if descriptors else 9}}}
        for i, rss in enumerate(rss_kib)
    ]  # fmt: skip


def grown(found: list[dict[str, Any]]) -> set[str]:
    return {growth.what for growth in growths(found) if growth.grows}


def test_what_a_start_takes_and_noise_are_no_growth() -> None:
    start = [1000.0, 150_000.0] + [200_000.0 + 500 * (i % 3) for i in range(28)]
    assert grown(samples(start)) == set()


def test_a_leak_is_seen_with_its_size() -> None:
    step = LIMITS_KIB["evaluator"] / 10
    leaking = samples([200_000 + step * i for i in range(30)])
    assert grown(leaking) == {"evaluator, resident"}
    (told,) = [str(growth) for growth in growths(leaking) if growth.grows]
    # Medians of samples 6 to 11 and 24 to 29, whose candidates are 10 apart.
    assert (
        told
        == f"evaluator, resident: {200_000 + step * 8.5:,.0f} to {200_000 + step * 26.5:,.0f} KiB over 230 candidates"
    )


def test_descriptors_of_clients_come_and_go_and_those_that_stay_are_a_leak() -> None:
    busy = [9 + 2 * (i % 5) for i in range(30)]
    assert grown(samples([200_000.0] * 30, busy)) == set()
    assert grown(samples([200_000.0] * 30, [n + i // 3 for i, n in enumerate(busy)])) == {"evaluator, descriptors"}


def test_copies_spread_over_generators_and_keep_their_origin(tmp_path: Path) -> None:
    origins = soak._copies(tmp_path, ["a", "b"], 150)
    assert len(origins) == 150
    assert {tail.split("/")[0] for tail in origins} == {"a", "b"}
    for tail, origin in origins.items():
        assert (tmp_path / "generations" / f"{tail}.py").read_bytes() == (
            soak.PROJECT / "generations" / origin
        ).read_bytes()
    dear = [origin for origin in origins.values() if _expected(origin) == "timeout"]
    assert len(dear) == 1, "once in so many rounds"


def _expected(origin: str) -> str | None:
    metadata = (soak.PROJECT / "generations" / origin).with_suffix(".json").read_text()
    return json.loads(metadata).get("expected_verdict")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A soak of two copies of one file, through."""
    tails = [f"soak-0/bundled/level1_1/{i}" for i in range(2)]
    for tail in tails:
        for stage in soak_report.STAGES:
            path = tmp_path / f"project/results/{stage}/{tail}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"status": "ok", "verdict": "pass"}))
        source = tmp_path / f"project/generations/{tail}.json"
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text("{}")
    (tmp_path / "project/results/leaderboard.json").write_text("{}")
    (tmp_path / "origins.json").write_text(json.dumps(dict.fromkeys(tails, "bundled-honest/bundled/level1_1/1.py")))
    (tmp_path / "snakemake.log").write_text("")
    segment = {"ended": "exit code 0", "duration_s": 60.0, "cpu_s": 3.0, "candidates": 2, "cores": 2, "left_behind": []}
    (tmp_path / "segments.jsonl").write_text(json.dumps({**segment, "samples": samples([1.0] * 30)}) + "\n")
    return tmp_path


def rewrite(work: Path, stage: str, **fields: object) -> None:
    path = work / f"project/results/{stage}/soak-0/bundled/level1_1/1.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def test_a_quiet_run_finds_nothing(work: Path) -> None:
    summary = soak_report.summarise(work)
    assert summary["through"] and summary["found"] == [] and summary["records_missing"] == 0
    assert (summary["candidates_a_minute"], summary["cpu_seconds_a_candidate"]) == (2.0, 1.5)
    assert "Found: nothing." in soak_report.markdown(summary)


def test_two_verdicts_on_one_file_are_found(work: Path) -> None:
    rewrite(work, "hidden-gate", verdict="crash")
    (found,) = soak_report.summarise(work)["found"]
    assert (
        found == "identical candidates differ: bundled-honest/bundled/level1_1/1.py, hidden-gate: 1 ok pass, 1 ok crash"
    )


def test_a_busy_cpu_gives_no_time_and_that_is_no_difference(work: Path) -> None:
    rewrite(work, "time-fp32", verdict="unstable")
    summary = soak_report.summarise(work)
    assert summary["found"] == [] and summary["timings_without_a_time"] == 1


def test_what_is_left_and_what_is_missing(work: Path) -> None:
    (work / "project/results/memory/soak-0/bundled/level1_1/1.json").unlink()
    text = (work / "segments.jsonl").read_text()
    (work / "segments.jsonl").write_text(text.replace('"left_behind": []', '"left_behind": ["process 7: sleep"]'))
    summary = soak_report.summarise(work)
    assert not summary["through"] and summary["records_missing"] == 1
    assert summary["found"] == ["left behind: process 7: sleep"]
