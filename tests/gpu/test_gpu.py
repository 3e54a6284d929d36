"""What only a GPU can show: the real command on the bundled candidates and a few made for one question each."""

from __future__ import annotations

import json
import os
import statistics
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from chain import Bench, Item, bundled, expected_verdict, verdict

from kbverified.judge.stage import timing_place
from kbverified.lease import chosen_place, visible_gpus

DISHONEST = bundled("bundled-dishonest", ("any", "cuda"))
HONEST = bundled("bundled-gpu", ("cuda",)) + bundled("bundled-honest", ("any",))

pytestmark = pytest.mark.skipif(not visible_gpus(), reason="no GPU is visible")


@pytest.fixture(scope="session")
def bench(tmp_path_factory):
    named = os.environ.get("KBV_GPU_TEST_OUT")
    return Bench(Path(named) if named else tmp_path_factory.mktemp("gpu"))


# --- candidates made for one question each ------------------------------------------------------------------------
SAME = """import torch
import torch.nn as nn
class {name}(nn.Module):
    def forward(self, a, b):
        return torch.nn.functional.gelu(a @ b)
"""
INPUTS = """
def get_inputs():
    return [torch.rand({n}, {n}), torch.rand({n}, {n})]
def get_init_inputs():
    return []
"""
RAW = """import torch
import torch.nn as nn
from cuda.bindings import driver
class ModelNew(nn.Module):
    def forward(self, a, b):
        error, self.pointer = driver.cuMemAlloc(1 << 30)
        assert error == driver.CUresult.CUDA_SUCCESS
        return torch.nn.functional.gelu(a @ b)
"""
BIG = """import torch
import torch.nn as nn
class {name}(nn.Module):
    def forward(self, x):
        return torch.relu(x)
"""
BIG_INPUTS = """
def get_inputs():
    return [torch.randn(1 << 30)]
def get_init_inputs():
    return []
"""
TF32_SETTER = """import torch
import torch.nn as nn
torch.backends.cuda.matmul.allow_tf32 = True
class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.nn.functional.gelu(a @ b)
"""
MADE = {
    "same": (SAME.format(name="Model") + INPUTS.format(n=4096), SAME.format(name="ModelNew")),
    "raw": (SAME.format(name="Model") + INPUTS.format(n=1024), RAW),
    "big": (BIG.format(name="Model") + BIG_INPUTS, BIG.format(name="ModelNew")),
    "flags": (SAME.format(name="Model") + INPUTS.format(n=2048), TF32_SETTER),
}


