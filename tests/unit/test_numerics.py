"""Limits and classes from figures alone."""

from __future__ import annotations

import pytest

from kbverified import protocol
from kbverified.numerics import classify
from kbverified.records.trials import NumericsEvidence, OracleErrors
from kbverified.scaled_limit import limit, within

FLOOR = protocol.SCALED_LIMIT_FLOOR["fp32"]


def figures(candidate: float | None, **changes) -> NumericsEvidence:
    usual = dict(fp32_rms_error=2e-7, ten_bits_rms_error=3e-4, seven_bits_rms_error=2.4e-3, products=1, elements=4096)
    return NumericsEvidence(candidate_rms_error=candidate, **{**usual, **changes})


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (0.0, "fp32"),
        (2e-7, "fp32"),
        (5e-6, "fp32"),  # a plain loop over a long sum
        (3e-5, "fp32"),
        (6e-5, "undetermined"),
        (2e-4, "tf32"),
        (3e-4, "tf32"),
        (7e-4, "tf32"),
        (1.2e-3, "half"),
        (2.4e-3, "half"),
        (1e-2, "half"),
        (0.5, "undetermined"),
    ],
)
def test_the_nearest_arithmetic(error, name):
    found = classify(figures(error))
    assert found.name == name
    assert (found.why is None) == (name != "undetermined")


def test_without_products_ten_bits_are_fp16():
    assert classify(figures(3e-4, products=0)).name == "half"
    assert classify(figures(2e-7, products=0)).name == "fp32"


def test_an_exact_reference_is_no_division_by_zero():
    assert classify(figures(0.0, fp32_rms_error=0.0, products=0)).name == "fp32"
    assert classify(figures(2e-4, fp32_rms_error=0.0, products=0)).name == "half"


@pytest.mark.parametrize(
    ("evidence", "why"),
    [
        (None, "no figures"),
        (NumericsEvidence(why_none="no float64 oracle: it raised"), "it raised"),
        (figures(None), "zero throughout"),
        (figures(2e-7, elements=1), "an output of 1 elements"),
        (figures(2e-7, ten_bits_rms_error=1e-6, seven_bits_rms_error=4e-6), "hardly changes"),
        (figures(2e-7, seven_bits_rms_error=None), "no finite output"),
    ],
)
def test_what_cannot_be_told_says_why(evidence, why):
    found = classify(evidence)
    assert found.name == "undetermined" and why in (found.why or "")


def test_where_only_bf16_is_far_enough_tf32_is_not_named():
    close = dict(ten_bits_rms_error=4e-6, seven_bits_rms_error=3.2e-5)
    assert classify(figures(2e-7, **close)).name == "fp32"
    assert classify(figures(3.2e-5, **close)).name == "half"
    assert classify(figures(8e-6, **close)).name == "undetermined"  # TF32, or a plain loop: nobody can say


def test_the_limit_follows_the_reference_and_never_falls_below_the_floor():
    assert limit("fp32", None) == limit("fp32", 0.0) == limit("fp32", 1e-9) == FLOOR
    assert limit("fp32", 1.0) == protocol.SCALED_LIMIT_MARGIN
    assert limit("bf16", None) > limit("fp32", None)


def errors(**fields) -> OracleErrors:
    return OracleErrors(kind="fp64", **fields)


def test_an_answer_is_right_within_the_limit():
    assert within(errors(scaled_error=FLOOR, reference_scaled_error=1e-7), "fp32") is True
    assert within(errors(scaled_error=1.01 * FLOOR, reference_scaled_error=1e-7), "fp32") is False
    assert within(errors(scaled_error=1.01 * FLOOR, reference_scaled_error=FLOOR), "fp32") is True


def test_integers_have_to_be_right_in_every_element():
    assert within(errors(wrong_elements=0), "fp32") is True
    assert within(errors(wrong_elements=1), "fp32") is False
    assert within(errors(wrong_elements=1, scaled_error=0.0), "fp32") is False


def test_without_figures_nothing_is_said():
    assert within(OracleErrors(kind="none", why_not_fp64="no memory"), "fp32") is None
