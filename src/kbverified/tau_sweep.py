"""Rows of the kernel table at another tau, from the critical tolerances in them: no record is read, nothing reruns.

The rule is that of the aggregation, ``verdicts.by_tolerance``, and the row is what it would have written. What no
tolerance can mend stays as it is, and so does everything measured. A candidate that needs more than
``protocol.TIMING_WORTHLESS_TOLERANCE`` under the original inputs was not timed: beyond that tau, passes lack times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kbverified import protocol
from kbverified.aggregation import non_discriminating
from kbverified.kernel_table import column_name
from kbverified.keys import ProblemKey
from kbverified.metrics import within_tolerance
from kbverified.records.problem import ProblemRecord
from kbverified.verdicts import Judgement, Test, by_tolerance

Row = Mapping[str, Any]

_BY_TOLERANCE = ("wrong_value", "weights_differ")
NO_HARDENED = "the row was judged at another tau, at which it failed the hidden test: aggregate again at this tau"


def rows_at(
    rows: Iterable[Row], tau: Mapping[str, float], problems: Mapping[ProblemKey, ProblemRecord | None]
) -> list[dict[str, Any]]:
    """Rows of any generators at ``tau`` (by dtype; a dtype that is not named keeps the rows' own).

    ``problems``: the audits, for ``non_discriminating``. The hardened verdict of a row that passes hidden only at the
    new tau is null with a reason: the table does not hold what it would be. Raises ValueError for a tau <= 0.
    """
    return [_row_at(row, tau[row["dtype"]], problems) if row["dtype"] in tau else dict(row) for row in rows]


def distributions_of(row: Row, test: Test = "hidden") -> tuple[str, ...]:
    """The distributions of the standard or the hidden test of a row's problem, in protocol order."""
    named = row["applicable_distributions"]
    every = tuple(named.split(", ")) if named else _known(row)
    return every if test != "standard" else tuple(name for name in every if name == protocol.STANDARD_DISTRIBUTION)


def needed_tau(row: Row, test: Test = "hidden") -> float | None:
    """The smallest tau at which a row passes the standard or hidden test; None where it passes at none, or is not
    judged by its tolerances."""
    if not _decided_by_tolerance(row, test):
        return None
    values = _tolerances(row, test).values()
    known = [value for value in values if value is not None]
    return max(known) if known and len(known) == len(values) else None


def timed_beyond(row: Row, stage: str, tau: float) -> bool:
    """Whether an output of a launch that a timing stage measured needs more than tau. No verdict: TF32 may be on there,
    and the record holds such outputs against a limit of its own (protocol.TIMED_OUTPUT_RMS_LIMIT)."""
    return within_tolerance(row[f"{column_name(stage)}_critical_tolerance"], tau) is False


def _known(row: Row) -> tuple[str, ...]:
    """Without an audit: what the gate compared."""
    return tuple(name for name in protocol.DISTRIBUTIONS if row[f"critical_tolerance_{name}"] is not None)


def _tolerances(row: Row, test: Test) -> dict[str, float | None]:
    return {name: row[f"critical_tolerance_{name}"] for name in distributions_of(row, test)}


def _decided_by_tolerance(row: Row, test: Test) -> bool:
    """Whether tau alone made this verdict, so that another tau may make another."""
    verdict, values = row[f"verdict_{test}"], list(_tolerances(row, test).values())
    if row["tau"] is None:  # no stage record at all
        return False
    beyond = any(within_tolerance(value, row["tau"]) is False for value in values)
    if verdict in _BY_TOLERANCE:
        return beyond
    # Without a verdict: the reference was not finite on one trial, and the others were compared.
    return verdict == "pass" or (verdict is None and any(value is not None for value in values))


def _judged(row: Row, test: Test, tau: float) -> Judgement:
    tolerances = _tolerances(row, test)
    if _decided_by_tolerance(row, test):
        return by_tolerance(tolerances, tau, row["weights_match"])
    detail = row["verdict_detail"] if test == "hidden" else None
    before = _names(row[f"failed_{test}"])
    failed = tuple(name for name, value in tolerances.items() if _fails(name in before, value, row["tau"], tau))
    return Judgement(row[f"verdict_{test}"], detail, failed, row[f"why_null_verdict_{test}"])


def _fails(before: bool, tolerance: float | None, old: float, new: float) -> bool:
    """A distribution beside one that no tolerance can mend: it failed for a reason of its own, or by its tolerance."""
    own = before and within_tolerance(tolerance, old) is not False
    return own or within_tolerance(tolerance, new) is False


def _row_at(row: Row, tau: float, problems: Mapping[ProblemKey, ProblemRecord | None]) -> dict[str, Any]:
    result = {**row, "tau": tau}
    problem = problems.get(ProblemKey(row["suite"], row["problem"]))
    if problem is not None:
        result["non_discriminating"] = non_discriminating(problem, tau)
    tests: Sequence[Test] = ("standard", "hidden")
    for test in tests:
        judgement = _judged(row, test, tau)
        result |= _columns(test, judgement)
        if test == "hidden":
            result["verdict_detail"] = judgement.detail
    return result | _hardened(row, result)


def _hardened(row: Row, result: Row) -> dict[str, Any]:
    """Columns of the hardened test: the hidden test's where that fails, else what was found once hidden had passed."""
    if result["verdict_hidden"] != "pass":
        hidden = Judgement(
            result["verdict_hidden"], None, _names(result["failed_hidden"]), result["why_null_verdict_hidden"]
        )
        return _columns("hardened", hidden) | {"hardened_detail": None}
    if row["verdict_hidden"] != "pass":
        return _columns("hardened", Judgement(None, why_null=NO_HARDENED)) | {"hardened_detail": None}
    return {}


def _columns(test: Test, judgement: Judgement) -> dict[str, Any]:
    return {
        f"verdict_{test}": judgement.verdict,
        f"failed_{test}": ", ".join(judgement.failed) or None,
        f"why_null_verdict_{test}": judgement.why_null,
    }


def _names(joined: str | None) -> tuple[str, ...]:
    return tuple(joined.split(", ")) if joined else ()
