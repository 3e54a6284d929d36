"""The input laws: what is scaled, what is left alone, and that a seed fixes every bit."""

from __future__ import annotations

import pytest
import torch

from kbverified import protocol
from kbverified.codec import decode
from kbverified.distributions import draw

CPU = torch.device("cpu")
FACTORS = {"d1_original": 1.0, "d2_scale_3": 3.0, "d3_scale_0.01": 0.01, "d4_negate": -1.0}


def mixed():
    return [
        torch.rand(8, 5),
        torch.randint(0, 9, (6,)),
        torch.rand(4) > 0.5,
        0.25,
        7,
        "mean",
        (torch.rand(3), [torch.rand(2, dtype=torch.float64)]),
        None,
    ]


def test_the_laws_are_the_published_four():
    assert FACTORS == protocol.DISTRIBUTIONS
    assert protocol.STANDARD_DISTRIBUTION == "d1_original"


@pytest.mark.parametrize("name", FACTORS)
def test_floats_are_scaled_and_nothing_else_is(name):
    drawn = draw(mixed, name, 5, CPU)
    torch.manual_seed(5)
    plain = mixed()
    found = decode(drawn.encoded, drawn.tensors)
    assert torch.equal(found[0], plain[0] * FACTORS[name])
    for index in (1, 2):
        assert found[index].dtype == plain[index].dtype and torch.equal(found[index], plain[index])
    assert found[3:6] == [0.25, 7, "mean"] and found[7] is None
    assert isinstance(found[6], tuple)
    assert torch.equal(found[6][0], plain[6][0] * FACTORS[name])
    assert found[6][1][0].dtype == torch.float64  # only float32 takes a generator's dtype
    assert torch.equal(found[6][1][0], plain[6][1][0] * FACTORS[name])


@pytest.mark.parametrize("name", FACTORS)
def test_one_seed_gives_the_same_bits_and_another_does_not(name):
    first, second, other = (draw(mixed, name, seed, CPU) for seed in (11, 11, 12))
    assert first.encoded == second.encoded
    for a, b in zip(first.tensors, second.tensors):
        assert torch.equal(a.view(torch.uint8), b.view(torch.uint8))
    assert not torch.equal(first.tensors[0], other.tensors[0])


def test_an_expanded_tensor_is_scaled_once():
    """All its rows share an address: in place, every row would be scaled again."""
    drawn = draw(lambda: [torch.full((1, 3), 2.0).expand(4, 3)], "d2_scale_3", 0, CPU)
    assert torch.equal(drawn.tensors[0], torch.full((4, 3), 6.0))


def test_a_permuted_tensor_is_scaled_and_keeps_its_strides():
    drawn = draw(lambda: [torch.rand(3, 5).t()], "d2_scale_3", 0, CPU)
    torch.manual_seed(0)
    assert torch.equal(drawn.tensors[0], torch.rand(3, 5).t() * 3)
    assert drawn.tensors[0].stride() == (1, 5)


def test_a_tensor_that_needs_gradients_is_plain_data():
    drawn = draw(lambda: [torch.ones(2, requires_grad=True)], "d4_negate", 0, CPU)
    assert drawn.tensors[0].tolist() == [-1.0, -1.0] and not drawn.tensors[0].requires_grad


@pytest.mark.parametrize("name", FACTORS)
def test_bf16_is_rounded_after_scaling_and_labels_stay_integers(name):
    drawn = draw(mixed, name, 5, CPU, "bf16")
    torch.manual_seed(5)
    plain = mixed()
    assert torch.equal(drawn.tensors[0], (plain[0] * FACTORS[name]).to(torch.bfloat16))
    assert [t.dtype for t in drawn.tensors] == [
        torch.bfloat16,
        torch.int64,
        torch.bool,
        torch.bfloat16,
        torch.float64,
    ]


def test_bytes_are_counted():
    drawn = draw(mixed, "d1_original", 0, CPU)
    assert drawn.nbytes == 4 * 40 + 8 * 6 + 4 + 4 * 3 + 8 * 2
    assert drawn.made_on == "cpu"


def test_an_unknown_law_and_a_failing_problem_are_errors():
    with pytest.raises(KeyError, match="d9"):
        draw(mixed, "d9", 0, CPU)

    def broken():
        raise RuntimeError("no inputs today")

    with pytest.raises(RuntimeError, match="no inputs today"):
        draw(broken, "d1_original", 0, CPU)
