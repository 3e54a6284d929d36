"""Stages in an evaluator: the same records, nothing kept, never an old process, and nobody left behind."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from chain import STAGES
from evaluators import evaluators
from stage_places import DISHONEST, HONEST, HONEST_BUNDLED, Place, bundled_records, within

ROOT = Path(__file__).parents[2]
# One for each way in which a process can end, and those that look around.
WATCHED = {f"bundled-dishonest/{tail}" for tail in
           ("level1_1/2", "level1_1/9", "level1_1/10", "level1_1/12", "level1_1/13", "level1_1/20", "level1_8/0",
            "level1_8/1", "level3_1/1")}  # fmt: skip


@pytest.fixture(scope="module")
def warm(warm_bench, tmp_path_factory) -> Place:
    made = Place(warm_bench, tmp_path_factory.mktemp("place"))
    made.make_audit()
    return made


# --- the same records -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fresh_records(cold_bench):
    dishonest = [item for item in DISHONEST if item.name in WATCHED]
    assert len(dishonest) == len(WATCHED)
    return bundled_records(cold_bench, dishonest)


@pytest.mark.parametrize("name", [*sorted(WATCHED), *(item.name for item in HONEST_BUNDLED)])
def test_records_are_the_same_with_and_without(fresh_records, records, name):
    fresh, forked = fresh_records[name], records[name]
    assert isinstance(forked, dict), forked
    gate = forked["hidden-gate"]
    assert gate["provenance"]["evaluator"] is (gate["status"] == "ok")  # a skipped one needs nobody
    for stage in STAGES if name.startswith("bundled-honest") else STAGES[:2]:
        assert comparable(forked[stage]) == comparable(fresh[stage]), stage
    if name.startswith("bundled-honest"):
        assert all(comparable(forked[stage])["verdict"] == "pass" for stage in STAGES)


def comparable(value, key=""):
    """A record without what differs from run to run: numbers become their type, paths and moments go."""
    if key in ("started_at", "build_directory", "output_tail", "baseline_disturbed", "evaluator"):
        return None
    if key == "parameters":  # what a law drew, in secret
        return sorted(value)
    if key in ("outputs_verified", "k", "baseline_k", "batches", "outcome"):  # how much was checked depends on the time
        return "some"
    if key == "rounds" and isinstance(value, list):  # their number depends on the time
        return comparable(value[0]) if value else value
    if isinstance(value, dict):
        if value.get("verdict") == "unstable":  # a busy CPU gave no time, which can befall either
            value = {**value, "verdict": "pass", "detail": None}
        return {k: comparable(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [comparable(v, key) for v in value[: 1 if key.endswith("_ms") else None]]
    if isinstance(value, float) or (isinstance(value, int) and key.endswith("_bytes") and "put" not in key):
        return type(value).__name__
    if (isinstance(value, int) and key in ("nan_count", "inf_count")) or key == "first":
        return "any"
    if isinstance(value, str):
        # Addresses, numbers and folders inside messages; the frames below the candidate's are another path.
        return re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?", "N", re.sub(r"/[\w./-]+/", "/", value))[-300:]
    return value


def test_memory_figures_are_of_the_same_size(fresh_records, records):
    """A forked worker shares memory with the evaluator, and it counts as its own all the same."""
    for item in HONEST_BUNDLED:
        for side in ("baseline", "candidate"):
            fresh, forked = (r[item.name]["memory"][side]["device_peak_bytes"] for r in (fresh_records, records))
            assert 0.7 < forked / fresh < 1.5, (item.name, side, fresh, forked)


def test_cpu_seconds_of_a_build_are_its_compilers(fresh_records, records):
    name = next(item.name for item in HONEST_BUNDLED if item.name.endswith("level1_1/0"))
    fresh, forked = (r[name]["compile"]["cpu_seconds"] for r in (fresh_records, records))
    assert 0.3 < forked / fresh < 2.0, (fresh, forked)


# --- what it is keyed by ----------------------------------------------------------------------------------------------


def running(folder: Path) -> set[int]:
    return set(evaluators(folder))


def test_one_serves_all_stages_and_another_allocation_gets_its_own(warm, evaluator_folder):
    item = warm.item(HONEST, 1)
    before = running(evaluator_folder)

    def started(**environment: str) -> set[int]:
        assert warm.gate(item, **environment)["verdict"] == "pass"
        return running(evaluator_folder) - before

    first = started(SLURM_JOB_ID="1", SLURM_JOB_GPUS="0")
    assert len(first) == 1  # compile had nothing to run, the gate did
    assert warm.stage("time-fp32", item, SLURM_JOB_ID="1", SLURM_JOB_GPUS="0").returncode == 0
    assert running(evaluator_folder) - before == first
    second = started(SLURM_JOB_ID="2", SLURM_JOB_GPUS="0")
    assert first < second and len(second) == 2
    assert started(SLURM_JOB_ID="1", SLURM_JOB_GPUS="0") == second  # the first allocation's is still its own
    assert len(started(SLURM_JOB_ID="2", SLURM_JOB_GPUS="0", CUDA_VISIBLE_DEVICES="1")) == 3


def test_what_torch_would_read_at_import_is_no_hindrance_and_reaches_no_judge(warm):
    """Seen on the H200 machine, which sets one of these for everybody."""
    item = warm.item(f"{HONEST}# with variables\n", 30)
    assert warm.stage("compile", item).returncode == 0
    done = warm.stage("hidden-gate", item, TORCH_SYMM_MEM_DISABLE_MULTICAST="1", OMP_PROC_BIND="false")
    assert done.returncode == 0 and "runs without" not in done.stderr
    assert "not handed to torch, as in every worker: OMP_PROC_BIND, TORCH_SYMM_MEM_DISABLE_MULTICAST" in done.stderr
    assert warm.record("hidden-gate", item)["provenance"]["evaluator"] is True


def test_an_edit_of_the_code_never_meets_an_old_process(warm, tmp_path):
    sources = tmp_path / "src"
    shutil.copytree(ROOT / "src" / "kbverified", sources / "kbverified", ignore=shutil.ignore_patterns("__pycache__"))
    item = warm.item(HONEST, 2)
    environment = {"PYTHONPATH": str(sources)}
    seen = []
    for version in ("0.1.0+first", "0.1.0+second"):
        (sources / "kbverified" / "__init__.py").write_text(f'__version__ = "{version}"\n')
        record = warm.gate(item, **environment)
        assert record["verdict"] == "pass"
        seen.append(record["provenance"]["package_version"])
    assert seen == ["0.1.0+first", "0.1.0+second"]


# --- nothing is kept --------------------------------------------------------------------------------------------------


def reversed_pattern(text: str) -> str:
    """Python that makes a pattern for a text without having it in memory."""
    return f"re.compile(''.join('[' + c + ']' for c in reversed({text[::-1]!r})).encode())"


LOOKS = """
import re
import torch
import torch.nn as nn

