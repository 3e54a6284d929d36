"""The optional baselines by the real command on the CPU: ieee, and torch.compile where inductor can work."""

from __future__ import annotations

import json
import shutil

import pytest
from stage_places import HONEST_BUNDLED, TIMED, Place

from kbverified.protocol import COMPILED_BASELINE_OPTIONS

WITHOUT_COMPILER = pytest.mark.skipif(
    not (shutil.which("c++") or shutil.which("g++")), reason="inductor needs a C++ compiler, and none is on PATH"
)

# Weights, randomness in forward, and something to fuse.
PROBLEM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(64, 64)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        assert x.dtype == self.linear.weight.dtype
        return self.dropout(torch.tanh(self.linear(x)) * 2 + 1)

def get_inputs():
    return [torch.rand(64, 64)]

def get_init_inputs():
    return []
"""
HONEST = PROBLEM.split("def get_inputs")[0].replace("class Model(", "class ModelNew(")


LOOK = """
import os
try:
    print("caches", os.listdir({folder!r}))
except OSError:
    print("no caches in sight")
"""


def timed(place: Place, stage: str, item, *options: str, **environment: str) -> dict:
    done = place.stage(stage, item, *options, **environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return place.record(stage, item)


def test_ieee_on_a_bundled_problem(bench):
    item = next(item for item in HONEST_BUNDLED if item.name.endswith("level2_2/0"))
    found = bench.chain(item, ("compile", "hidden-gate", "time-ieee"))["time-ieee"]
    assert found["status"] == "ok" and found["verdict"] in TIMED, found
    assert found["provenance"]["mode"] == "ieee"
    assert (found["flags_before"]["matmul_tf32"], found["flags_before"]["cudnn_tf32"]) == (False, False)
    assert found["compiled_baseline"] is None
    assert len(found["rounds"]) >= 10


@WITHOUT_COMPILER
def test_a_compiled_baseline_is_made_once_and_agrees_with_the_eager_one(bench, tmp_path):
    place = Place(bench, tmp_path, PROBLEM)
    place.make_audit()
    root = tmp_path / "build"
    look = LOOK.format(folder=str(root / "baselines"))
    first, second = place.item(HONEST + look), place.item(HONEST + "\n# another\n", 1)
    options = ("--build-root", str(root))
    for item in (first, second):
        assert place.gate(item, *options)["verdict"] == "pass"
    found = timed(place, "time-compile", first, *options)
    assert (found["status"], found["verdict"]) == ("ok", "pass"), found
    assert found["provenance"]["mode"] == "tf32"
    assert "no caches in sight" in found["output_tail"] or found["provenance"]["sandbox"] == "none"
    compiled = found["compiled_baseline"]
    assert {name: compiled[name] for name in COMPILED_BASELINE_OPTIONS} == COMPILED_BASELINE_OPTIONS
    assert (compiled["graphs"], compiled["graph_breaks"]) == (1, 0)
    assert compiled["critical_tolerance"] < 1e-4  # with dropout: the random numbers are the eager model's
    (note,) = root.glob("baselines/*/*.json")
    noted = json.loads(note.read_text())
    assert noted["reason"] is None and noted["compile_s"] == compiled["compile_s"]
    made = {path: path.stat().st_mtime_ns for path in root.glob("baselines/*/*/inductor/**/*") if path.is_file()}
    assert any(path.suffix == ".so" for path in made)
    again = timed(place, "time-compile", second, *options)["compiled_baseline"]
    assert again["compile_s"] == compiled["compile_s"]  # whose note it is
    assert again["from_caches"] == compiled["from_caches"] == 1
    assert {path: path.stat().st_mtime_ns for path in made} == made


ANOTHER = PROBLEM.replace("* 2 + 1", "* (3 if torch.compiler.is_compiling() else 2) + 1")


@pytest.mark.parametrize(
    ("text", "environment", "why"),
    [
        (PROBLEM, {"CXX": "/bin/false"}, "torch.compile failed: "),
        (PROBLEM.replace("assert x", "assert not torch.compiler.is_compiling(); assert x"), {}, "compiled no graph"),
        pytest.param(ANOTHER, {}, "torch.compile changes the answer: off by 0.", marks=WITHOUT_COMPILER),
    ],
    ids=["no compiler", "no graph", "another answer"],
)
def test_a_baseline_that_does_not_exist_is_skipped_with_its_reason_and_tried_once(
    bench, tmp_path, text, environment, why
):
    place = Place(bench, tmp_path, text)
    place.make_audit()
    item = place.item(HONEST)
    options = ("--build-root", str(tmp_path / "build"))
    assert place.gate(item, *options)["verdict"] == "pass"
    found = timed(place, "time-compile", item, *options, **environment)
    assert (found["status"], found["verdict"], found["rounds"]) == ("skipped", None, [])
    assert why in found["reason"]
    (note,) = tmp_path.glob("build/baselines/*/*.json")
    before = note.stat().st_mtime_ns
    assert note.name in found["reason"]
    assert timed(place, "time-compile", item, *options, **environment)["reason"] == found["reason"]
    assert note.stat().st_mtime_ns == before


def test_both_sides_run_in_bf16(bench, tmp_path):
    # The baseline, which has the inputs of the very same draw, asserts that its weights have their dtype.
    place = Place(bench, tmp_path, PROBLEM)
    place.make_audit()
    both = "assert x.dtype == self.linear.weight.dtype == torch.bfloat16"
    item = place.item(HONEST.replace("assert x.dtype == self.linear.weight.dtype", both))
    gate = place.gate(item, "--dtype", "bf16")
    assert gate["verdict"] == "pass", gate
    found = {stage: timed(place, stage, item, "--dtype", "bf16") for stage in ("time-fp32", "time-ieee", "memory")}
    assert found["time-fp32"]["verdict"] in TIMED and found["memory"]["verdict"] == "pass", found
    assert found["time-fp32"]["timed_critical_tolerance"] <= 1e-2
    assert found["time-ieee"]["reason"].startswith("the modes have no effect on bf16")
    assert (found["memory"]["input_bytes"], found["memory"]["output_bytes"]) == (2 * 64 * 64, 2 * 64 * 64)
    assert place.gate(item)["verdict"] == "runtime_error"  # in fp32 the same candidate objects: it really looks
