"""The gate's hardened trials, by candidates that no attack stands for: what is not comparable, and what ends a worker.

What they catch is shown in tests/attacks, family by family.
"""

from __future__ import annotations

import pytest
from stage_places import Place

from kbverified.hardened.laws import LAWS
from kbverified.hardened.verdict import judge
from kbverified.judge.hardened import FRESH_WEIGHTS, OWN_MEMORY
from kbverified.records.problem import ProblemRecord
from kbverified.records.stages import GateRecord

NORM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(64)

    def forward(self, x):
        return self.norm(x)

def get_inputs():
    return [torch.randn(33, 64)]

def get_init_inputs():
    return []
"""
HONEST = NORM.split("def get_inputs")[0].replace("class Model(", "class ModelNew(")
ONCE = HONEST.replace("import torch\n", "import torch\nmade = []\n", 1).replace(
    "super().__init__()", "super().__init__()\n        made.append(1)\n        assert len(made) == 1"
)
BY_HAND = HONEST.replace("nn.LayerNorm(64)", "nn.LayerNorm(64)\n        self.norm.weight.data.copy_(torch.ones(64))")
DIES = HONEST.replace(
    "return self", "import os\n        if x.abs().amax() > 20:\n            os._exit(0)\n        return self"
)

# What no guard can be put around: torch does not let its memory grow.
RESIZES = HONEST.replace(
    "return self.norm(x)", "return torch.empty(1).resize_(x.numel()).view(x.shape).copy_(self.norm(x))"
)
NEIGHBOUR = """
import ctypes
import torch
import torch.nn as nn

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(64)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls > 4:  # beyond the published distributions: what lies before an input is nobody's there
            ctypes.memset(x.data_ptr() - 16, 1, 16)
        return self.norm(x)
"""


@pytest.fixture(scope="module")
def norms(warm_bench, tmp_path_factory) -> Place:
    made = Place(warm_bench, tmp_path_factory.mktemp("norms"), problem_text=NORM)
    made.make_audit()
    return made


def gated(place: Place, text: str, sample: int) -> GateRecord:
    return GateRecord.model_validate(place.gate(place.item(text, sample)))


def test_the_audit_knows_every_law_and_what_each_tells_apart(norms):
    audit = ProblemRecord.model_validate_json(norms.audit.read_text())
    assert [law.law for law in audit.hardened] == list(LAWS)
    assert all(law.applicable and not law.positive and law.replay for law in audit.hardened)
    assert min(law.replay.scaled_error for law in audit.hardened) > 0.1


def test_an_honest_kernel_passes_and_its_weights_were_moved(norms):
    record = gated(norms, HONEST, 0)
    assert (record.verdict, judge(record, None).verdict) == ("pass", "pass")
    assert [trial.law for trial in record.hardened] == [*LAWS, OWN_MEMORY, FRESH_WEIGHTS]
    last = record.hardened[-1]
    assert (last.comparable, last.parameters) == (True, {"perturbed": True})
    assert record.hardened[0].parameters["0"].keys() == {"scale", "offset"}


def test_who_can_be_constructed_once_only_is_given_another_process(norms):
    record = gated(norms, ONCE, 1)
    last = record.hardened[-1]
    assert (last.comparable, last.parameters, last.failure) == (True, {"perturbed": True}, None)
    assert judge(record, None).verdict == "pass"


def test_and_does_not_escape_its_other_weights_by_that(norms):
    careless = "torch.nn.functional.layer_norm(x, (64,))"  # without scale and shift, which are one and zero at first
    record = gated(norms, ONCE.replace("self.norm(x)", careless), 5)
    assert record.verdict == "pass" and record.hardened[-1].comparable is True
    assert (judge(record, None).verdict, judge(record, None).failed) == ("wrong_value", (FRESH_WEIGHTS,))


def test_who_can_be_constructed_from_the_public_seed_only_fails(norms):
    picky = HONEST.replace("super().__init__()", "super().__init__()\n        assert torch.initial_seed() == 42")
    record = gated(norms, picky, 6)
    assert record.verdict == "pass" and judge(record, None).verdict == "init_error"


def test_who_bears_no_moved_parameters_is_compared_without(norms):
    strict = HONEST.replace("nn.LayerNorm(64)", "nn.LayerNorm(64)\n        assert (self.norm.bias == 0).all()")
    last = gated(norms, strict, 7).hardened[-1]
    assert (last.comparable, last.parameters, last.failure) == (True, {"perturbed": False}, None)


def test_weights_that_no_seed_moves_are_compared_as_they_are(norms):
    last = gated(norms, BY_HAND, 2).hardened[-1]
    assert (last.comparable, last.parameters, last.failure) == (True, {"perturbed": False}, None)
    assert last.oracle.scaled_error < 1e-5


def test_a_worker_that_ends_under_a_law_fails_the_hardened_test_alone(norms):
    record = gated(norms, DIES, 3)
    assert record.verdict == "pass" and record.flags_after is not None
    found = judge(record, None)
    assert (found.verdict, record.hardened[-1].failure) == ("crash", "crash")
    assert len(record.hardened) < len(LAWS)


def test_who_fails_the_four_distributions_has_no_hardened_trial(norms):
    record = gated(norms, HONEST.replace("self.norm(x)", "self.norm(x) + 1"), 4)
    assert record.hardened == () and "fails the hidden test" in record.hardened_why_not


def test_who_does_not_run_between_guards_is_not_judged_by_them(norms):
    record = gated(norms, RESIZES, 8)
    own, last = record.hardened[-2:]
    assert own.law == OWN_MEMORY and not own.applicable and "not resizable" in own.detail
    assert (last.law, last.failure, last.comparable) == (FRESH_WEIGHTS, None, True)
    assert judge(record, None).verdict == "pass"


def test_who_writes_beside_an_input_is_found_out(norms):
    """In front of it, where the rest of a page is nobody's: 33 rows fill no whole pages."""
    record = gated(norms, NEIGHBOUR, 9)
    assert record.verdict == "pass" and judge(record, None).verdict == "mutates_input"
    assert "memory beside an input" in record.hardened[0].detail
