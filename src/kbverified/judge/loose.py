"""The outputs of launches that were measured: not judged against tau, as the gate does, only against being made up."""

from __future__ import annotations

from typing import Any

from kbverified.protocol import TIMED_OUTPUT_RMS_LIMIT


def loose_verdict(worst: Any, launch: str = "timed", limit: float = TIMED_OUTPUT_RMS_LIMIT) -> dict[str, Any]:
    """Verdict on the outputs of launches whose figures are kept: TF32 may be on, so only what is far off is wrong.

    ``limit``: the largest relative rms error that is not.
    """
    if worst.mismatched_nonfinite:
        return {"verdict": "nonfinite", "detail": f"a {launch} launch gave NaN or Inf where the reference is finite"}
    error = worst.rms_relative_error
    if error is not None and error > limit:
        return {"verdict": "wrong_value", "detail": f"a {launch} launch's output is off by {error:.3g} (relative rms)"}
    return {"verdict": "pass", "detail": None}
