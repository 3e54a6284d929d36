"""The oracle of problems that can be had in float64, that cannot, and that are too large for it."""

from __future__ import annotations

import types

import pytest
import torch

from kbverified import layout
from kbverified.devices import open_device
from kbverified.judge import effective, oracle
from kbverified.judge.reference import Reference
from kbverified.judge.trial_errors import TrialErrors
from kbverified.protocol import ORACLE_FLOPS_MAX

HEAD = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(96, 64)
        self.norm = nn.BatchNorm1d(64)
        self.table = torch.rand(64)

    def forward(self, x, y=None):
        {body}

def get_inputs():
    return [{inputs}]

def get_init_inputs():
    return []
"""
LINEAR = "return torch.relu(self.linear(x)) * self.table"


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


@pytest.fixture
def consulted(tmp_path):
    """(oracle, reference, inputs, expected) of a forward's body."""

    def consult(body: str = LINEAR, inputs: str = "torch.rand(128, 96)", free_bytes: int | None = None, **audit):
        path = tmp_path / "level1_1.py"
        path.write_text(HEAD.format(body=body, inputs=inputs))
        reference = Reference(path)
        device = open_device("cpu", None)
        if free_bytes is not None:
            device.free_bytes = lambda: free_bytes
        reference.place(device)
        drawn = reference.draw("d1_original", 5)
        expected = layout.leaves(reference.forward(drawn))
        about = types.SimpleNamespace(**{"flops": None, "reference_peak_bytes": None, "weight_bytes": None, **audit})
        return oracle.consult(reference, about, drawn, expected), reference, drawn, expected, about

    return consult


def test_it_is_the_reference_in_float64(consulted):
    found, reference, inputs, expected, _ = consulted()
    model = reference.model
    x, w, b = (t.double() for t in (inputs.tensors[0], model.linear.weight, model.linear.bias))
    assert found.kind == "fp64" and found.why_not_fp64 is None
    assert found.outputs[0].dtype == torch.float64
    assert torch.allclose(found.outputs[0], torch.relu(x @ w.T + b) * model.table.double(), rtol=1e-14, atol=1e-15)
    assert 0 < found.own[0].scaled < 1e-5
    # Neither the reference nor torch's defaults were changed by asking.
    assert model.linear.weight.dtype == model.table.dtype == torch.get_default_dtype() == torch.float32
    assert torch.equal(layout.leaves(reference.forward(inputs))[0], expected[0])


@pytest.mark.parametrize(
    "body",
    [
        "return torch.dropout(self.linear(x), 0.4, True)",
        "return self.linear(x) + torch.randn(128, 64, device=x.device)",
        "return self.linear(x) * torch.rand_like(x[:, :64])",
        "return self.linear(x) + torch.empty_like(x[:, :64]).normal_()",
        "return self.linear(x) + torch.zeros(128, 64)",
    ],
)
def test_random_numbers_are_those_of_float32(consulted, body):
    found, *_ = consulted(body)
    assert found.kind == "fp64", found.why_not_fp64
    assert found.own[0].scaled < 1e-5


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("return self.linear(x).float()", "fixes a dtype"),
        ("return self.linear(x.float())", "RuntimeError"),
        ("return self.linear(x) * (1.0 if x.dtype == torch.float32 else 1.1)", "apart"),
        (
            "return self.linear(x) - self.linear(x.float().to(x.dtype)) + 1e-9 * (x.dtype == torch.float32)",
            "apart|zero",
        ),
        ("y = self.linear(x)\n        return y / 0.0 if y.dtype == torch.float64 else y", "not finite"),
        ("return self.linear(x) + torch.randperm(64).to(x.dtype)[: 64 if x.dtype == torch.float32 else 1]", "apart"),
    ],
)
def test_without_float64_the_reference_stands_in_with_a_reason(consulted, body, why):
    found, _, _, expected, _ = consulted(body)
    assert found.kind == "reference"
    assert any(word in (found.why_not_fp64 or "") for word in why.split("|")), found.why_not_fp64
    assert all(a is b for a, b in zip(found.outputs, expected, strict=True))
    assert found.own[0].scaled is not None  # of inputs moved by one unit in the last place
    assert torch.get_default_dtype() == torch.float32


def test_too_many_flops_and_too_little_memory_are_reasons(consulted):
    assert "FLOPs" in (consulted(flops=2 * int(ORACLE_FLOPS_MAX["cpu"]))[0].why_not_fp64 or "")
    assert "GiB may be used" in (consulted(free_bytes=1 << 16)[0].why_not_fp64 or "")


