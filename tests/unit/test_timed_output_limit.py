"""How far a timed output may be off: no further than its arithmetic explains, nor half the way to another input's."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from kbverified import layout, precision
from kbverified.correctness import compare_all
from kbverified.devices import open_device
from kbverified.judge import memory
from kbverified.judge.reference import Reference
from kbverified.judge.rounds import output_limit, redraw
from kbverified.protocol import STANDARD_DISTRIBUTION, TIMED_OUTPUT_RMS_LIMIT

PROBLEM = """
import torch
class Model(torch.nn.Module):
    def forward(self, a, b):
        return a @ b
def get_inputs():
    return [torch.rand(48, 4096), torch.rand(4096, 48)]
def get_init_inputs():
    return []
"""


@pytest.fixture
def reference(tmp_path):
    path = tmp_path / "level1_1.py"
    path.write_text(PROBLEM)
    reference = Reference(path)
    reference.place(open_device("cpu"))
    return reference


def sums_only(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A product of two rand() matrices from the sums of their rows and columns: O(n^2) work, half a percent off."""
    return a.sum(1, keepdim=True) / 2 + b.sum(0, keepdim=True) / 2 - a.shape[1] / 4


def test_what_is_coarse_only_on_the_clock_is_wrong(reference):
    inputs = redraw(reference)
    error = compare_all([sums_only(*inputs.tensors)], layout.leaves(reference.forward(inputs))).rms_relative_error
    assert 0.003 < error < 0.01
    assert output_limit(reference, "default", gate_error=1e-6) < error
    # Without a gate's word it is nearer to its own output than half the way to another input's.
    assert error < output_limit(reference, "default", gate_error=None)


def test_what_was_as_coarse_in_the_gate_is_not(reference):
    assert output_limit(reference, "default", gate_error=0.004) > 0.005


@pytest.mark.parametrize("mode", ["ieee", "default", "tf32"])
def test_the_mode_is_what_it_was_afterwards(reference, mode):
    before = precision.read_flags()
    try:
        precision.set_mode(mode)
        flags = precision.read_flags()
        output_limit(reference, mode, gate_error=0.0)
        assert precision.read_flags() == flags
    finally:
        precision.set_mode("tf32" if before.matmul_tf32 else "default" if before.cudnn_tf32 else "ieee")


@pytest.mark.parametrize(("gate_error", "verdict"), [(1e-6, "wrong_value"), (0.004, "pass")])
def test_the_measured_forwards_limit_is_that_of_timed_launches(reference, gate_error, verdict):
    seed = 7
    answers = [sums_only(*reference.draw(STANDARD_DISTRIBUTION, seed).tensors)]
    job = SimpleNamespace(device=reference.device, mode="default", gate_error=gate_error)
    found = memory._verdict(job, reference, answers, seed)
    assert found["verdict"] == verdict, found["detail"]
    assert found["output_limit"] < TIMED_OUTPUT_RMS_LIMIT
