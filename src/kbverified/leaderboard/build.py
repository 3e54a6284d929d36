"""From kernel tables and problem audits to a leaderboard. Nothing is read from disk here.

Which problems count, and who wins on them, is in scopes.py; memory is that of the winner. All intervals (estimates.py)
come from one set of resampled problems per scope, the same for every generator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pandas as pd

from kbverified import kernel_table, metrics
from kbverified.aggregation import AggregationSettings, non_discriminating
from kbverified.kernel_table import MEMORY_FIELDS
from kbverified.keys import ProblemKey
from kbverified.leaderboard.conditions import arms_of, check_frames, conditions_of, summary_of
from kbverified.leaderboard.estimates import estimate_of, mean_estimate, share_estimate
from kbverified.leaderboard.model import Common, Entry, Estimate, Excluded, Leaderboard
from kbverified.leaderboard.scopes import Best, Row, Scope, best_samples, dtype_of, scopes, why_inactive
from kbverified.leaderboard.subsets import audit_of, audited, of_classes, why_none, why_unjudged
from kbverified.llm_judges.records import Labels
from kbverified.metrics import Arm
from kbverified.records.problem import ProblemRecord
from kbverified.roofline.columns import claim_stage
from kbverified.roofline.score import mean_interval
from kbverified.verdicts import Test

NUMERICS_SHOWN = (("fp32",), ("fp32", "undetermined"))
"""Classes of arithmetic (numerics.py) that count together: what is known to be float32, and what is not known to be
narrower, as where rounding operands hardly changes an output."""


def build(
    frames: Mapping[str, pd.DataFrame],
    problems: Mapping[ProblemKey, ProblemRecord | None],
    settings: AggregationSettings,
    only: Collection[tuple[Arm, Test]] | None = None,
    labels: Labels | None = None,
) -> Leaderboard:
    """The leaderboard of some generators (name -> kernel table) on the selected problems (key -> audit).

    ``only``: the entries of these arms and tests alone, for who asks nothing else of it; None: all of them.
    ``labels``: those of LLM judges and of a person, for the audited columns; no other number depends on them.
    Raises ValueError for a table that holds another generator's rows or a problem that was not selected, and
    MixedEnvironments where tables come from different environments, unless the settings allow it.
    """
    tables: dict[str, list[dict[str, Any]]] = {name: kernel_table.rows(frame) for name, frame in frames.items()}
    problems = dict(sorted(problems.items(), key=lambda item: (item[0].suite, item[0].level, item[0].number)))
    _check_keys(tables, problems)
    if not settings.allow_mixed:
        check_frames(tables)
    excluded = [
        Excluded(suite=k.suite, problem=k.problem, reason=why)
        for k, why in ((k, why_inactive(p)) for k, p in problems.items())
        if why
    ]
    dtypes = {name: dtype_of(rows) for name, rows in tables.items()}
    entries, common = [], []
    for scope_of in scopes(problems, dtypes.values(), settings):
        every = scope_of["standard"]
        weak = {d: _weak_problems(problems, every.suite, settings.tau.get(d or "")) for d in set(dtypes.values())}
        for arm in arms_of(settings):
            for test, scope in scope_of.items():
                if only is not None and (arm, test) not in only:
                    continue
                best: dict[str, Best] = {}
                for name, rows in tables.items():
                    here = [row for row in rows if row["suite"] == scope.suite and row["problem"] in scope.problems]
                    if any(row["suite"] == scope.suite for row in rows):
                        best[name] = best_samples(here, scope.problems, arm, test)
                        entries.append(
                            _entry(
                                name,
                                dtypes[name],
                                scope,
                                arm,
                                test,
                                here,
                                best[name],
                                weak[dtypes[name]],
                                settings,
                                labels,
                            )
                        )
                if every.level is None:
                    common += common_of(best, dtypes, scope, arm, test, settings)
    order = {name: i for i, name in enumerate(tables)}
    entries.sort(key=lambda e: (e.suite, order[e.generator]))
    active = {str(key) for key, problem in problems.items() if not why_inactive(problem)}
    counting = [row for rows in tables.values() for row in rows if f"{row['suite']}/{row['problem']}" in active]
    return Leaderboard(
        conditions=conditions_of(tables, problems, len(active), settings),
        entries=tuple(entries),
        common=tuple(common),
        generators=tuple(summary_of(name, dtypes[name], rows, settings) for name, rows in tables.items()),
        excluded=tuple(excluded),
        audit=audit_of(labels, counting) if labels is not None else None,
        non_discriminating={
            dtype: tuple(
                str(key)
                for key, problem in problems.items()
                if str(key) in active and problem and non_discriminating(problem, settings.tau.get(dtype))
            )
            for dtype in sorted({d for d in dtypes.values() if d})
        },
    )


def _check_keys(tables: Mapping[str, Sequence[Row]], problems: Mapping[ProblemKey, ProblemRecord | None]) -> None:
    for name, rows in tables.items():
        for row in rows:
            if row["generator"] != name:
                raise ValueError(f"the table of {name} has a row of generator {row['generator']}")
            if ProblemKey(row["suite"], row["problem"]) not in problems:
                raise ValueError(
                    f"the table of {name} has {row['suite']}/{row['problem']}, which is not selected: "
                    "aggregate it again under this selection"
                )


def _weak_problems(
    problems: Mapping[ProblemKey, ProblemRecord | None], suite: str, tau: float | None
) -> frozenset[str]:
    return frozenset(
        key.problem
        for key, record in problems.items()
        if key.suite == suite and record and non_discriminating(record, tau)
    )


def _entry(
    name: str,
    dtype: str | None,
    scope: Scope,
    arm: Arm,
    test: Test,
    rows: Sequence[Row],
    best: Best,
    weak: frozenset[str],
    settings: AggregationSettings,
    labels: Labels | None,
) -> Entry:
    speedups = best.column(f"speedup_{arm}")
    n_timed = sum(value is not None for value in speedups)
    why_speed = why_none(rows, best, test, f"speedup_{arm}", n_timed)
    # With nothing solved, no problem is above p, measured or not.
    why_share = why_speed if any(best.solved) else why_unjudged(rows, test)
    memory = {field: best.column(f"memory_ratio_{field}") for field in MEMORY_FIELDS}
    why_memory = {
        field: why_speed or why_none(rows, best, test, "memory", sum(v is not None for v in values))
        for field, values in memory.items()
    }
    with_candidate = {row["problem"] for row in rows}
    verified = [row for row in rows if row[f"verdict_{test}"] == "pass"]
    return Entry(
        generator=name,
        dtype=dtype,
        suite=scope.suite,
        level=scope.level,
        arm=arm,
        test=test,
        n_problems=len(scope.problems),
        n_undecidable=scope.undecidable,
        n_without_candidate=sum(problem not in with_candidate for problem in scope.problems),
        n_samples=len(rows),
        n_solved=sum(best.solved),
        n_solved_non_discriminating=sum(s and p in weak for s, p in zip(best.solved, scope.problems)),
        n_timed=n_timed,
        correctness=share_estimate(best.solved, scope, why_unjudged(rows, test), settings),
        correct_speedup=mean_estimate(speedups, scope, why_speed, settings),
        fast_p={
            f"{p:g}": share_estimate(metrics.above(speedups, p), scope, why_share, settings) for p in settings.fast_p
        },
        sol_score=_sol_score(verified, best, scope, arm, why_speed, settings),
        n_implausible=sum(_claim(row, arm, "implausible") is True for row in verified),
        n_below_floor=sum(
            _claim(row, arm, "below_floor") is True and _claim(row, arm, "implausible") is not True for row in verified
        ),
        n_by_numerics=dict(sorted(Counter(row["numerics_class"] for row in verified if row["numerics_class"]).items())),
        audited=audited(rows, scope, arm, test, settings, labels) if labels is not None else None,
        by_numerics=tuple(of_classes(classes, rows, scope, arm, test, settings) for classes in NUMERICS_SHOWN),
        memory_efficiency={f: mean_estimate(values, scope, why_memory[f], settings) for f, values in memory.items()},
        memory_efficient={
            f: share_estimate(
                metrics.above(values, 1.0), scope, why_memory[f] if any(best.solved) else why_share, settings
            )
            for f, values in memory.items()
        },
    )


def _claim(row: Row, arm: Arm, field: str) -> Any:
    """A column of the roofline in the record that holds an arm's claim."""
    return row[f"{_claim_group(row, arm)}_{field}"]