def write_made(folder: Path, name: str, sample: int = 0) -> Item:
    """A problem and a candidate from text, in the places that paths promise."""
    problem, candidate = MADE[name]
    item = Item(
        folder / "generations" / f"made-{name}" / name / "level1_1" / f"{sample}.py",
        folder / "problems" / name / "level1_1.py",
    )
    for path, text in ((item.problem, problem), (item.candidate, candidate)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return item


def same_on_each_gpu(folder: Path) -> list[Item]:
    """Copies of one candidate, so named that each visible GPU times one of them, in the order of the GPUs."""
    count = len(visible_gpus())
    items: dict[int, Item] = {}
    for sample in range(100):
        item = write_made(folder, "same", sample)
        items.setdefault(chosen_place(timing_place(item.candidate, item.problem), count), item)
    return [items[place] for place in range(count)]


@pytest.fixture(scope="session")
def same_items(tmp_path_factory):
    return same_on_each_gpu(tmp_path_factory.mktemp("same"))


@pytest.fixture(scope="session")
def records(bench, same_items, tmp_path_factory):
    """Everything at once: while one candidate holds the device, others import torch or compile."""
    folder = tmp_path_factory.mktemp("made")
    made = [*same_items, *(write_made(folder, name) for name in MADE if name != "same")]
    gates = {item.name: ("compile", "hidden-gate") for item in DISHONEST}
    return bench.chains([*HONEST, *made, *DISHONEST], gates)


def of(records, name: str, stage: str | None = None):
    found = records[name]
    assert isinstance(found, dict), found
    return found[stage] if stage else found


@pytest.mark.parametrize("item", DISHONEST, ids=lambda item: item.name)
def test_a_dishonest_candidate_gets_the_verdict_its_file_names(records, item):
    found = of(records, item.name)
    assert verdict(found) == expected_verdict(item), json.dumps(found["hidden-gate"])[-2000:]


@pytest.mark.parametrize("item", HONEST, ids=lambda item: item.name)
def test_an_honest_candidate_passes_every_stage(records, item):
    found = of(records, item.name)
    assert verdict(found) == "pass", json.dumps(found["hidden-gate"])[-2000:]
    assert found["memory"]["verdict"] == "pass", json.dumps(found["memory"])[-2000:]
    for stage in ("time-fp32", "time-tf32"):
        told = json.dumps(found[stage])[-2000:]
        # Bundled problems are small: several short kernels in a row are as fast as the host, which nobody keeps idle.
        assert found[stage]["verdict"] in ("pass", "unstable"), told
        if found[stage]["verdict"] == "unstable":
            assert "the device waits for the host" in found[stage]["detail"], told
    assert found["hidden-gate"]["provenance"]["sandbox"] == ("full" if os.getuid() == 0 else "user")


def medians_of(record) -> list[float]:
    """Baseline's and candidate's median in milliseconds."""
    return [statistics.median(t for r in record["rounds"] for t in r[s]) for s in ("baseline_ms", "candidate_ms")]


@pytest.mark.parametrize("place", range(len(visible_gpus())))
def test_a_copy_of_the_reference_is_as_fast_as_the_reference(records, same_items, place):
    """A/A: the ratio of medians of two identical modules, in both modes, on every GPU of the machine."""
    fast = {}
    for stage in ("time-fp32", "time-tf32"):
        record = of(records, same_items[place].name, stage)
        assert record["provenance"]["device"]["uuid"] == visible_gpus()[place].uuid
        baseline, fast[stage] = medians_of(record)
        assert baseline / fast[stage] == pytest.approx(1.0, abs=0.03), record["rounds"]
    # The matmul dominates: TF32 has to show, or the mode was not set.
    assert fast["time-fp32"] > 2 * fast["time-tf32"]


def test_the_records_are_of_the_evaluator_that_was_asked_for(records):
    """A command that no evaluator takes runs without one: a run that was to test it has to notice."""
    asked = os.environ.get("KBV_EVALUATOR") == "on"
    gates = [r["hidden-gate"] for r in records.values() if isinstance(r, dict)]
    found = {gate["provenance"]["evaluator"] for gate in gates if gate["status"] == "ok"}  # a skip has no judge
    assert found == {asked}


def test_the_gpus_of_a_machine_are_alike(records, same_items):
    """A worker on another GPU than its judge reads its inputs through the link between them: 4 to 14 times slower."""
    times = [medians_of(of(records, item.name, "time-tf32"))[0] for item in same_items]
    assert max(times) < 1.3 * min(times), times


def test_memory_beside_the_allocator_is_seen(records):
    memory = of(records, "made-raw/level1_1/0", "memory")
    assert memory["verdict"] == "pass", memory
    extra = memory["candidate"]["device_above_bytes"] - memory["baseline"]["device_above_bytes"]
    assert extra > 0.9 * (1 << 30)  # the baseline takes a temporary that this candidate frees earlier
    assert memory["candidate"]["allocator_peak_bytes"] < 1 << 30


def test_the_judge_keeps_to_its_memory(records, bench):
    """At most the reference's own peak plus 1.2 x (inputs + outputs) + 1 GiB, on 4 GiB in and 4 GiB out."""
    gate = of(records, "made-big/level1_1/0", "hidden-gate")
    audit = json.loads((bench.out / "problems" / "big" / "level1_1.json").read_text())
    assert gate["verdict"] == "pass", gate
    allowed = audit["reference_peak_bytes"] + 1.2 * (audit["input_bytes"] + audit["output_bytes"]) + (1 << 30)
    assert audit["input_bytes"] < gate["judge_peak_bytes"] <= allowed


def test_a_candidate_that_sets_tf32_itself_is_seen(records):
    assert of(records, "made-flags/level1_1/0", "time-fp32")["flags_after"]["matmul_tf32"] is True
