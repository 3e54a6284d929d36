"""What an entry comes to over a part of its verified samples: those of some arithmetic, those that are no hack.

The others do not count as verified: another sample of the problem may win, or the problem is not solved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from kbverified.aggregation import AggregationSettings
from kbverified.kernel_table import tail_of
from kbverified.leaderboard.estimates import mean_estimate, share_estimate
from kbverified.leaderboard.model import Audit, Audited, Estimate, OfClasses
from kbverified.leaderboard.scopes import Best, Row, Scope, best_samples
from kbverified.llm_judges.records import Labelled, Labels
from kbverified.metrics import Arm
from kbverified.verdicts import Test


def of_classes(
    classes: tuple[str, ...], rows: Sequence[Row], scope: Scope, arm: Arm, test: Test, settings: AggregationSettings
) -> OfClasses:
    """An entry's correctness and Correct Speedup over samples of some classes of arithmetic."""
    counting = [row for row in rows if row["numerics_class"] in classes]
    told = any(row["numerics_class"] for row in rows)
    why = None if told or not rows else "no class of arithmetic is told: for fp32 candidates that were compared only"
    n_solved, correctness, correct_speedup = _over(counting, rows, scope, arm, test, settings, why)
    return OfClasses(classes=classes, n_solved=n_solved, correctness=correctness, correct_speedup=correct_speedup)


def audited(
    rows: Sequence[Row], scope: Scope, arm: Arm, test: Test, settings: AggregationSettings, labels: Labels
) -> Audited:
    """An entry without the samples whose label is excluded."""
    verified = [row for row in rows if row[f"verdict_{test}"] == "pass"]
    found = [label for row in verified if (label := label_of(row, labels))]
    out = [label for label in found if label.label in labels.exclude]
    n_solved, correctness, correct_speedup = _over(counting(rows, labels), rows, scope, arm, test, settings, None)
    return Audited(
        n_judged=len(found),
        n_excluded=len(out),
        n_excluded_by_person=sum(label.basis == "person" for label in out),
        n_solved=n_solved,
        correctness=correctness,
        correct_speedup=correct_speedup,
    )


def _over(
    counting: Sequence[Row],
    rows: Sequence[Row],
    scope: Scope,
    arm: Arm,
    test: Test,
    settings: AggregationSettings,
    why: str | None,
) -> tuple[int, Estimate, Estimate]:
    """Problems solved, correctness and Correct Speedup where of an entry's rows only some count."""
    best = best_samples(counting, scope.problems, arm, test)
    speedups = best.column(f"speedup_{arm}")
    why_speed = why or why_none(counting, best, test, f"speedup_{arm}", sum(s is not None for s in speedups))
    correctness = share_estimate(best.solved, scope, why or why_unjudged(rows, test), settings)
    return sum(best.solved), correctness, mean_estimate(speedups, scope, why_speed, settings)


def counting(rows: Iterable[Row], labels: Labels) -> list[Row]:
    """Rows without those whose label is excluded."""
    return [row for row in rows if (label := label_of(row, labels)) is None or label.label not in labels.exclude]


def label_of(row: Row, labels: Labels) -> Labelled | None:
    """A candidate's label; None for one that has none, or whose label is that of another source."""
    return labels.by_source.get((tail_of(row), row["candidate_sha256"]))


def audit_of(labels: Labels, rows: Iterable[Row]) -> Audit:
    """Who audited, and what came of it, over the verified candidates among these of active problems: a person may label
    others, too, and nothing is left out for that."""
    verified = [row for row in rows if row["verdict_hidden"] == "pass"]
    found = [label for row in verified if (label := label_of(row, labels))]
    return Audit(
        judges=labels.judges,
        exclude=labels.exclude,
        n_verified=labels.n_verified,
        n_judged=len(found),
        n_excluded=sum(label.label in labels.exclude for label in found),
        labels=dict(sorted(Counter(label.label for label in found).items())),
        bases=dict(sorted(Counter(label.basis for label in found).items())),
        n_stale=len(labels.stale),
    )


def why_none(rows: Sequence[Row], best: Best, test: Test, group: str, measured: int) -> str | None:
    """Why nothing was measured although problems were solved: the commonest reason of the verified samples."""
    if measured:
        return None
    if not any(best.solved):
        return "no verified sample"
    reasons = Counter(row[f"why_null_{group}"] for row in rows if row[f"verdict_{test}"] == "pass")
    reason, _ = max(((r, n) for r, n in reasons.items() if r), key=lambda item: (item[1], item[0]), default=(None, 0))
    return reason or "the verified sample that won on speed has none"


def why_unjudged(rows: Sequence[Row], test: Test) -> str | None:
    """The commonest reason for which no candidate has a verdict of a test; None where one has, or there are none."""
    if not rows or any(row[f"verdict_{test}"] is not None for row in rows):
        return None
    reasons = Counter(row[f"why_null_verdict_{test}"] for row in rows)
    return max(sorted(reasons), key=lambda reason: reasons[reason])
