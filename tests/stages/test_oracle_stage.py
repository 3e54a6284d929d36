"""What the gate's record says of a candidate's arithmetic, through the real command."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from stage_places import Place

from kbverified import numerics, protocol
from kbverified.records.stages import GateRecord
from kbverified.scaled_limit import within

PROBLEM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(256, 192)

    def forward(self, x):
        {body}

def get_inputs():
    return [torch.randn(128, 256)]

def get_init_inputs():
    return []
"""
CANDIDATE = """
import torch
import torch.nn as nn

def rounded(x):  # to TF32
    wide = x * 8193.0
    return wide - (wide - x)

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(256, 192)

    def forward(self, x):
        w, b = self.linear.weight, self.linear.bias
        {body}
"""
LINEAR = "return torch.relu(self.linear(x))"


@pytest.fixture(scope="module")
def gated(warm_bench, tmp_path_factory):
    """The gate's record of a candidate's forward on a problem's forward."""
    places: dict[str, Place] = {}

    def gate(body: str, reference: str = LINEAR) -> GateRecord:
        if reference not in places:
            made = Place(warm_bench, tmp_path_factory.mktemp("oracle"), PROBLEM.format(body=reference))
            made.make_audit()
            places[reference] = made
        place = places[reference]
        sample = len(list((place.folder / "generations").rglob("*.py")))
        return GateRecord.model_validate(place.gate(place.item(CANDIDATE.format(body=body), sample)))

    return gate


def class_of(record: GateRecord) -> str:
    return numerics.classify(record.numerics).name


@pytest.mark.parametrize(
    ("body", "name", "right"),
    [
        ("return torch.relu(x @ w.T + b)", "fp32", True),
        ("return torch.relu(sum(x[:, i : i + 1] * w.T[i] for i in range(256)) + b)", "fp32", True),
        ("return torch.relu(rounded(x) @ rounded(w).T + b)", "tf32", False),
        ("return torch.relu(x.bfloat16() @ w.bfloat16().T + b.bfloat16()).float()", "half", False),
        ("return torch.relu(x @ w.T + b) * 1.5", "undetermined", False),
    ],
)
def test_the_class_and_the_limit(gated, body, name, right):
    record = gated(body)
    assert class_of(record) == name
    assert [t.oracle.kind for t in record.trials if t.oracle] == ["fp64"] * len(protocol.DISTRIBUTIONS)
    # Under d3 the exact bias is nearly all of the output.
    said = {t.distribution: within(t.oracle, "fp32") for t in record.trials if t.oracle}
    del said["d3_scale_0.01"]
    assert set(said.values()) == {right}


def test_an_oracle_that_drops_what_the_reference_drops(gated):
    body = "return torch.dropout(torch.nn.functional.linear(x, w, b), 0.3, True)"
    record = gated(body, "return torch.dropout(self.linear(x), 0.3, True)")
    assert {t.oracle.kind for t in record.trials if t.oracle} == {"fp64"}
    assert class_of(record) == "fp32"


def test_a_problem_without_an_oracle_says_why(gated):
    reference = "return self.linear(x.float()) * 1.0"
    record = gated("return torch.nn.functional.linear(x, w, b)", reference)
    for trial in record.trials:
        assert trial.oracle is not None and trial.oracle.kind == "reference"
        assert "RuntimeError" in (trial.oracle.why_not_fp64 or "")
        assert within(trial.oracle, "fp32") is True
        assert 0 < (trial.oracle.reference_scaled_error or 0) < 1e-5
    assert class_of(record) == "undetermined"
    assert "no float64 oracle" in (numerics.classify(record.numerics).why or "")


def test_an_index_may_tie_and_not_be_wrong(gated):
    reference = "return torch.argmax((x * 2).round(), dim=1)"
    last = "y = (x * 2).round(); return 255 - torch.argmax(y.flip(1), dim=1)"
    record = gated(last, reference)
    assert [t.oracle.wrong_elements for t in record.trials if t.oracle] == [0] * len(protocol.DISTRIBUTIONS)
    assert all(within(t.oracle, "fp32") is True for t in record.trials if t.oracle)
    assert record.trials[0].critical_tolerance and record.trials[0].critical_tolerance > 0  # not for the older tests
    wrong = gated("return torch.argmin((x * 2).round(), dim=1)", reference)
    assert all(t.oracle.wrong_elements == 128 for t in wrong.trials if t.oracle and t.distribution != "d3_scale_0.01")
    assert class_of(record) == "undetermined"
