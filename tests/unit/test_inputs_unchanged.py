"""Whether shared inputs still hold what was written: bit by bit, in words of eight bytes where a tensor has them."""

from __future__ import annotations

import pytest
import torch

from kbverified.judge.exchange import same_bits


@pytest.mark.parametrize("shape", [(8, 8), (7, 9), (1,), (3, 5, 2), (0,)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.uint8])
@pytest.mark.parametrize("chunk", [1, 3, 1 << 25])
def test_any_changed_element_is_seen(shape, dtype, chunk):
    torch.manual_seed(0)
    kept = torch.randint(0, 2, shape).to(dtype)
    assert same_bits(kept, kept.clone(), chunk)
    for index in range(kept.numel()):
        changed = kept.clone()
        changed.view(-1)[index] = 1 - int(kept.view(-1)[index])
        assert not same_bits(kept, changed, chunk)


@pytest.mark.parametrize("start", range(5))
def test_wherever_in_its_storage_a_tensor_begins(start):
    whole = torch.arange(40.0)
    part = whole[start : start + 16]
    assert same_bits(part, part.clone())
    other = part.clone()
    other[0] += 1
    assert not same_bits(part, other)


def test_signs_of_zero_and_nan_are_bits():
    a = torch.tensor([0.0, float("nan")])
    assert same_bits(a, a.clone())
    assert not same_bits(a, torch.tensor([-0.0, float("nan")]))


def test_a_transposed_matrix_keeps_its_order():
    matrix = torch.randn(6, 4).t()
    assert same_bits(matrix, matrix.clone())
    assert not same_bits(matrix, matrix.clone().mul_(2))