KEPT = "{own}"

def count(pattern):
    found = 0
    areas = [line.split() for line in open("/proc/self/maps")]
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        for area in areas:
            if area[1].startswith("r") and "[v" not in area[-1]:
                start, end = (int(a, 16) for a in area[0].split("-"))
                try:
                    memory.seek(start)
                    found += len(pattern.findall(memory.read(end - start)))
                except (OSError, OverflowError):
                    pass
    return found

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        print("OWN", count({own_pattern}) > 0, "SECRET", count({secret}), "OTHER", count({other}), flush=True)

    def forward(self, x):
        return torch.relu(x)
"""


def test_neither_worker_nor_evaluator_holds_what_is_not_theirs(warm, evaluator_folder):
    """A variable of the client's, an earlier candidate's text, and the problem: looked for in all of their memory."""
    key, first, second, other = (secrets.token_hex(16) for _ in range(4))
    settings = {"OPENAI_API_KEY": key, "KBV_TEST": other}
    before = running(evaluator_folder)
    assert warm.gate(warm.item(f"# {first}\n{HONEST}", 3), **settings)["verdict"] == "pass"
    looks = LOOKS.format(
        own=second,
        own_pattern=reversed_pattern(second),
        secret=reversed_pattern(key),
        other=reversed_pattern(first),
    )
    gate = warm.gate(warm.item(looks, 4), **settings)
    assert gate["verdict"] == "pass" and "OWN True SECRET 0 OTHER 0" in gate["output_tail"], gate
    (pid,) = running(evaluator_folder) - before
    memory = memory_of(pid)
    assert b"torch._subclasses.fake_tensor" in memory
    for word in (key, first, second, other, "torch.rand(64, 64)", str(warm.folder)):
        assert word.encode() not in memory, word


def memory_of(pid: int) -> bytes:
    content = []
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            fields = line.split()
            # What is mapped from a file and not written is the file.
            if not fields[1].startswith("r") or "[v" in fields[-1] or (len(fields) > 5 and fields[1][1] != "w"):
                continue
            start, end = (int(address, 16) for address in fields[0].split("-"))
            memory.seek(start)
            content.append(memory.read(end - start))
    return b"\n".join(content)


DRAWS = """
import random, sys
import numpy
import torch
import torch.nn as nn

