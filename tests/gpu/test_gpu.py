"""What only a GPU can show: the real command on the bundled candidates and a few made for one question each."""

from __future__ import annotations

import json
import os
import statistics
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from chain import ROOT, Bench, Item, bundled, expected_verdict, verdict

from kbverified.lease import visible_gpus

pytestmark = pytest.mark.skipif(not visible_gpus(), reason="no GPU is visible")


@pytest.fixture(scope="session")
def bench(tmp_path_factory):
    named = os.environ.get("KBV_GPU_TEST_OUT")
    return Bench(Path(named) if named else tmp_path_factory.mktemp("gpu"))


@pytest.fixture(scope="session")
def gate_records(bench):
    """Dishonest candidates need the gate alone; they run side by side."""
    return bench.chains(bundled("bundled-dishonest", ("any", "cuda")), ("compile", "hidden-gate"))


@pytest.fixture(scope="session")
def full_records(bench):
    items = bundled("bundled-gpu", ("cuda",)) + bundled("bundled-honest", ("any",))
    return bench.chains(items)


def made(tmp_path: Path, problem: str, candidate: str) -> Item:
    """A problem and a candidate from text, in the places that paths promise."""
    problem_path = tmp_path / "problems" / "made" / "level1_1.py"
    candidate_path = tmp_path / "generations" / "made" / "made" / "level1_1" / "0.py"
    for path, text in ((problem_path, problem), (candidate_path, candidate)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Item(candidate_path, problem_path)


@pytest.mark.parametrize("item", bundled("bundled-dishonest", ("any", "cuda")), ids=lambda item: item.name)
def test_a_dishonest_candidate_gets_the_verdict_its_file_names(gate_records, item):
    records = gate_records[item.name]
    assert isinstance(records, dict), records
    assert verdict(records) == expected_verdict(item), json.dumps(records["hidden-gate"])[-2000:]


@pytest.mark.parametrize(
    "item", bundled("bundled-gpu", ("cuda",)) + bundled("bundled-honest", ("any",)), ids=lambda item: item.name
)
def test_an_honest_candidate_passes_every_stage(full_records, item):
    records = full_records[item.name]
    assert isinstance(records, dict), records
    assert verdict(records) == "pass", json.dumps(records["hidden-gate"])[-2000:]
    for stage in ("time-fp32", "time-tf32", "memory"):
        assert records[stage]["verdict"] == "pass", json.dumps(records[stage])[-2000:]
    assert records["hidden-gate"]["provenance"]["sandbox"] == ("full" if os.getuid() == 0 else "user")


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


def test_a_copy_of_the_reference_is_as_fast_as_the_reference(bench, tmp_path):
    """A/A: the ratio of medians of two identical modules, in both modes."""
    item = made(tmp_path, SAME.format(name="Model") + INPUTS.format(n=4096), SAME.format(name="ModelNew"))
    records = bench.chain(item)
    medians = {}
    for stage in ("time-fp32", "time-tf32"):
        rounds = records[stage]["rounds"]
        sides = [statistics.median(t for r in rounds for t in r[side]) for side in ("baseline_ms", "candidate_ms")]
        medians[stage] = sides[1]
        assert sides[0] / sides[1] == pytest.approx(1.0, abs=0.03), rounds
    # The matmul dominates: TF32 has to show, or the mode was not set.
    assert medians["time-fp32"] > 2 * medians["time-tf32"]


RAW = """import torch
import torch.nn as nn
from cuda.bindings import driver
class ModelNew(nn.Module):
    def forward(self, a, b):
        error, self.pointer = driver.cuMemAlloc(1 << 30)
        assert error == driver.CUresult.CUDA_SUCCESS
        return torch.nn.functional.gelu(a @ b)
"""


def test_memory_beside_the_allocator_is_seen(bench, tmp_path):
    item = made(tmp_path / "raw", SAME.format(name="Model") + INPUTS.format(n=1024), RAW)
    memory = bench.chain(item)["memory"]
    assert memory["verdict"] == "pass", memory
    extra = memory["candidate"]["device_above_bytes"] - memory["baseline"]["device_above_bytes"]
    assert extra >= 1 << 30
    assert memory["candidate"]["allocator_peak_bytes"] < 1 << 30


BIG = """import torch
import torch.nn as nn
class {name}(nn.Module):
    def forward(self, x):
        return torch.relu(x)
"""


def test_the_judge_keeps_to_its_memory(bench, tmp_path):
    """At most the reference's own peak plus 1.2 x (inputs + outputs) + 1 GiB, on 4 GiB in and 4 GiB out."""
    inputs = "\ndef get_inputs():\n    return [torch.randn(1 << 30)]\ndef get_init_inputs():\n    return []\n"
    item = made(tmp_path / "big", BIG.format(name="Model") + inputs, BIG.format(name="ModelNew"))
    gate = bench.chain(item, ("compile", "hidden-gate"))["hidden-gate"]
    audit = json.loads(bench.audit(item.problem).read_text())
    assert gate["verdict"] == "pass", gate
    allowed = audit["reference_peak_bytes"] + 1.2 * (audit["input_bytes"] + audit["output_bytes"]) + (1 << 30)
    assert 0 < gate["judge_peak_bytes"] <= allowed


TF32_SETTER = """import torch
import torch.nn as nn
torch.backends.cuda.matmul.allow_tf32 = True
class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.nn.functional.gelu(a @ b)
"""


def test_a_candidate_that_sets_tf32_itself_is_seen(bench, tmp_path):
    item = made(tmp_path / "flags", SAME.format(name="Model") + INPUTS.format(n=2048), TF32_SETTER)
    records = bench.chain(item, ("compile", "hidden-gate", "time-fp32"))
    assert records["time-fp32"]["flags_after"]["matmul_tf32"] is True
