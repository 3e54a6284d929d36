"""The reference's second model: made before a device is held, or when it is asked for, it is the same one."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kbverified.devices import open_device
from kbverified.judge.reference import Reference

PROBLEM = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)
        self.scale = torch.nn.Parameter(torch.ones(8))
    def forward(self, x):
        return self.layer(x) * self.scale
def get_inputs():
    return [torch.rand(4, 8)]
def get_init_inputs():
    return []
"""


@pytest.fixture
def made(tmp_path, monkeypatch) -> Any:
    path = tmp_path / "level1_1.py"
    path.write_text(PROBLEM)

    def reference() -> tuple[Reference, list[int]]:
        one = Reference(path)
        one.place(open_device("cpu"))
        construct, times = one.construct, [1]
        monkeypatch.setattr(one, "construct", lambda seed: times.append(seed) or construct(seed))
        return one, times

    return reference


@pytest.mark.parametrize("perturb", [True, False])
def test_a_model_prepared_is_the_one_that_would_have_been_made(made, perturb):
    prepared, times = made()
    prepared.prepare(7, perturb)
    assert len(times) == 2
    first = prepared.digests()
    again = prepared.rebuild(7, perturb)
    assert len(times) == 2 and again != first
    other, times = made()
    assert other.rebuild(7, perturb) == again
    assert len(times) == 2
    assert bool((other.model.scale != 1).any()) == perturb


def test_another_than_was_prepared_is_made_and_none_serves_twice(made):
    reference, times = made()
    reference.prepare(7, True)
    assert reference.rebuild(7, False) != reference.rebuild(7, True)
    assert len(times) == 4


def test_what_cannot_be_prepared_fails_when_it_is_asked_for(made, monkeypatch):
    reference, _ = made()

    def fails() -> None:
        raise ValueError("not with these parameters")

    monkeypatch.setattr(reference, "construct", lambda seed: fails())
    reference.prepare(7, True)
    with pytest.raises(ValueError, match="not with these"):
        reference.rebuild(7, True)


def test_a_forward_before_the_rebuild_is_the_first_models(made):
    reference, _ = made()
    inputs = reference.draw("d1_original", 3)
    before = reference.forward(inputs)
    reference.prepare(7, True)
    assert torch.equal(reference.forward(inputs), before)