def draws():
    return f"DRAWN {random.random()} {numpy.random.rand()} {torch.initial_seed()}"
"""


def test_randomness_is_no_inheritance(warm_bench, tmp_path):
    """What numpy and torch seeded at import would give every judge and every worker the same numbers."""
    model = "class {}(nn.Module):\n    def forward(self, x):\n        return torch.relu(x)\n"
    problem = f"{DRAWS}\nprint(draws(), file=sys.stderr)\n{model.format('Model')}" + (
        "def get_init_inputs():\n    return []\ndef get_inputs():\n    return [torch.rand(8, 8)]\n"
    )
    candidate = f"{DRAWS}\nprint(draws())\n{model.format('ModelNew')}"
    place = Place(warm_bench, tmp_path, problem)
    place.make_audit()
    item = place.item(candidate)
    assert place.stage("compile", item).returncode == 0
    lines = []
    for _ in range(2):
        done = place.stage("hidden-gate", item)
        assert done.returncode == 0, done.stderr
        lines += re.findall(r"DRAWN (\S+) (\S+) (\d+)", done.stderr + place.record("hidden-gate", item)["output_tail"])
    assert len(lines) == 4  # of two judges and two workers
    assert [len({line[index] for line in lines}) for index in range(3)] == [4, 4, 4], lines


# --- its life ---------------------------------------------------------------------------------------------------------


def test_a_killed_evaluator_is_a_fault_and_the_next_command_starts_another(warm, evaluator_folder):
    waits = HONEST.replace("        return", "        import time; time.sleep(5)\n        return")
    item = warm.item(waits, 5)
    settings = {"KBV_TEST": secrets.token_hex(4)}
    assert warm.stage("compile", item, **settings).returncode == 0
    before = running(evaluator_folder)
    words = [sys.executable, "-m", "kbverified", *warm.words("hidden-gate", item), *warm.bench.options]
    client = subprocess.Popen(
        [*words, "--timeout-s", "100"],
        env={**warm.bench.environment, **settings},
        cwd=warm.folder,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert within(60, lambda: len(running(evaluator_folder) - before) == 1)
    (pid,) = running(evaluator_folder) - before
    assert within(60, lambda: len(children(pid)) == 2), "a judge and a launcher"
    family = children(pid)
    os.kill(pid, signal.SIGKILL)
    _, errors = client.communicate(timeout=30)
    assert client.returncode == 75 and "nothing was recorded: the judge" in errors
    assert within(30, lambda: not any(map(running_process, family)))
    assert not warm.has_record("hidden-gate", item)
    honest = warm.item(HONEST, 6)
    assert warm.gate(honest, **settings)["verdict"] == "pass"
    assert len(running(evaluator_folder) - before - {pid}) == 1


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def running_process(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_it_ends_when_nobody_has_come_for_a_while(warm, evaluator_folder):
    before = running(evaluator_folder)
    settings = {"KBV_EVALUATOR_IDLE_S": "1.5", "KBV_TEST": "idle"}
    done = warm.stage("hidden-gate", idle := warm.item(HONEST, 7), **settings)
    assert done.returncode == 2  # no compile record yet: nothing was started for that
    assert running(evaluator_folder) <= before
    assert warm.gate(idle, **settings)["verdict"] == "pass"
    (pid,) = running(evaluator_folder) - before
    name = evaluators(evaluator_folder)[pid]
    assert warm.stage("hidden-gate", idle, **settings).returncode == 0
    assert pid in running(evaluator_folder)
    assert within(20, lambda: not running_process(pid))
    assert not list(evaluator_folder.glob(f"{name.removesuffix('.sock')}*"))


def test_at_once_they_start_one(warm, evaluator_folder):
    before = running(evaluator_folder)
    items = [warm.item(f"{HONEST}# {index}\n", 10 + index) for index in range(4)]
    environment = {**warm.bench.environment, "KBV_TEST": "at once"}
    commands = []
    for item in items:
        assert warm.stage("compile", item).returncode == 0
    for item in items:
        words = [sys.executable, "-m", "kbverified", *warm.words("hidden-gate", item), *warm.bench.options]
        commands.append(subprocess.Popen(words, env=environment, cwd=warm.folder, stderr=subprocess.PIPE, text=True))
    most = 0
    while any(command.poll() is None for command in commands):
        most = max(most, len(running(evaluator_folder) - before))
        time.sleep(0.1)
    assert [command.communicate()[1] for command in commands] == [""] * 4
    assert [warm.record("hidden-gate", item)["verdict"] for item in items] == ["pass"] * 4
    assert most == 1


# --- without it -------------------------------------------------------------------------------------------------------


def test_where_none_can_be_had_the_command_runs_as_it_would_without(warm, tmp_path, evaluator_folder):
    open_folder = tmp_path / "open"
    open_folder.mkdir()
    open_folder.chmod(0o755)
    before = running(evaluator_folder)
    reasons = {
        "KBV_EVALUATOR_DIR": (str(open_folder), "not this user's own folder with mode 0700"),
        "LD_BIND_NOW": ("1", "LD_BIND_NOW is set, which is read when a process starts"),
    }
    for index, (name, (value, reason)) in enumerate(reasons.items()):
        item = warm.item(f"{HONEST}# {index}\n", 20 + index)
        assert warm.stage("compile", item).returncode == 0
        done = warm.stage("hidden-gate", item, **{name: value})
        assert done.returncode == 0 and f"runs without the evaluator: {value if 'DIR' in name else ''}" in done.stderr
        assert reason in done.stderr
        assert warm.record("hidden-gate", item)["verdict"] == "pass"
    assert running(evaluator_folder) <= before


def test_an_evaluator_that_cannot_import_is_done_without(warm, tmp_path):
    """It says why in its log, and the commands that wanted it find out what is wrong by themselves."""
    sources = tmp_path / "src"
    shutil.copytree(ROOT / "src" / "kbverified", sources / "kbverified", ignore=shutil.ignore_patterns("__pycache__"))
    preload = sources / "kbverified" / "evaluator" / "preload.py"
    preload.write_text(preload.read_text().replace('"torch",', '"torch", "no_such_module",', 1))
    item = warm.item(f"{HONEST}# without\n", 30)
    with tempfile.TemporaryDirectory(prefix="kbv-") as folder:  # pytest's own may be too long for a socket's path
        settings = {"PYTHONPATH": str(sources), "KBV_EVALUATOR_DIR": folder}
        assert warm.gate(item, **settings)["verdict"] == "pass"
        (log,) = Path(folder).glob("*.log")
        assert "no_such_module" in log.read_text()


def test_its_switch_knows_two_words(warm):
    item = warm.item(f"{HONEST}# switch\n", 31)
    done = warm.stage("compile", item, KBV_EVALUATOR="maybe")
    assert done.returncode == 2 and "KBV_EVALUATOR='maybe' is neither on nor off" in done.stderr


def test_a_fault_in_a_forked_judge_is_told_as_ever(warm):
    item = warm.item(f"{HONEST}# fault\n", 32)
    assert warm.stage("compile", item).returncode == 0
    record = json.loads(warm.audit.read_text())
    done = warm.stage("hidden-gate", item, "--device", "cuda", CUDA_VISIBLE_DEVICES="")
    assert record["usable"]
    assert done.returncode == 75 and "no GPU is visible" in done.stderr and "Traceback" not in done.stderr
    assert not warm.has_record("hidden-gate", item)
