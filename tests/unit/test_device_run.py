"""device-run on a small real workflow: in time, packed whatever happens, and going on without doing work twice."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import archive_samples as samples
import pytest

from kbverified import archive, device_run, run_state
from kbverified.deadline import run_until
from kbverified.device_run import ListError, Plan, parse_shard, plan_shard, read_list
from kbverified.keys import STAGES, CandidateKey, ProblemKey

ONE = CandidateKey("gen", "kernelbench", "level1_19", 0)
TWO = CandidateKey("gen", "kernelbench", "level2_12", 0)

# Jobs that write the records of archive_samples, at the places and with the inputs of the real workflow.
SNAKEFILE = """
configfile: "config.yaml"
STAGES = ["compile", "hidden-gate", "time-fp32", "time-tf32", "memory"]
def earlier(stage):
    return ["results/problems/{suite}/{problem}.json"] + [
        "results/%s/{generator}/{suite}/{problem}/{sample}.json" % s for s in STAGES[:STAGES.index(stage)]
    ]
rule audit:
    input: "problems/{suite}/{problem}.py"
    output: "results/problems/{suite}/{problem}.json"
    log: "logs/problems/{suite}/{problem}.log"
    shell: "PYTHON make_record.py {output} > {log} 2>&1"
rule ceilings:
    output: "results/ceilings/cpu.json"
    shell: "PYTHON make_record.py {output}"
for stage in STAGES:
    rule:
        name: stage
        input: "generations/{generator}/{suite}/{problem}/{sample}.py", "problems/{suite}/{problem}.py", *earlier(stage)
        output: f"results/{stage}/{{generator}}/{{suite}}/{{problem}}/{{sample}}.json"
        log: f"logs/{stage}/{{generator}}/{{suite}}/{{problem}}/{{sample}}.log"
        params: code=config["code"].get(stage)
        shell: "PYTHON make_record.py {output} > {log} 2>&1"
"""
MAKE_RECORD = """
import sys, time
from datetime import datetime, timezone
from pathlib import Path
sys.path.insert(0, SAMPLES)
from kbverified.archive import place
here = Path(".")
found = place(sys.argv[1])
if found.kind == "ceilings":
    import archive_samples as samples
    from kbverified.records.files import write
    write(here / found.name, samples.ceilings())
    sys.exit()
with open("ran.txt", "a") as file:
    file.write(sys.argv[1] + "\\n")
hang = Path("hang").read_text().split() if Path("hang").exists() else []
if found.name in hang:
    print("hanging", flush=True)
    time.sleep(600)
import archive_samples as samples
from kbverified.records.files import write
now = datetime.now(timezone.utc).isoformat()
if found.candidate is None:
    write(here / found.name, samples.audit(here, found.problem, now))
else:
    write(here / found.name, samples.stage_record(here, found.stage, found.candidate, now))