def test_a_large_batch_is_cut(consulted):
    wide = dict(inputs="torch.rand(512, 96)", reference_peak_bytes=40 << 20, weight_bytes=0)
    whole = consulted(**wide)[0]
    cut = consulted(**wide, free_bytes=40 << 20)[0]
    assert whole.kind == "fp64" and cut.kind == "fp64_sliced"
    assert cut.outputs[0].shape == (512, 64)
    assert torch.allclose(cut.outputs[0], whole.outputs[0], rtol=1e-12, atol=1e-13)


def test_the_right_operand_of_a_product_is_not_cut(consulted):
    square = dict(inputs="torch.rand(512, 512), torch.rand(512, 64)", reference_peak_bytes=40 << 20, weight_bytes=0)
    whole = consulted("return x @ y", **square)[0]
    cut = consulted("return x @ y", **square, free_bytes=40 << 20)[0]
    assert cut.kind == "fp64_sliced", cut.why_not_fp64
    assert torch.allclose(cut.outputs[0], whole.outputs[0], rtol=1e-12, atol=1e-13)


def test_a_sum_over_the_batch_is_not_cut(consulted):
    wide = dict(inputs="torch.rand(512, 96)", reference_peak_bytes=40 << 20, weight_bytes=0, free_bytes=40 << 20)
    found, *_ = consulted("return torch.relu(self.linear(x)) + x.mean()", **wide)
    assert found.kind == "reference" and "cannot be cut" in (found.why_not_fp64 or "")


def test_a_norm_over_the_batch_is_not_cut(consulted):
    wide = dict(inputs="torch.rand(512, 96)", reference_peak_bytes=40 << 20, weight_bytes=0, free_bytes=40 << 20)
    found, *_ = consulted("return self.norm(self.linear(x))", **wide)
    assert found.kind == "reference" and "cannot be cut" in (found.why_not_fp64 or "")


def test_an_index_remembers_what_it_was_chosen_among(consulted):
    _, reference, inputs, expected, about = consulted("return torch.argmax(x.round(decimals=1), dim=1)")
    values = inputs.tensors[0].round(decimals=1)
    last = 95 - values.flip(1).argmax(1)
    assert (last != expected[0]).any()
    errors = TrialErrors(reference, about)
    assert errors.of_trial("d1_original", inputs, expected, [last]).wrong_elements == 0
    assert errors.of_trial("d1_original", inputs, expected, [values.argmin(1)]).wrong_elements == 128
    assert errors.numerics.why_none == "no output is a floating-point tensor"


def test_a_lack_of_memory_is_no_end_of_a_trial(consulted, monkeypatch):
    _, reference, inputs, expected, about = consulted()
    with monkeypatch.context() as patch:
        patch.setattr(oracle, "forward", _no_memory)
        found = TrialErrors(reference, about).of_trial("d1_original", inputs, expected, expected)
    assert found.kind == "reference" and "too little memory" in found.why_not_fp64
    assert found.scaled_error == 0.0 and found.reference_scaled_error is None
    monkeypatch.setattr("kbverified.judge.trial_errors.scaled_error", _no_memory)
    found = TrialErrors(reference, about).of_trial("d1_original", inputs, expected, expected)
    assert found.kind == "none" and "MemoryError" in found.why_not_fp64


def _no_memory(*_):
    raise MemoryError("no room")


@pytest.mark.parametrize("bits", [7, 10])
def test_rounding_is_to_the_nearest(bits):
    torch.manual_seed(3)
    x = torch.randn(10000) * torch.exp2(torch.randint(-30, 30, (10000,)).float())
    mine = effective.rounded(x, bits).double()
    unit = torch.exp2(torch.floor(torch.log2(x.double().abs())) - bits)
    assert torch.equal(mine / unit, torch.round(x.double() / unit))
    if bits == 7:
        assert torch.equal(mine, x.bfloat16().double())
    whole = torch.arange(5)
    assert effective.rounded(whole, bits) is whole


def test_products_are_rounded_and_counted_wherever_they_are():
    torch.manual_seed(4)
    a, b, c = torch.randn(32, 48), torch.randn(48, 16), torch.randn(16)
    ra, rb = (effective.rounded(t, 10) for t in (a, b))
    with effective.RoundedProducts(10) as mode:
        found = [a @ b, torch.nn.functional.linear(a, b.T, c), torch.einsum("ij,jk->ik", a, b), a.exp()]
    wanted = [ra @ rb, torch.nn.functional.linear(ra, rb.T, c), torch.einsum("ij,jk->ik", ra, rb), a.exp()]
    assert mode.products == 3
    assert all(torch.equal(x, y) for x, y in zip(found, wanted, strict=True))
