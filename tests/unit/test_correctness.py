"""Comparison of an answer with a reference: the numbers against their definitions, found in other ways."""

from __future__ import annotations

import dataclasses
import math
import sys

import pytest
import torch

from kbverified.correctness import combine, compare

NAN, INF = float("nan"), float("inf")


def bisected(answer: torch.Tensor, reference: torch.Tensor) -> float:
    """The smallest tau that torch.allclose accepts, by bisection between 0 and twice what surely suffices."""
    a, b = answer.double(), reference.double()
    if torch.allclose(a, b, atol=0.0, rtol=0.0):
        return 0.0
    low, high = 0.0, 2.0 * (a - b).abs().max().item() + 1e-300
    assert torch.allclose(a, b, atol=high, rtol=high)
    for _ in range(200):
        middle = (low + high) / 2
        if torch.allclose(a, b, atol=middle, rtol=middle):
            high = middle
        else:
            low = middle
    return high


ROUNDED = 3 * 2**-24
"""Difference, 1 + |b| and quotient, each rounded once to float32."""


def known_to(*tensors: torch.Tensor) -> float:
    """Relative precision of the figures of these: float64 for whatever float32 cannot hold."""
    return ROUNDED if all(t.dtype in (torch.float32, torch.bfloat16, torch.float16) for t in tensors) else 1e-9


def pairs() -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(3)
    x = torch.randn(37, 11)
    return {
        "noise": (x + 1e-4 * torch.randn_like(x), x),
        "large values": (1e6 * x + torch.randn_like(x), 1e6 * x),
        "one element": (x.clone().index_put_((torch.tensor(5), torch.tensor(5)), torch.tensor(9.0)), x),
        "around zero": (1e-9 * torch.randn(50), torch.zeros(50)),
        "equal": (x.clone(), x),
        "bf16": (x.bfloat16(), (x * 1.01).bfloat16()),
        "float64": (x.double() + 1e-12, x.double()),
        "int64": (torch.tensor([1, -7, 300]), torch.tensor([1, -5, 290])),
        "bool": (torch.tensor([True, False, True]), torch.tensor([True, True, True])),
        "no dimension": (torch.tensor(2.5), torch.tensor(2.0)),
        "strided": (x.t() + 0.25, x.t()),
    }


@pytest.mark.parametrize("name", pairs())
def test_critical_tolerance_is_the_smallest_that_allclose_accepts(name):
    answer, reference = pairs()[name]
    found = compare(answer, reference)
    assert found.critical_tolerance == pytest.approx(
        bisected(answer, reference), rel=known_to(answer, reference), abs=1e-15
    )
    assert found.equal == (name == "equal")


def test_tolerance_is_relative_to_the_reference_and_not_to_the_answer():
    small, large = torch.tensor([1.0]), torch.tensor([9.0])
    assert compare(large, small).critical_tolerance == pytest.approx(8 / 2)
    assert compare(small, large).critical_tolerance == pytest.approx(8 / 10)


@pytest.mark.parametrize("name", pairs())
def test_errors_are_what_numpy_would_say(name):
    answer, reference = pairs()[name]
    found = compare(answer, reference)
    a, b = answer.double().numpy(), reference.double().numpy()
    assert found.max_abs_error == pytest.approx(abs(a - b).max(), rel=known_to(answer, reference), abs=0.0)
    assert found.reference_max_abs == abs(b).max()
    assert found.reference_rms == pytest.approx(math.sqrt((b**2).mean()))
    if (b == 0).all():
        assert found.rms_relative_error is None
    else:
        assert found.rms_relative_error == pytest.approx(math.sqrt(((a - b) ** 2).mean() / (b**2).mean()))


@pytest.mark.parametrize("chunk", [1, 2, 7, 1000])
def test_chunks_change_nothing(chunk):
    """But the precision: a chunk with what is not finite is compared in float64."""
    torch.manual_seed(4)
    b = torch.randn(101, 3)
    a = b + 1e-3 * torch.randn_like(b)
    a[7, 1], b[7, 1] = NAN, NAN
    a[50, 0], b[50, 0] = INF, INF
    for answer in (a, torch.where(torch.arange(303).reshape(101, 3) == 200, -INF, a)):
        whole, parts = compare(answer, b), compare(answer, b, chunk=chunk)
        for field in dataclasses.fields(whole):
            expected = getattr(whole, field.name)
            got = getattr(parts, field.name)
            assert got == (pytest.approx(expected, rel=ROUNDED) if isinstance(expected, float) else expected), (
                field.name
            )


def test_more_elements_than_a_chunk_on_the_cpu():
    """The chunks that this device really uses: an error in the last element of the third is seen."""
    b = torch.zeros(3 * (1 << 16) - 5)
    a = b.clone()
    a[-1] = 0.5
    found = compare(a, b)
    assert (found.critical_tolerance, found.max_abs_error, found.equal) == (0.5, 0.5, False)


# --- what is not finite -------------------------------------------------------------------------------------------


def test_nonfinite_values_that_agree_are_no_mismatch():
    a = torch.tensor([NAN, INF, -INF, 1.0, 2.0])
    found = compare(a, torch.tensor([NAN, INF, -INF, 1.0, 4.0]))
    assert (found.nan_count, found.inf_count, found.mismatched_nonfinite, found.reference_nonfinite) == (1, 2, 0, 3)
    assert found.critical_tolerance == pytest.approx(2 / 5)
    assert found.equal is False
    assert compare(a, a.clone()).equal is True


