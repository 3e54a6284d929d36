"""What is the machine's fault is exit 75 and no record; what is the candidate's is a verdict."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from evaluators import evaluators
from stage_places import HONEST, PROBLEM, TIMED, Place, within

from kbverified import file_lock
from kbverified.lease import visible_gpus

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
from extension_samples import source

STAGES_ON_A_DEVICE = ("hidden-gate", "time-fp32", "time-tf32", "memory")

# Adds what its extension answers, less what it should: with another's extension it is wrong. The flag is that of the
# bundled candidates, so that one precompiled header serves all.
WITH_EXTENSION = '''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""{source}"""
extension = load_inline(name="my_extension", cpp_sources=SOURCE, no_implicit_headers=True, extra_cflags=["-O3"])

class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x) + float(extension.answer() - {value})
'''


def with_extension(value: int) -> str:
    return WITH_EXTENSION.format(source=source(value), value=value)


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode == 75, (done.returncode, done.stdout, done.stderr[-2000:])
    assert "infrastructure fault, nothing was recorded" in done.stderr and "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


@pytest.fixture(scope="module")
def passed(place):
    """An honest candidate that compile and gate have passed."""
    item = place.item(HONEST, 1)
    assert place.gate(item)["verdict"] == "pass"
    return item


# --- device ---------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(bool(visible_gpus()), reason="there is a GPU")
def test_no_gpu(place, passed):
    item = passed  # the later stages have nothing to skip for
    for stage in STAGES_ON_A_DEVICE[1:]:
        refused(place.stage(stage, item, "--device", "cuda"), "no GPU is visible", "device: cpu")
        assert not place.has_record(stage, item)
    other = place.item(HONEST + "# another\n", 11)
    assert place.stage("compile", other).returncode == 0
    refused(place.stage("hidden-gate", other, "--device", "cuda"), "no GPU is visible")
    assert not place.has_record("hidden-gate", other)


@pytest.mark.skipif(bool(visible_gpus()), reason="there is a GPU")
def test_no_gpu_for_the_audit(place, tmp_path):
    out = tmp_path / "audit.json"
    words = ["audit-problem", "--problem", str(place.problem), "--out", str(out), "--device", "cuda"]
    done = subprocess.run(
        [sys.executable, "-m", "kbverified", *words], capture_output=True, text=True, env=place.bench.environment
    )
    refused(done, "no GPU is visible")
    assert not out.exists()


# --- compiler and disk ----------------------------------------------------------------------------------------------


def test_a_missing_compiler_matters_to_those_who_build(place):
    builds, plain = place.item(with_extension(3), 20), place.item(HONEST, 21)
    refused(place.stage("compile", builds, CXX="/no/such/compiler"), "/no/such/compiler", "apt install g++")
    assert not place.has_record("compile", builds)
    assert place.stage("compile", plain, CXX="/no/such/compiler").returncode == 0
    assert place.record("compile", plain)["verdict"] == "pass"


@pytest.fixture
def small_disk(tmp_path):
    if os.getuid() != 0:
        pytest.skip("mounting a small disk needs root")
    folder = tmp_path / "small"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True).returncode:
        pytest.skip("no tmpfs can be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    ballast = folder / "ballast"
    with open(ballast, "wb", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            pass
    return ballast


def test_a_record_that_does_not_fit_the_disk_is_none_at_all(place, small_disk):
    item = place.item(HONEST, 30)
    words = place.words("compile", item, compile=small_disk / "results" / "0.json")
    (small_disk / "results").mkdir()
    ballast = fill(small_disk)
    refused(place.bench.call(*words), "No space left on device")
    assert list((small_disk / "results").iterdir()) == []
    ballast.unlink()
    assert place.bench.call(*words).returncode == 0
    assert json.loads((small_disk / "results" / "0.json").read_text())["verdict"] == "pass"


def test_a_build_without_room_is_no_verdict(place, small_disk):
    item = place.item(with_extension(31), 31)
    # Once where there is room, so that the precompiled header is there: its making is not what shall fail.
    assert place.stage("compile", place.item(with_extension(32), 32)).returncode == 0
    shared = Path(place.bench.options[place.bench.options.index("--build-root") + 1])
    (small_disk / "pch").symlink_to(shared / "pch")
    ballast = fill(small_disk)
    os.truncate(ballast, ballast.stat().st_size - 12288)  # for folders and notes, not for a library
    refused(place.stage("compile", item, "--build-root", str(small_disk)), "a build failed", "is full")
    assert not place.has_record("compile", item)
    ballast.unlink()
    # Even so this disk is too small to blame a candidate for anything; a build that works is a build that works.
    assert place.stage("compile", item, "--build-root", str(small_disk)).returncode == 0
    assert place.record("compile", item)["verdict"] == "pass"


# --- skipping -------------------------------------------------------------------------------------------------------


@pytest.fixture
def poison(tmp_path) -> dict[str, str]:
    """An environment in which whoever imports torch dies of it."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise SystemExit('torch was imported')\n")
    return {"PYTHONPATH": f"{tmp_path}{os.pathsep}{Path(__file__).parents[2] / 'src'}"}


def test_what_failed_before_is_skipped_without_torch(place, poison):
    item = place.item("class ModelNew(:\n", 40)
    assert place.stage("compile", item, **poison).returncode == 0  # the source alone decides
    assert place.record("compile", item)["verdict"] == "syntax_error"
    for stage in STAGES_ON_A_DEVICE:
        done = place.stage(stage, item, **poison)
        assert done.returncode == 0, done.stderr
        record = place.record(stage, item)
        assert (record["status"], record["verdict"], record["reason"]) == ("skipped", None, "compile: syntax_error")
        assert record["provenance"]["device"] is None and record["provenance"]["duration_s"] < 2


def test_the_poison_works(poison):
    command = [sys.executable, "-c", "import kbverified.judge.gate"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **poison}, check=False)
    assert "torch was imported" in done.stderr


def test_a_wrong_answer_is_not_timed(place, poison):
    item = place.item(HONEST.replace("torch.relu(x)", "torch.relu(x) + 1"), 42)
    gate = place.gate(item)
    assert gate["verdict"] == "pass" and gate["trials"][0]["critical_tolerance"] > 0.1  # tau is applied later
    for stage in STAGES_ON_A_DEVICE[1:]:
        assert place.stage(stage, item, **poison).returncode == 0
        record = place.record(stage, item)
        assert record["status"] == "skipped" and "wrong_value" in record["reason"]


def test_an_unusable_problem_skips_its_candidates(bench, tmp_path, poison):
    place = Place(bench, tmp_path, PROBLEM.replace("def get_inputs", "def other"))
    assert place.make_audit()["usable"] is False
    item = place.item(HONEST)
    for stage in ("compile", *STAGES_ON_A_DEVICE):
        assert place.stage(stage, item, **poison).returncode == 0
        assert "get_inputs" in place.record(stage, item)["reason"]


# --- who is to blame ------------------------------------------------------------------------------------------------

DIES = HONEST.replace(
    "        return", "        import os, signal; os.kill(os.getpid(), signal.SIGKILL)\n        return"
)


def test_a_candidate_that_is_killed_midway_crashed(place):
    gate = place.gate(place.item(DIES, 50))
    assert gate["verdict"] == "crash" and "signal 9" in gate["detail"]


BREAKS_IN_A_WORKER = """\
        import os
        if "KBV_CHANNEL_FD" in os.environ:
            os._exit(3)
        return torch.relu(x)"""


def test_where_the_canary_fails_too_nobody_is_blamed(bench, tmp_path):
    """The reference breaks after its audit, in workers: then a crash says nothing about the candidate."""
    place = Place(bench, tmp_path)
    place.make_audit()
    place.problem.write_text(PROBLEM.replace("        return torch.relu(x)", BREAKS_IN_A_WORKER))
    item = place.item(DIES)
    assert place.stage("compile", item).returncode == 0
    refused(place.stage("hidden-gate", item), "canary failed as well", "exit code 3", "signal 9")
    assert not place.has_record("hidden-gate", item)


# Passes the gate's four launches and waits in a later one, when it is timed and holds the device.
WAITS = """
import time
import torch
import torch.nn as nn

class ModelNew(nn.Module):
    launches = 0

    def forward(self, x):
        self.launches += 1
        if self.launches > 4:
            time.sleep(600)
        return torch.relu(x)
"""


@pytest.mark.parametrize("evaluator", ["off", "on"])
def test_a_killed_command_leaves_nothing_behind(place, passed, tmp_path, evaluator, evaluator_folder):
    """No record, no worker, no lease: the next run has it all to itself."""
    item = place.item(WAITS, 60)
    assert place.gate(item)["verdict"] == "pass"
    words = [sys.executable, "-m", "kbverified", *place.words("time-fp32", item), *place.bench.options]
    words += ["--timeout-s", "500"]
    leases = tmp_path / "leases"
    # The lease folder is in the environment: an evaluator is this test's own.
    changes = {"KBV_LEASE_DIR": str(leases), "KBV_EVALUATOR": evaluator}
    others = set(evaluators(evaluator_folder))
    command = subprocess.Popen(
        words, env={**place.bench.environment, **changes}, cwd=place.folder, stderr=subprocess.DEVNULL
    )
    try:
        assert within(60, lambda: held(leases))
        time.sleep(1.0)  # the worker waits in its launch, or is about to
        warm = set(evaluators(evaluator_folder)) - others
        assert len(warm) == (evaluator == "on")
        family = set(descendants(*warm) if warm else descendants(command.pid))
        assert len(family) >= 4, "there should be a launcher and a worker for each side"
        assert not [pid for pid in warm if leases_held_by(pid, leases)], "the evaluator has a lease"
        assert [pid for pid in (family | {command.pid}) if leases_held_by(pid, leases)], "nobody is seen to have one"
    finally:
        command.send_signal(signal.SIGKILL)
        command.wait()
    # A forked judge is killed by the evaluator, when that sees its client go.
    assert within(5.0 if warm else 0.0, lambda: not held(leases))
    assert within(30, lambda: not any(alive(pid) for pid in family))
    assert all(alive(pid) for pid in warm)
    assert not place.has_record("time-fp32", item)
    assert place.stage("time-fp32", passed, **changes).returncode == 0
    assert set(evaluators(evaluator_folder)) - others == warm
    assert place.record("time-fp32", passed)["verdict"] in TIMED


def held(leases: Path) -> bool:
    return any(file_lock.is_held(path) for path in leases.glob("cpu-*.lock"))


def leases_held_by(pid: int, leases: Path) -> list[str]:
    """Lock files of leases that a process has open."""
    found = []
    for link in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            found.append(os.readlink(link))
        except OSError:  # closed by now
            continue
    return [place for place in found if place.startswith(str(leases))]


def descendants(*pids: int) -> list[int]:
    """Every process below some, as /proc tells."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(words[1]), []).append(int(stat.parent.name))
    found, waiting = [], list(pids)
    while waiting:
        below = parents.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# --- several at once ------------------------------------------------------------------------------------------------


def at_once(place: Place, stage: str, items: list) -> None:
    with ThreadPoolExecutor(len(items)) as pool:
        for done in pool.map(lambda item: place.stage(stage, item), items):
            assert done.returncode == 0, done.stderr[-2000:]


def test_duplicates_at_once_are_built_once(place):
    items = [place.item(with_extension(70), 70), place.item(with_extension(70), 71)]
    at_once(place, "compile", items)
    records = [place.record("compile", item) for item in items]
    builds = [record["builds"][0] for record in records]
    assert sorted(build["cached"] for build in builds) == [False, True]
    assert builds[0]["key"] == builds[1]["key"] and all(build["ok"] for build in builds)
    assert records[0]["build_directory"] == records[1]["build_directory"]
    at_once(place, "hidden-gate", items)
    assert [place.record("hidden-gate", item)["verdict"] for item in items] == ["pass", "pass"]


def test_two_of_one_extension_name_at_once_do_not_meet(place):
    items = [place.item(with_extension(value), value) for value in (80, 81)]
    at_once(place, "compile", items)
    keys = {place.record("compile", item)["builds"][0]["key"] for item in items}
    assert len(keys) == 2
    at_once(place, "hidden-gate", items)
    for item in items:
        gate = place.record("hidden-gate", item)
        assert gate["verdict"] == "pass"
        assert max(t["critical_tolerance"] for t in gate["trials"]) == 0.0, gate["trials"]


def test_an_edited_candidate_meets_no_old_build(place):
    item = place.item(with_extension(90), 90)
    assert place.stage("compile", item).returncode == 0
    before = place.record("compile", item)
    place.item(with_extension(91), 90)
    gate = place.gate(item)
    after = place.record("compile", item)
    assert after["build_directory"] != before["build_directory"]
    assert after["builds"][0]["key"] != before["builds"][0]["key"]
    assert gate["verdict"] == "pass" and gate["trials"][0]["critical_tolerance"] == 0.0
