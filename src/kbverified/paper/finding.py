"""A finding: one sentence with its interval and its conditions, and how sure the data let us be.

Wording follows from the outcome, here and nowhere else. A claim whose interval crosses its threshold is undecided,
and nothing that was not measured is claimed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from pydantic import TypeAdapter

from kbverified.leaderboard.model import Estimate

if TYPE_CHECKING:
    from kbverified.paper.inputs import PaperInputs

Outcome = Literal["holds", "does not hold", "undecided", "not measured"]
Direction = Literal["above", "below"]
Form = Literal["factor", "percent", "number"]


@dataclass(frozen=True)
class Finding:
    """One sentence of findings.md. Raises ValueError where the outcome is none that the estimate allows."""

    topic: str
    """Name of the module that says it."""
    sentence: str
    conditions: str
    """Under what it was measured: ``conditions`` below words it."""
    estimate: Estimate | None
    """None: a count, or nothing was measured."""
    threshold: float | None
    """None: the sentence reports and compares with nothing."""
    outcome: Outcome

    def __post_init__(self) -> None:
        if self.outcome not in get_args(Outcome):
            raise ValueError(f"finding of {self.topic}: outcome {self.outcome!r} is none of {get_args(Outcome)}")
        if self.threshold is not None and self.outcome == "holds" and self.estimate is None:
            raise ValueError(f"finding of {self.topic}: holds against {self.threshold} without an estimate")
        if not self.conditions:
            raise ValueError(f"finding of {self.topic}: conditions are missing: {self.sentence}")


def decide(estimate: Estimate | None, threshold: float, direction: Direction = "above") -> Outcome:
    """Whether the estimated number is (strictly) above or below a threshold.

    ``undecided`` where the interval has both sides of the threshold, or there is none.
    """
    if estimate is None or estimate.value is None:
        return "not measured"
    if estimate.low is None or estimate.high is None:
        return "undecided"
    if direction == "above":
        return "holds" if estimate.low > threshold else "does not hold" if estimate.high <= threshold else "undecided"
    return "holds" if estimate.high < threshold else "does not hold" if estimate.low >= threshold else "undecided"


def claim(
    topic: str,
    subject: str,
    estimate: Estimate | None,
    threshold: float,
    conditions: str,
    *,
    direction: Direction = "above",
    form: Form = "factor",
) -> Finding:
    """The finding that a number is above (below) a threshold, worded as the data allow.

    ``subject`` names the number as the subject of a sentence: ``the Correct Speedup of gpt-5.5 on level 1``.
    """
    outcome = decide(estimate, threshold, direction)
    more = _more_digits(estimate, threshold, form) if outcome in ("holds", "does not hold") else 0
    limit = number(threshold, form, more)
    if estimate is None or outcome == "not measured":
        why = estimate.why_null if estimate is not None else None
        sentence = f"{_capital(subject)} was not measured{f': {why}' if why else ''}."
    elif outcome == "undecided":
        sentence = f"Whether {subject} is {direction} {limit} is undecided: {measured(estimate, form)}."
    else:
        sentence = f"{_capital(subject)} is {'' if outcome == 'holds' else 'not '}{direction} {limit}: " + (
            f"{measured(estimate, form, more)}."
        )
    return Finding(topic, sentence, conditions, estimate, threshold, outcome)


def report(topic: str, subject: str, estimate: Estimate | None, conditions: str, *, form: Form = "factor") -> Finding:
    """The finding that a number is what it is; ``subject`` as in ``claim``."""
    if estimate is None or estimate.value is None:
        why = estimate.why_null if estimate is not None else None
        sentence = f"{_capital(subject)} was not measured{f': {why}' if why else ''}."
        return Finding(topic, sentence, conditions, estimate, None, "not measured")
    sentence = f"{_capital(subject)} is {measured(estimate, form)}."
    return Finding(topic, sentence, conditions, estimate, None, "holds")


_MOST_MORE_DIGITS = 6


def _more_digits(estimate: Estimate | None, threshold: float, form: Form) -> int:
    """Digits beyond the usual ones with which no bound that differs from the threshold is printed as if it were it."""
    ends = [end for end in (estimate.low, estimate.high) if end is not None and end != threshold] if estimate else []
    for more in range(_MOST_MORE_DIGITS):
        if all(number(end, form, more) != number(threshold, form, more) for end in ends):
            return more
    return _MOST_MORE_DIGITS


def measured(estimate: Estimate, form: Form = "factor", more: int = 0) -> str:
    """``0.88 [0.80, 0.97], n 98``, or without an interval and why. Raises ValueError for an estimate without value.

    ``more``: as of ``number``.
    """
    if estimate.value is None:
        raise ValueError(f"there is no value to word: {estimate.why_null}")
    text = number(estimate.value, form, more)
    if estimate.low is None or estimate.high is None:
        return f"{text}, n {estimate.n} ({estimate.why_null})"
    return f"{text} [{number(estimate.low, form, more)}, {number(estimate.high, form, more)}], n {estimate.n}"


def number(value: float, form: Form = "factor", more: int = 0) -> str:
    """A number as findings print it, with so many ``more`` digits than usual."""
    if form == "percent":
        return f"{100 * value:.{1 + more}f} %"
    return f"{value:.{2 + more}f}" if form == "factor" else f"{value:.{3 + more}g}"


def conditions(
    inputs: PaperInputs,
    *,
    arm: str | None = None,
    test: str | None = None,
    dtype: str | None = None,
    tau: float | None = None,
    problems: str | None = None,
) -> str:
    """Conditions in words: what is given, then device and software. ``tau`` None: that of ``dtype`` in the settings."""
    c = inputs.leaderboard.conditions
    tau = c.tau.get(dtype) if tau is None and dtype else tau
    parts = [f"{arm} arm" if arm else None, f"{test} test" if test else None, f"tau {tau:g}" if tau else None]
    parts += [dtype, problems, "; ".join(c.environments) or "no device"]
    return ", ".join(part for part in parts if part)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


# --- JSON, between a topic's job and findings.md ------------------------------------------------------------

_FINDINGS = TypeAdapter(list[Finding])


def to_json(findings: Sequence[Finding]) -> str:
    return _FINDINGS.dump_json(list(findings), indent=1).decode() + "\n"


def from_json(text: str) -> list[Finding]:
    """Inverse of ``to_json``. Raises pydantic's ValidationError, a ValueError."""
    return _FINDINGS.validate_json(text)