@pytest.mark.parametrize(
    ("answer", "reference", "in_reference"),
    [
        (NAN, 1.0, 0),
        (INF, 1.0, 0),
        (-INF, 1.0, 0),
        (1.0, NAN, 1),
        (1.0, INF, 1),
        (INF, -INF, 1),
        (NAN, INF, 1),
        (INF, NAN, 1),
    ],
)
def test_nonfinite_on_one_side_or_of_another_kind_is_a_mismatch(answer, reference, in_reference):
    rest = [0.5] * 10
    found = compare(torch.tensor([*rest, answer]), torch.tensor([*rest, reference]))
    assert (found.mismatched_nonfinite, found.reference_nonfinite) == (1, in_reference)
    assert found.critical_tolerance is found.max_abs_error is found.rms_relative_error is None
    assert found.equal is False


def test_infinities_of_both_signs_do_not_hide_each_other():
    """A sum over them is NaN, and two of them cancel in nothing: each is counted."""
    found = compare(torch.tensor([INF, -INF, 1.0]), torch.tensor([1.0, 1.0, 1.0]))
    assert (found.inf_count, found.nan_count, found.mismatched_nonfinite) == (2, 0, 2)


def test_finite_values_whose_sum_is_not_are_finite():
    big = torch.full((100,), 3e38)  # its float32 sum would be inf
    found = compare(big, big.clone())
    assert (found.mismatched_nonfinite, found.reference_nonfinite, found.critical_tolerance) == (0, 0, 0.0)
    assert found.reference_rms == pytest.approx(3e38)
    huge = torch.full((100,), 1e308, dtype=torch.float64)  # so is its float64 sum
    found = compare(huge, huge.clone())
    assert (found.mismatched_nonfinite, found.inf_count, found.critical_tolerance, found.equal) == (0, 0, 0.0, True)


def test_float64_extremes_still_give_a_number_to_judge():
    """Without one a record could not be judged: no failure and no tolerance."""
    worst = torch.tensor([1.7e308, 1.0], dtype=torch.float64)
    found = compare(worst, torch.tensor([-1.0, 1.0], dtype=torch.float64))
    assert found.critical_tolerance == pytest.approx(0.85e308)
    assert found.rms_relative_error == sys.float_info.max  # beyond what float64 holds: capped, never absent
    found = compare(worst, -worst)
    assert found.max_abs_error == sys.float_info.max
    assert found.critical_tolerance == sys.float_info.max
    tiny = torch.tensor([5e-324], dtype=torch.float64)
    assert compare(tiny, torch.zeros(1, dtype=torch.float64)).critical_tolerance == 5e-324


def test_a_reference_beyond_squaring_is_no_perfect_agreement():
    big = torch.tensor([1e200], dtype=torch.float64)
    found = compare(2 * big, big)
    assert found.rms_relative_error is None
    assert found.critical_tolerance == pytest.approx(1.0)


# --- shapes and several outputs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(0,), (3, 0, 2)])
def test_nothing_to_compare_agrees(shape):
    found = compare(torch.empty(shape), torch.empty(shape))
    assert (found.critical_tolerance, found.max_abs_error, found.equal) == (0.0, 0.0, True)
    assert found.reference_rms is None


@pytest.mark.parametrize("shapes", [((2, 3), (3, 2)), ((1,), (4,)), ((), (1,))])
def test_shapes_are_never_broadcast(shapes):
    with pytest.raises(ValueError, match="shapes differ"):
        compare(torch.zeros(shapes[0]), torch.zeros(shapes[1]))


def test_neither_side_is_changed():
    a, b = torch.tensor([1.0, NAN, 3.0]).double(), torch.tensor([-2.0, NAN, INF]).double()
    before = a.clone(), b.clone()
    compare(a, b)
    assert torch.equal(a.nan_to_num(7.0), before[0].nan_to_num(7.0))
    assert torch.equal(b.nan_to_num(7.0), before[1].nan_to_num(7.0))


def test_combine_takes_the_worst_of_each():
    one = compare(torch.tensor([1.0, 2.5]), torch.tensor([1.0, 2.0]))
    two = compare(torch.tensor([10.0]), torch.tensor([0.5]))
    both = combine([one, two])
    assert both.critical_tolerance == two.critical_tolerance == max(one.critical_tolerance, two.critical_tolerance)
    assert both.max_abs_error == 9.5
    assert both.reference_max_abs == 2.0
    assert both.equal is False
    assert combine([one]) == one


def test_combine_of_a_mismatch_has_no_number():
    good = compare(torch.tensor([1.0]), torch.tensor([1.0]))
    bad = compare(torch.tensor([NAN, INF]), torch.tensor([1.0, 2.0]))
    both = combine([good, bad])
    assert both.critical_tolerance is both.max_abs_error is None
    assert (both.nan_count, both.inf_count, both.mismatched_nonfinite, both.equal) == (1, 1, 2, False)


def test_combine_leaves_out_a_reference_of_zeros_for_the_relative_error_only():
    zeros = compare(torch.tensor([3.0]), torch.tensor([0.0]))
    other = compare(torch.tensor([1.1]), torch.tensor([1.0]))
    both = combine([zeros, other])
    assert both.rms_relative_error == other.rms_relative_error
    assert both.critical_tolerance == 3.0


def test_combine_of_nothing_is_an_error():
    with pytest.raises(ValueError, match="nothing was compared"):
        combine([])
