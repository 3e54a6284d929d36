"""The runs of an A/A study: in which order, what is made once, what an earlier call leaves, that it ends in time."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from benchmarks import aa, aa_chains, aa_run, aa_tree, run_records, stage_calls
from benchmarks.references import GENERATOR
from kbverified import archive, source_digest
from kbverified.keys import CandidateKey
from kbverified.merge_records import merge

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[2]
SOURCE = "class Model:\n    pass  # {}\n"
ONCE = ["audit-problem", "compile", "hidden-gate"]
TIMES = ["time-fp32", "time-tf32"]


class Study:
    """Four problems, a plan for the command that stands for the stages, and what it was called for."""

    def __init__(self, root: Path):
        self.root = root
        self.problems = root / "problems" / "some-suite"
        self.problems.mkdir(parents=True)
        for number in range(1, 5):
            (self.problems / f"level1_{number}.py").write_text(SOURCE.format(number))
        self.plan()

    def plan(self, **what: list[str]) -> None:
        (self.root / "plan.json").write_text(json.dumps(what))

    def run(self, *words: str, out: str = "out") -> int:
        (self.root / "calls").unlink(missing_ok=True)
        told = ["--problems", str(self.problems), "--out", str(self.root / out), "--device", "cpu", *words]
        return aa_run.main(told)

    def calls(self) -> list[tuple[str, str, str]]:
        path = self.root / "calls"
        return [tuple(line.split()) for line in path.read_text().splitlines()] if path.exists() else []

    def records(self, out: str = "out") -> set[str]:
        found = archive.read(self.root / out / "records-aa.tar.xz")
        return {place.name for place, _ in found if place.kind in ("audit", "record")}


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    command = (sys.executable, str(HERE / "fake_stage.py"), str(tmp_path / "plan.json"))
    monkeypatch.setattr(stage_calls, "COMMAND", command)
    return Study(tmp_path)


def report(path: Path) -> dict:
    (data,) = [data for place, data in archive.read(path) if place.kind == "report"]
    return json.loads(data)


def test_every_problem_once_before_any_twice_and_all_but_the_times_only_once(study: Study, capsys):
    assert study.run("--samples", "3", "--jobs", "1") == 0
    order = [problem for stage, problem, sample in study.calls() if (stage, sample) == ("time-fp32", "0")]
    assert sorted(order) == [f"level1_{n}" for n in range(1, 5)] and order != sorted(order)
    expected = [(stage, problem, "0") for problem in order for stage in ONCE + TIMES]
    expected += [(stage, problem, sample) for sample in "12" for problem in order for stage in TIMES]
    assert study.calls() == expected
    assert "24 of 24 timing records are there, 0 are missing" in capsys.readouterr().out

    path = study.root / "out" / "records-aa.tar.xz"
    repeats = aa.repeats(run_records.load([path]))
    assert len(repeats) == 24 and {one.ratio for one in repeats} == {1.0}
    assert aa.main([str(path)]) == 0
    merged = merge([path], study.root / "merged")
    assert merged.counts["new"] == 4 * (3 + 3 * 2 + 3) and not merged.messages, "metadata of each sample too"


def test_the_order_is_the_seeds_and_not_the_choices(study: Study, tmp_path: Path):
    names = [str(key) for key in aa_run.chosen(study.problems, None, 1)]
    assert names == [str(key) for key in aa_run.chosen(study.problems, None, 1)]
    assert len({tuple(map(str, aa_run.chosen(study.problems, None, seed))) for seed in range(9)}) > 3
    listed = tmp_path / "list.txt"
    listed.write_text("\n".join(sorted(names[1:])))
    assert [str(key) for key in aa_run.chosen(study.problems, listed, 1)] == names[1:]


def test_what_cannot_be_timed_is_said_and_left_out(study: Study, capsys):
    (study.problems / "level1_1.py").write_text("class Other: pass\n")
    study.plan(unusable=["level1_2"], fails=["level1_3"])
    assert study.run("--samples", "2") == 0
    told = capsys.readouterr().out
    assert "some-suite/level1_1: its reference is no candidate" in told
    assert "some-suite/level1_2: the problem is not usable: raises" in told
    assert "some-suite/level1_3: hidden-gate: runtime_error: forward raised" in told
    assert {problem for stage, problem, _ in study.calls() if stage in TIMES} == {"level1_4"}
    assert len([call for call in study.calls() if call[1:] == ("level1_3", "0")]) == 3, "once, not for each sample"
    assert study.run("--samples", "2") == 0
    assert study.calls() == [] and "hidden-gate: runtime_error" in capsys.readouterr().out


def test_a_call_goes_on_with_what_is_missing_and_makes_nothing_twice(study: Study, capsys):
    study.plan(faults=["time-tf32 level1_2"])
    assert study.run("--samples", "2") == 1
    assert "level1_2/1.json: exit 75: no such device" in capsys.readouterr().out
    first = study.root / "out" / "records-aa.tar.xz"
    study.plan()
    assert study.run("--samples", "2", "--resume", str(first), out="elsewhere") == 0
    assert sorted(study.calls()) == [("time-tf32", "level1_2", "0"), ("time-tf32", "level1_2", "1")]
    assert study.records("elsewhere") > study.records()
    # Without its archive, a folder goes on from its records; without them, from its archive.
    first.unlink()
    assert study.run("--samples", "2") == 0 and len(study.calls()) == 2
    (study.root / "out" / "work").rename(study.root / "gone")
    assert study.run("--samples", "2") == 0 and study.calls() == []


@pytest.mark.parametrize("where", ["archive", "folder"])
def test_what_another_code_source_or_budget_made_is_made_again(study: Study, where: str, monkeypatch, capsys):
    assert study.run("--samples", "1") == 0
    first = study.root / "out" / "records-aa.tar.xz"
    away = first.rename(study.root / "away.tar.xz")
    more = ["--samples", "1", *(["--resume", str(away)] if where == "archive" else [])]
    out = "elsewhere" if where == "archive" else "out"

    true = source_digest.digest
    monkeypatch.setattr(source_digest, "digest", lambda stage: "0" * 64 if stage == "time-tf32" else true(stage))
    assert study.run(*more, out=out) == 0
    assert {call[0] for call in study.calls()} == {"time-tf32"} and len(study.calls()) == 4
    if where == "archive":
        assert "left out: 4 of other or unknown code" in capsys.readouterr().out
        return
    first.unlink()
    assert study.run(*more, "--timing-budget-s", "0.3") == 0
    assert [call[0] for call in study.calls()] == TIMES * 4
    first.unlink()
    more += ["--timing-budget-s", "0.3"]
    (study.problems / "level1_3.py").write_text(SOURCE.format("edited"))
    assert study.run(*more) == 0
    assert [call[:2] for call in study.calls()] == [(stage, "level1_3") for stage in ONCE + TIMES]


def test_an_archive_of_whatever_code_is_not_gone_on_from(study: Study):
    assert study.run("--samples", "1") == 0
    path = study.root / "out" / "records-aa.tar.xz"
    members = {place.name: data for place, data in archive.read(path) if place.kind != "report"}
    (unknown,), _ = archive.write(study.root, "unknown", members)
    assert study.run("--samples", "1", "--resume", str(unknown), out="elsewhere") == 0
    assert len(study.calls()) == 4 * 5


def test_no_archive_is_replaced_by_one_that_holds_less(study: Study, capsys):
    assert study.run("--samples", "2") == 0
    before = (study.root / "out" / "records-aa.tar.xz").read_bytes()
    assert study.run("--samples", "1") == 2
    told = capsys.readouterr().err
    assert "records-aa.tar.xz: a new archive would replace it and not hold 8 of its records (8 not asked for)" in told
    assert (study.root / "out" / "records-aa.tar.xz").read_bytes() == before


@pytest.mark.parametrize("by", ["time", "signal"])
def test_it_ends_in_time_with_an_archive_and_leaves_nothing_running(study: Study, by: str, monkeypatch, capsys):
    monkeypatch.setattr(aa_chains, "START_NOTHING_S", 4.0)
    monkeypatch.setattr(aa_run, "START_NOTHING_S", 4.0)
    monkeypatch.setattr(aa_chains, "KILL_S", 2.0)
    monkeypatch.setattr(aa_chains, "PROGRESS_EVERY_S", 0.5)
    study.plan(hangs=[aa_run.chosen(study.problems, None, 1)[1].problem])
    minutes = 0.2 if by == "time" else 5.0
    pids = study.root / "pids"

    def tell() -> None:
        while not pids.exists():
            time.sleep(0.1)
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)

    if by == "signal":
        threading.Thread(target=tell, daemon=True).start()
    start_s = time.monotonic()
    assert study.run("--samples", "1", "--jobs", "1", "--minutes", str(minutes)) == 1
    assert time.monotonic() - start_s < (12.0 if by == "time" else 30.0)
    for pid in pids.read_text().split():
        assert not Path(f"/proc/{pid}").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert len(study.calls()) == 10, "the two after it are not started"
    assert len(study.records()) == 9, "two problems, without the time that hung"
    told = report(study.root / "out" / "records-aa.tar.xz")
    assert told["stopped"] == ("jobs killed" if by == "time" else "SIGTERM") and told["missing"] == 11
    assert "3 of 8 timing stages are done" in capsys.readouterr().out


def test_nothing_is_started_that_would_not_end_in_time(study: Study, monkeypatch):
    monkeypatch.setattr(aa_chains, "START_NOTHING_S", 50.0)
    assert study.run("--minutes", "0.8") == 1
    assert study.calls() == [] and study.records() == set()
    assert report(study.root / "out" / "records-aa.tar.xz")["stopped"] == "asked"


def test_packing_gets_the_time_that_it_needs(tmp_path: Path):
    tree = aa_tree.Tree(tmp_path, 4, "cpu", 1.5)
    now_s = time.monotonic()
    assert aa_chains.Clock(now_s, 1.0, tree).may_start()
    tree.size_bytes = 40_000_000  # 2,000 timing records
    assert not aa_chains.Clock(now_s, 1.0, tree).may_start()
    assert not aa_chains.Clock(now_s, 1.0, tree).cut_off()
    tree.size_bytes = 60_000_000
    assert aa_chains.Clock(now_s, 1.0, tree).cut_off()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--samples", "0"], "--samples 0: at least 1"),
        (["--minutes", "0.5"], "--minutes 0.5 leaves no time"),
        (["--list", "LIST"], "some-suite/level1_9 is not in"),
        (["--resume", "NOWHERE.tar.xz"], "NOWHERE.tar.xz"),
        (["--problems", "."], "no level*_*.py in it"),
    ],
)
def test_bad_input_is_named_and_nothing_runs(study: Study, words: list[str], told: str, monkeypatch, capsys):
    monkeypatch.chdir(study.root)
    Path("LIST").write_text("some-suite/level1_9\n")
    assert study.run(*words) == 2
    assert told in capsys.readouterr().err and study.calls() == []


def test_a_bundled_reference_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.setenv("KBV_EVALUATOR_IDLE_S", "2")
    (tmp_path / "list.txt").write_text("bundled/level1_1\n")
    words = ["--problems", str(PROJECT / "problems" / "bundled"), "--list", str(tmp_path / "list.txt")]
    words += ["--out", str(tmp_path / "out"), "--device", "cpu", "--timing-budget-s", "0.2", "--samples", "2"]
    assert aa_run.main(words) == 0, capsys.readouterr().out
    run = run_records.load([tmp_path / "out" / "records-aa.tar.xz"])
    times = [record for stage in TIMES for _, record in run.of(stage)]
    assert len(times) == 4 and {record.provenance.evaluator for record in times} == {True}
    assert ("hidden-gate", CandidateKey(GENERATOR, "bundled", "level1_1", 1)) not in run.stages
    assert all(0.5 < one.ratio < 2.0 for one in aa.repeats(run) if one.ratio is not None)