"""


def make_tree(root: Path) -> Path:
    """A checkout on a fresh machine: sources, workflow, list, nothing else."""
    root.mkdir()
    for key in (ONE, TWO):
        samples.write_sources(root, key)
    root.joinpath("Snakefile").write_text(SNAKEFILE.replace("PYTHON", sys.executable))
    folder = str(Path(samples.__file__).parent)
    root.joinpath("make_record.py").write_text(MAKE_RECORD.replace("SAMPLES", repr(folder)))
    root.joinpath("config.yaml").write_text("code: {}\n")
    root.joinpath("list.txt").write_text(f"{ONE}\n{TWO}  # with an epilogue\n")
    return root


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = make_tree(tmp_path / "first")
    monkeypatch.chdir(root)
    return root


def call(*words: str) -> int:
    parser = argparse.ArgumentParser()
    device_run.add_parser(parser.add_subparsers())
    args = parser.parse_args(["device-run", "--list", "list.txt", "--out", "out", "--config", "config.yaml", *words])
    return args.run(args)


def ran(root: Path) -> list[str]:
    path = root / "ran.txt"
    return path.read_text().split() if path.exists() else []


def contents(path: Path) -> dict[str, bytes]:
    return {found.name: data for found, data in archive.read(path)}


# --- the list -----------------------------------------------------------------------------------------------
def test_shards_split_the_problems_and_keep_candidates_together() -> None:
    problems = [ProblemKey("kernelbench", f"level1_{n}") for n in (7, 3, 9)]
    candidates = [
        CandidateKey(generator, "kernelbench", f"level1_{number}", 0)
        for number in (3, 5, 7, 11)
        for generator in ("a", "b")
    ]
    plans = [plan_shard(problems, candidates, (i, 3)) for i in (1, 2, 3)]
    assert [[key.number for key in plan.audits] for plan in plans] == [[7, 5], [3, 11], [9]]
    assert sorted(key for plan in plans for key in plan.candidates) == sorted(candidates)
    for plan in plans:
        assert {key.problem_key for key in plan.candidates} <= set(plan.audits)
    only = plan_shard(problems, candidates, (1, 3), evaluate=False)
    assert (only.audits, only.candidates) == (plans[0].audits, ())
    needed = plan_shard(problems, candidates, (1, 3), audits=False)
    assert needed.audits == () and len(needed.targets()) == 4 * len(STAGES)
    assert len(needed.records()) == 4 * len(STAGES) + 2


def test_a_configured_baseline_adds_its_records(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config/config.yaml").write_text("baselines: [ieee]\n")
    (tmp_path / "mine.yaml").write_text("device: cpu\n")
    stages = device_run.stages_of(Path("mine.yaml"), tmp_path)
    plan = plan_shard([], [ONE], (1, 1), audits=False, stages=stages)
    assert plan.targets() == [
        ONE.record_path(s).as_posix()
        for s in ("compile", "hidden-gate", "time-fp32", "time-tf32", "time-ieee", "memory")
    ]
    (tmp_path / "mine.yaml").write_text("baselines: []\n")
    assert device_run.stages_of(Path("mine.yaml"), tmp_path) == STAGES


def test_lists_and_shards_that_cannot_be_run(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text("# only\n\nkernelbench/level1_19\nkernelbench/level1_19\ngen/kernelbench/level1_19/0\n")
    assert read_list(path) == ([ONE.problem_key], [ONE])
    for line, word in (("level1_19", "level1_19"), ("gen/kernelbench/level1_19/x", "0-9|sample"), ("a/b", "problem")):
        path.write_text(f"kernelbench/level1_1\n{line}\n")
        with pytest.raises(ListError, match=rf"list\.txt:2: '{line}'.*({word})"):
            read_list(path)
    path.write_text("# nothing\n")
    with pytest.raises(ListError, match="no problem"):
        read_list(path)
    assert parse_shard("2/3") == (2, 3)
    for text in ("0/3", "4/3", "1", "1/0", "-1/3", "a/b", "1/2/3"):
        with pytest.raises(ListError, match="i/n"):
            parse_shard(text)


def test_bad_input_runs_nothing(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--shard", "3/2") == 2
    assert call("--minutes", "1") == 2
    assert "grace" in capsys.readouterr().err
    ONE.source_path(tree).unlink()
    assert call() == 2
    assert "generations/gen/kernelbench/level1_19/0.py is not there" in capsys.readouterr().err
    samples.write_sources(tree, ONE)
    (tree / "bad.tar.xz").write_bytes(b"nothing")
    assert call("--resume", "bad.tar.xz") == 2
    assert "bad.tar.xz" in capsys.readouterr().err
    assert ran(tree) == []


# --- a whole run, and going on ------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree in which both shards have run to their end."""
    root = make_tree(tmp_path_factory.mktemp("done") / "first")
    before = os.getcwd()
    os.chdir(root)
    try:
        assert [call("--shard", f"{n}/2") for n in (1, 2)] == [0, 0]
    finally:
        os.chdir(before)
    return root


def test_a_run_packs_every_record_and_a_report(done: Path) -> None:
    first, second = (contents(done / f"out/records-{n}-of-2.tar.xz") for n in (1, 2))
    report = json.loads(first["report.json"])
    assert report["missing"] == 0 and report["stopped"] is None and report["returncode"] == 0
    assert report["counts"] == {"audit-problem": {"usable": 1}} | {stage: {"pass": 1} for stage in STAGES}
    assert report["duration_s"]["time-tf32"] == 12.3
    assert report["packages"]["snakemake"]
    records = {n: d for n, d in (first | second).items() if n.startswith(("results/", "generations/"))}
    assert records == samples.members(done)
    assert not {n for n in first if "level2_12" in n}
    assert "logs/snakemake.log" in first
    assert len(ran(done)) == 2 * 6


