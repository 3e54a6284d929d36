"""Whether a scaled error is too large: against what the reference itself is off by. Torch-free, no record is made here.

The limit follows the reference's own error *in the gate's precision mode*: where TF32 is declared, TF32's error is
allowed, and where a problem cancels, so is what every float32 kernel shows there.
"""

from __future__ import annotations

from collections.abc import Sequence

from kbverified.protocol import (
    SCALED_LIMIT_FLOOR,
    SCALED_LIMIT_FLOOR_FACTOR,
    SCALED_LIMIT_MARGIN,
    SCALED_LIMIT_SHARE_ELSEWHERE,
)
from kbverified.records.trials import OracleErrors


def limit(dtype: str, reference_scaled_error: float | None, law: str = "") -> float:
    """max(floor of the dtype, margin * the reference's own error); the floor alone where that is unknown.

    ``law``: one that has a higher floor (``with_higher_floor``), else "". Raises KeyError for a dtype without a floor.
    """
    floor = SCALED_LIMIT_FLOOR[dtype] * SCALED_LIMIT_FLOOR_FACTOR.get(dtype, {}).get(law, 1.0)
    return max(floor, SCALED_LIMIT_MARGIN * (reference_scaled_error or 0.0))


def with_higher_floor(errors: Sequence[tuple[str, OracleErrors | None]], dtype: str) -> frozenset[str]:
    """Those of these laws under which an answer has a higher floor: where it is exact under all others. None otherwise.

    ``errors``: of the answer, each with its law; None where there is no figure.
    """
    higher = SCALED_LIMIT_FLOOR_FACTOR.get(dtype, {}).keys()
    others = [one for law, one in errors if law not in higher]
    exact = bool(others) and all(_exact(one, dtype) for one in others)
    return frozenset(law for law, _ in errors if law in higher) if exact else frozenset()


def _exact(errors: OracleErrors | None, dtype: str) -> bool:
    if errors is None or errors.wrong_elements:
        return False
    if errors.scaled_error is None:
        return errors.wrong_elements == 0
    return errors.scaled_error <= SCALED_LIMIT_SHARE_ELSEWHERE * limit(dtype, errors.reference_scaled_error)


def within(errors: OracleErrors, dtype: str, law: str = "") -> bool | None:
    """Whether a trial's answer is right on the oracle's scale; None where there is no figure to say so by.

    Integer and bool outputs have to be right in every element. Raises KeyError as ``limit`` does.
    """
    if errors.wrong_elements:
        return False
    if errors.scaled_error is not None:
        return errors.scaled_error <= limit(dtype, errors.reference_scaled_error, law)
    return True if errors.wrong_elements == 0 and errors.rms_error is None else None
