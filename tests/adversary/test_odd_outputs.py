"""Outputs that are tensors in name only: each has a verdict of its own, and none ends the worker."""

from __future__ import annotations

import pytest
import torch

from kbverified import layout
from kbverified.records.problem import TensorSpec

SLOTS, _ = layout.plan([TensorSpec(shape=(2, 3), dtype="float32")])
_loop: list = []
_loop.append(_loop)


@pytest.mark.parametrize(
    ("output", "verdict"),
    [
        (lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "wrong_type"),
        (lambda: torch.ones(2, 3).to_sparse(), "wrong_type"),
        (lambda: torch.nn.Parameter(torch.ones(2, 3)), "wrong_type"),
        (lambda: torch.ones(2, 3, device="meta"), "wrong_device"),
        (lambda: torch.ones(2, 3, dtype=torch.complex64), "wrong_dtype"),
        (lambda: _loop, "wrong_type"),
        (lambda: {1: torch.ones(2, 3), "a": 2}, "wrong_type"),
        (lambda: None, "wrong_type"),
    ],
)
def test_odd_outputs(output, verdict):
    found = layout.mismatch(output(), "tensor", SLOTS, "cpu")
    assert found is not None and found[0] == verdict


@pytest.mark.parametrize(
    "output",
    [
        lambda: torch.ones(1, 3).expand(2, 3),
        lambda: torch.ones(3, 2).t(),
        lambda: torch.complex(torch.zeros(2, 3), -torch.ones(2, 3)).conj().imag,
        lambda: torch.ones(2, 3, requires_grad=True),
    ],
)
def test_unusual_but_right_outputs(output):
    tensor = output()
    assert layout.mismatch(tensor, "tensor", SLOTS, "cpu") is None
    target = torch.zeros(2, 3)
    with torch.no_grad():
        layout.copy_into([target], [tensor])
    assert torch.equal(target, torch.ones(2, 3))