def fresh_machine(done: Path, root: Path, monkeypatch: pytest.MonkeyPatch, *kinds: str) -> Path:
    """Another machine with the same sources, newly copied, and archives of these kinds carried along."""
    make_tree(root)
    for kind in kinds:
        for path in done.glob(f"out/{kind}-*.tar.xz"):
            shutil.copy(path, root)
    monkeypatch.chdir(root)
    return root


@pytest.mark.parametrize("kinds", [("records",), ("records", "state")])
def test_a_fresh_machine_redoes_nothing_that_is_done(
    kinds: tuple[str, ...], done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = fresh_machine(done, tmp_path / "second", monkeypatch, *kinds)
    assert call("--resume", *(p.name for p in sorted(root.glob("*.tar.xz")))) == 0
    assert ran(root) == []
    assert samples.members(root) == samples.members(done)
    packed = contents(root / "out/records-1-of-1.tar.xz")
    assert json.loads(packed["report.json"])["restored"] == 12


def test_sources_from_the_future_of_a_clock_that_was_put_back_redo_nothing(
    done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = fresh_machine(done, tmp_path / "second", monkeypatch, "records")
    in_an_hour = time.time() + 3600
    for source in (*root.glob("generations/**/*.py"), *root.glob("problems/**/*.py")):
        os.utime(source, (in_an_hour, in_an_hour))
    assert call("--resume", *(p.name for p in sorted(root.glob("*.tar.xz")))) == 0
    assert ran(root) == []


def test_with_the_state_an_edited_stage_reruns_and_without_it_an_edited_source(
    done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = fresh_machine(done, tmp_path / "second", monkeypatch, "records", "state")
    archives = [p.name for p in sorted(root.glob("*.tar.xz"))]
    (root / "config.yaml").write_text("code: {time-tf32: edited}\n")
    assert call("--resume", *archives) == 0
    assert sorted(ran(root)) == sorted(
        str(key.record_path(stage)) for key in (ONE, TWO) for stage in ("time-tf32", "memory")
    )

    root = fresh_machine(done, tmp_path / "third", monkeypatch, "records")
    ONE.source_path(root).write_text("# edited\n")
    assert call("--resume", *(p.name for p in sorted(root.glob("*.tar.xz")))) == 0
    assert sorted(ran(root)) == sorted(str(ONE.record_path(stage)) for stage in STAGES)


def test_a_candidate_without_its_build_starts_again(
    done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = fresh_machine(done, tmp_path / "second", monkeypatch)
    members = samples.members(done)
    members.pop(ONE.record_path("memory").as_posix())
    (root / "a.tar.xz").write_bytes(archive.pack(members))
    wanted = Plan((), (ONE, TWO)).records()
    restored = run_state.restore([Path("a.tar.xz")], root, wanted)
    assert restored.records == 7
    assert dict(restored.left_out) == {"of incomplete candidates, which start again": 4}
    assert not ONE.record_path("compile").exists()
    # On the machine that still has the build, what is done stays done.
    compiled = json.loads(members[ONE.record_path("compile").as_posix()])
    Path(compiled["build_directory"]).mkdir(parents=True)
    assert run_state.restore([Path("a.tar.xz")], root, wanted).records == 4


def test_the_newest_of_several_archives_is_restored_and_what_is_here_stays(
    done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = fresh_machine(done, tmp_path / "second", monkeypatch)
    members = samples.members(done)
    name = ONE.record_path("memory").as_posix()
    older = json.loads(members[name])
    older["provenance"]["started_at"] = "2020-01-01T00:00:00+00:00"
    (root / "new.tar.xz").write_bytes(archive.pack(members))
    (root / "old.tar.xz").write_bytes(archive.pack(members | {name: json.dumps(older).encode()}))
    run_state.restore([Path("new.tar.xz"), Path("old.tar.xz")], root, list(members))
    assert (root / name).read_bytes() == members[name]
    (root / name).write_bytes(b"here")
    assert run_state.restore([Path("new.tar.xz")], root, list(members)).records == 0
    assert (root / name).read_bytes() == b"here"


# --- time ---------------------------------------------------------------------------------------------------
def test_at_the_limit_jobs_are_cut_off_and_what_is_there_is_packed(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kbverified.deadline._CLEANING_UP_S", 4.0)  # Snakemake needs one or two
    (tree / "list.txt").write_text(f"{ONE}\n")
    (tree / "hang").write_text(ONE.record_path("time-fp32").as_posix())
    begin = time.monotonic()
    assert call("--minutes", "0.3", "--grace-s", "5", "--reserve-s", "2", "--cores", "1") == 1
    assert time.monotonic() - begin < 18
    packed = contents(tree / "out/records-1-of-1.tar.xz")
    report = json.loads(packed["report.json"])
    assert report["stopped"] == "jobs killed"
    assert report["counts"]["hidden-gate"] == {"pass": 1}
    assert report["counts"]["time-fp32"] == {"missing": 1}
    assert report["missing"] >= 2
    assert {ONE.record_path(stage).as_posix() for stage in ("compile", "hidden-gate")} <= set(packed)
    assert packed[f"logs/time-fp32/{ONE.tail}.log"] == b"hanging\n"
    noted = {run_state.noted_output(name) for name in contents(tree / "out/state-1-of-1.tar.xz")}
    assert noted == {name for name in packed if name.startswith("results/")}
    assert not alive("make_record.py")

    (tree / "hang").unlink()
    before = len(ran(tree))
    assert call() == 0  # on the machine that is still warm: what was cut off, and nothing that was done
    again = [Path(name).parts[1] for name in ran(tree)[before:]]
    assert sorted(again) in (["memory", "time-fp32"], ["memory", "time-fp32", "time-tf32"])


def test_told_to_end_it_packs_too(tree: Path) -> None:
    (tree / "hang").write_text(ONE.record_path("compile").as_posix())
    code = f"import sys; sys.path[:0] = {sys.path!r}; import test_device_run as t; sys.exit(t.call())"
    process = subprocess.Popen([sys.executable, "-c", code], cwd=tree)
    try:
        deadline = time.monotonic() + 60
        while not TWO.record_path("memory", tree).exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(1)  # Snakemake takes a moment to see that the job has ended; before, it would clean up after it
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 1
    finally:
        process.kill()
    packed = contents(tree / "out/records-1-of-1.tar.xz")
    assert json.loads(packed["report.json"])["stopped"] == "SIGTERM"
    assert TWO.record_path("memory").as_posix() in packed
    assert not alive("make_record.py")


def test_nothing_that_a_command_started_outlives_it(tmp_path: Path) -> None:
    """Deaf to SIGTERM and SIGINT, and with a child in a session of its own."""
    mark = f"sleeper-{os.getpid()}-{time.time_ns()}"
    child = f"import time; time.sleep(600)  # {mark}"
    deaf = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        f"subprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=True)\n"
        "print('started', flush=True)\n"
        "time.sleep(600)\n"
    )
    begin = time.monotonic()
    with (tmp_path / "log").open("wb") as log:
        ended = run_until([sys.executable, "-c", deaf], stop_at_s=begin + 1, kill_at_s=begin + 2, log=log)
    assert ended.stopped == "killed" and ended.returncode == -signal.SIGKILL
    assert time.monotonic() - begin < 5
    assert (tmp_path / "log").read_bytes() == b"started\n"
    assert not alive(mark)


def test_a_polite_command_is_not_killed(tmp_path: Path) -> None:
    """On SIGTERM Snakemake finishes what runs: that may take until shortly before the limit."""
    polite = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (time.sleep(1), sys.exit(7)))\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)\n"
    )
    begin = time.monotonic()
    with (tmp_path / "log").open("wb") as log:
        ended = run_until([sys.executable, "-c", polite], stop_at_s=begin + 1, kill_at_s=begin + 60, log=log)
    assert (ended.stopped, ended.returncode) == ("asked", 7)
    assert time.monotonic() - begin < 10


def alive(word: str) -> list[str]:
    """Command lines of living processes that contain word."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if word in line and str(os.getpid()) != path.parent.name:
            found.append(line)
    return found
