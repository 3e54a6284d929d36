"""The compile stage's call on fake tensors: it reaches builds that hide, runs nothing, and forgives everything."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from kbverified.compilation.dry_run import dry_forward

SPECS = [[[4, 8], "float32"], None, [[4], "int64"]]


def made(forward, seen: dict):
    class ModelNew(torch.nn.Module):
        def __init__(self, *arguments):
            super().__init__()
            seen["init"] = arguments
            self.linear = torch.nn.Linear(8, 2)

        def forward(self, *inputs):
            return forward(self, inputs)

    return ModelNew


def test_constructor_and_forward_are_reached_with_shapes_and_without_data():
    seen: dict = {}

    def forward(self, inputs):
        seen["inputs"] = inputs
        return self.linear(inputs[0])

    assert dry_forward(made(forward, seen), [3, "x"], SPECS, "cpu") is None
    assert seen["init"] == (3, "x")
    x, nothing, labels = seen["inputs"]
    assert nothing is None
    assert (x.shape, x.dtype, labels.shape, labels.dtype) == ((4, 8), torch.float32, (4,), torch.int64)
    assert all(type(t).__name__ == "FakeTensor" for t in (x, labels))


def test_no_memory_is_taken_whatever_the_size():
    huge = [[[1 << 20, 1 << 20], "float32"]]  # 4 TiB

    def forward(self, inputs):
        return torch.relu(inputs[0]) + 1

    assert dry_forward(made(forward, {}), [], huge, "cpu") is None


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("what I need"), "ValueError: what I need"),
        (KeyError("k"), "KeyError: 'k'"),
        (RuntimeError("x" * 5000), "RuntimeError: xxx"),
        (AssertionError(), "AssertionError: "),
    ],
)
def test_an_error_is_told_and_no_verdict(error, text):
    def forward(self, inputs):
        raise error

    met = dry_forward(made(forward, {}), [], SPECS, "cpu")
    assert met.startswith(text) and len(met) <= 500


def test_an_error_of_the_constructor_is_told_too():
    def factory(*_):
        raise TypeError("missing argument")

    assert dry_forward(factory, [], SPECS, "cpu") == "TypeError: missing argument"


def test_a_look_at_values_stops_it():
    def forward(self, inputs):
        return inputs[0] if inputs[0].sum().item() > 0 else -inputs[0]

    assert dry_forward(made(forward, {}), [], SPECS, "cpu") is not None


def test_gradients_are_off_as_in_the_gate():
    seen: dict = {}

    def forward(self, inputs):
        seen["grad"] = self.linear(inputs[0]).requires_grad
        return inputs[0]

    assert dry_forward(made(forward, seen), [], SPECS, "cpu") is None
    assert seen["grad"] is False


# What follows replaces parts of torch for good: in a process of its own.
GPU = """
import torch
from kbverified.compilation.dry_run import dry_forward, pretend_gpu
seen = {}
class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        assert torch.cuda.is_available() and torch.cuda.device_count() == 1
        seen["properties"] = torch.cuda.get_device_properties(0).major, torch.cuda.get_device_properties(0).minor
        torch.cuda.synchronize()
        self.linear = torch.nn.Linear(8, 2)
    def forward(self, x):
        seen["on"] = x.is_cuda, x.cuda().is_cuda, x.contiguous().is_cuda
        seen["shape"] = tuple(self.linear(x).shape)
        return x
for arch in ("9.0", "9.0a", "8.6;9.0", "10.0+PTX"):
    pretend_gpu(arch)
    print(torch.cuda.get_device_capability(), torch.cuda.get_device_capability(0))
print(dry_forward(ModelNew, [], [[[4, 8], "float32"]], "cuda"))
print(seen)
"""


def test_a_candidate_that_asks_for_a_gpu_is_told_of_one():
    done = subprocess.run([sys.executable, "-c", GPU], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *capabilities, met, seen = done.stdout.splitlines()
    assert capabilities == [f"{c} {c}" for c in ((9, 0), (9, 0), (8, 6), (10, 0))]
    assert met == "None"
    assert seen == str({"properties": (10, 0), "on": (True, True, True), "shape": (4, 2)})