def _claim_group(row: Row, arm: Arm) -> str:
    return kernel_table.column_name(claim_stage(arm, row["matched_from"]))


def _sol_score(
    verified: Sequence[Row], best: Best, scope: Scope, arm: Arm, why_speed: str | None, settings: AggregationSettings
) -> Estimate:
    """Mean score of the winners. The published arm has none: its two times have two floors."""
    if arm == "published":
        return Estimate(value=None, n=0, why_null="the published arm crosses two records, each with its own floor")
    scores = [None if row is None else _claim(row, arm, "sol_score") for row in best.winners]
    present = [score for score in scores if score is not None]
    if scope.counts is None or not present:
        whys = [row[f"why_null_roofline_{_claim_group(row, arm)}"] for row in verified]
        reasons = Counter(why for why in whys if why)
        why = max(sorted(reasons), key=lambda reason: reasons[reason]) if reasons else "no winner has a score"
        return Estimate(value=None, n=0, why_null=why_speed or why)
    interval = mean_interval(scores, scope.counts, settings.confidence)
    few = f"no interval: only {len(present)} problems have a value"
    return estimate_of(sum(present) / len(present), interval, len(present), None, few)


def common_of(
    best: Mapping[str, Best],
    dtypes: Mapping[str, str | None],
    scope: Scope,
    arm: Arm,
    test: Test,
    settings: AggregationSettings,
) -> list[Common]:
    """Generators of one dtype on the problems that all of them solved; nothing for a single generator."""
    found = []
    for dtype in sorted({dtypes[name] for name in best}, key=str):
        columns = {n: b.column(f"speedup_{arm}") for n, b in best.items() if dtypes[n] == dtype}
        if len(columns) < 2:
            continue
        shared = [all(column[i] is not None for column in columns.values()) for i in range(len(scope.problems))]
        kept = {n: [v if s else None for v, s in zip(column, shared)] for n, column in columns.items()}
        why = "no problem was solved and timed by all generators"
        found.append(
            Common(
                suite=scope.suite,
                dtype=dtype,
                arm=arm,
                test=test,
                n_problems=sum(shared),
                correct_speedup={n: mean_estimate(values, scope, why, settings) for n, values in kept.items()},
            )
        )
    return found
