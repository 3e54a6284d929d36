"""The scaled error against its definition, element by element, and which integer answers are right."""

from __future__ import annotations

import math

import pytest
import torch

from kbverified.protocol import SCALED_ROW_ELEMENTS_MIN, SCALED_ROW_FLOOR
from kbverified.scaled_error import Choice, scaled_error, wrong_elements

LONG = SCALED_ROW_ELEMENTS_MIN
ROUNDED = 5 * 2**-24
"""Difference, |o|, scale, their sum and the quotient, each rounded once to float32."""


def by_definition(answer: torch.Tensor, oracle: torch.Tensor, per_row: bool) -> float:
    a, o = answer.double().flatten(), oracle.double().flatten()
    whole = math.sqrt(sum(float(x) ** 2 for x in o) / len(o))
    width = len(o) // oracle.shape[0] if per_row else len(o)
    worst = 0.0
    for start in range(0, len(o), width):
        row = [float(x) for x in o[start : start + width]]
        scale = max(math.sqrt(sum(x * x for x in row) / width), SCALED_ROW_FLOOR * whole)
        worst = max(worst, *(abs(float(a[start + i]) - x) / (scale + abs(x)) for i, x in enumerate(row)))
    return worst


@pytest.mark.parametrize("chunk", [1, 7, 33, 64, 1000])
@pytest.mark.parametrize(
    ("shape", "per_row"), [((5, LONG), True), ((5, LONG - 1), False), ((3, 4, LONG), True), ((77,), False), ((), False)]
)
def test_it_is_what_it_says_whatever_the_chunks(shape, per_row, chunk):
    torch.manual_seed(1)
    oracle = torch.randn(shape, dtype=torch.float64)
    answer = (oracle + 0.01 * torch.randn(shape, dtype=torch.float64)).float()
    kept = oracle.clone()
    found = scaled_error(answer, oracle, chunk)
    assert found.scaled == pytest.approx(by_definition(answer, oracle, per_row), rel=ROUNDED)
    apart = (answer.double() - oracle).square().mean().sqrt() / oracle.square().mean().sqrt()
    assert found.rms == pytest.approx(apart.item(), rel=ROUNDED)
    assert found.elements == oracle.numel()
    assert torch.equal(oracle, kept)  # a float64 oracle is not worked on in place


@pytest.mark.parametrize("size", [1e-42, 1e-30, 1e-20, 1.0, 1e20, 1e30])
@pytest.mark.parametrize("oracle_dtype", [torch.float32, torch.float64])
def test_whatever_size_the_outputs_have(size, oracle_dtype):
    torch.manual_seed(5)
    oracle = (torch.randn(6, LONG, dtype=torch.float64) * size).to(oracle_dtype)
    answer = (oracle.double() * (1 + 1e-3 * torch.randn(6, LONG, dtype=torch.float64))).float()
    found = scaled_error(answer, oracle)
    assert found.scaled == pytest.approx(by_definition(answer, oracle, True), rel=ROUNDED)
    apart = (answer.double() - oracle.double()).square().mean().sqrt() / oracle.double().square().mean().sqrt()
    assert found.rms == pytest.approx(apart.item(), rel=ROUNDED)


def test_a_small_row_does_not_hide_behind_large_ones():
    torch.manual_seed(2)
    oracle = torch.randn(8, 64, dtype=torch.float64) * torch.tensor([1e3] * 7 + [1.0], dtype=torch.float64)[:, None]
    answer = oracle.clone()
    answer[7] = 0.0  # wrong altogether, and 1e-3 of the whole
    assert scaled_error(answer, oracle).scaled > 0.3
    assert scaled_error(answer.reshape(-1), oracle.reshape(-1)).scaled < 0.01


def test_a_row_of_next_to_nothing_is_held_against_the_whole():
    oracle = torch.ones(8, 64, dtype=torch.float64)
    oracle[7] = 0.0
    answer = oracle.clone()
    answer[7, 3] = 1e-8  # what is left of a cancellation
    found = scaled_error(answer, oracle).scaled
    assert found == pytest.approx(1e-8 / (SCALED_ROW_FLOOR * math.sqrt(7 / 8)), rel=1e-9)


def test_no_output_and_nothing_but_zeros():
    nothing = scaled_error(torch.zeros(0, 3), torch.zeros(0, 3))
    assert (nothing.scaled, nothing.rms, nothing.elements) == (0.0, None, 0)
    zeros = torch.zeros(4, 64, dtype=torch.float64)
    right, wrong = scaled_error(zeros.float(), zeros), scaled_error(zeros + 1e-30, zeros)
    assert (right.scaled, right.rms) == (0.0, None)
    assert wrong.scaled is not None and wrong.scaled > 1e300


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_not_finite_has_no_error(value):
    fine, broken = torch.ones(4, 64), torch.ones(4, 64)
    broken[1, 5] = value
    for answer, oracle in ((fine, broken), (broken, fine)):
        found = scaled_error(answer, oracle)
        assert (found.scaled, found.rms) == (None, None)


def test_shapes_have_to_agree():
    with pytest.raises(ValueError, match="shapes differ"):
        scaled_error(torch.zeros(2, 3), torch.zeros(3, 2))


def test_an_integer_is_the_references_or_the_oracles():
    reference, oracle = torch.tensor([1, 2, 3]), torch.tensor([1, 2, 4])
    assert wrong_elements(torch.tensor([1, 2, 3]), reference, oracle) == 0
    assert wrong_elements(torch.tensor([1, 2, 4]), reference, oracle) == 0
    assert wrong_elements(torch.tensor([1, 5, 4]), reference, oracle) == 1
    assert wrong_elements(torch.tensor([1, 2, 4]), reference, None) == 1
    assert wrong_elements(torch.tensor([True, False]), torch.tensor([True, True]), None) == 1


@pytest.mark.parametrize(("dim", "keepdim"), [(1, False), (1, True), (0, False), (None, False), (-1, True)])
def test_an_index_may_tie(dim, keepdim):
    values = torch.tensor([[5.0, 1.0, 5.0, 2.0], [5.0, 5.0, 0.0, 5.0]], dtype=torch.float64)
    reference = values.argmax(dim, keepdim)
    choice = Choice(values, dim)
    length = values.numel() if dim is None else values.shape[dim]
    for shift in range(length):
        answer = (reference + shift) % length
        flat = values.flatten()[answer] if dim is None else None
        if flat is not None:
            expected = int(flat != 5.0)
        else:
            kept = answer if keepdim else answer.unsqueeze(dim)
            expected = int((values.gather(dim, kept) != values.amax(dim, keepdim=True)).sum())
        assert wrong_elements(answer, reference, reference, choice) == expected
    for outside in (-1, length, 1 << 40):
        assert wrong_elements(torch.full_like(reference, outside), reference, None, choice) == reference.numel()
