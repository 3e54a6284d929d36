"""Under which conditions a leaderboard's numbers hold, and the counts that go beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from kbverified.aggregation import AggregationSettings
from kbverified.candidate_records import MixedEnvironments
from kbverified.kernel_table import EVERY_DIGEST_STAGE, column_name, tail_of
from kbverified.keys import TIME_STAGES, ProblemKey, stages_with
from kbverified.leaderboard.model import Conditions, GeneratorSummary
from kbverified.metrics import ARMS, EVERY_ARM, OPTIONAL_ARMS, Arm
from kbverified.records.problem import ProblemRecord
from kbverified.verdicts import TESTS, Test

Row = Mapping[str, Any]

MODE_COLUMNS = {"hidden-gate": "gate_mode", **{stage: f"{column_name(stage)}_mode" for stage in TIME_STAGES}}
DIGEST_COLUMNS = {stage: f"protocol_digest_{column_name(stage)}" for stage in EVERY_DIGEST_STAGE}
_VERDICTS = tuple(f"{column_name(stage)}_verdict" for stage in TIME_STAGES)


def arms_of(settings: AggregationSettings) -> tuple[Arm, ...]:
    """The three arms that every run has, and those of its optional baselines."""
    return (*ARMS, *(arm for arm in OPTIONAL_ARMS if arm in settings.baselines))


def environment_of(row: Row) -> str | None:
    """Device and software of a row in words, None where no stage used a device."""
    if row["device_kind"] is None:
        return None
    parts = [("driver", row["driver"]), ("torch", row["torch"]), ("CUDA", row["cuda"])]
    versions = [f"{name} {value}" for name, value in parts if value is not None]
    return ", ".join([f"{row['device_name']} ({row['device_kind']})", *versions])


def ceilings_of(row: Row) -> str | None:
    """The ceilings of a row's floors in words, None where it has none."""
    if row["ceiling_bytes_per_s"] is None:
        return None
    rates = (
        ("ieee", "ceiling_ieee_flops_per_s"),
        ("tf32", "ceiling_tf32_flops_per_s"),
        ("bf16", "ceiling_bf16_flops_per_s"),
    )
    flops = ", ".join(f"{name} {row[column] / 1e12:.3g}" for name, column in rates)
    return f"{row['ceiling_bytes_per_s'] / 1e12:.3g} TB/s; {flops} TFLOP/s"


def check_frames(tables: Mapping[str, Sequence[Row]]) -> None:
    """Raises MixedEnvironments where rows differ in device, software, mode or protocol, naming candidates."""
    subjects = {"environment": environment_of}
    subjects |= {f"mode of {stage}": _getter(column) for stage, column in MODE_COLUMNS.items()}
    subjects |= {f"protocol of {stage}": _getter(column) for stage, column in DIGEST_COLUMNS.items()}
    lines = []
    for subject, value_of in subjects.items():
        seen: dict[str, list[str]] = {}
        for row in (row for rows in tables.values() for row in rows):
            if (value := value_of(row)) is not None:
                seen.setdefault(value, []).append(tail_of(row))
        if len(seen) > 1:
            lines.append(f"{subject} differs:")
            lines += [f"  {value}: {len(keys)} candidates ({', '.join(keys[:3])})" for value, keys in seen.items()]
    if lines:
        hint = "Rerun the older ones, leave generators out, or set allow_mixed_environments: true."
        raise MixedEnvironments("\n".join(["tables of different environments in one leaderboard.", *lines, hint]))


def _getter(column: str) -> Any:
    return lambda row: row[column]


def conditions_of(
    tables: Mapping[str, Sequence[Row]],
    problems: Mapping[ProblemKey, ProblemRecord | None],
    n_active: int,
    settings: AggregationSettings,
) -> Conditions:
    """What the tables agree on, or, where mixing was allowed, everything they hold."""
    rows = [row for table in tables.values() for row in table]

    def values(column: str) -> tuple[str, ...]:
        return tuple(sorted({row[column] for row in rows if row[column] is not None}))

    environments = tuple(sorted({e for e in map(environment_of, rows) if e is not None}))
    notes = sorted({note for row in rows if row["arms_note"] for note in row["arms_note"].split("; ")})
    if len(environments) > 1:
        notes.append("environments are mixed")
    asked_for = ("audit-problem", *stages_with(settings.baselines))
    return Conditions(
        tau=settings.tau,
        confidence=settings.confidence,
        resamples=settings.resamples,
        headline_arm=settings.headline_arm,
        headline_test=settings.headline_test,
        suites=tuple(sorted({key.suite for key in problems})),
        n_problems_selected=len(problems),
        n_problems_active=n_active,
        environments=environments,
        ceilings=tuple(sorted({c for c in map(ceilings_of, rows) if c is not None})),
        arms=arms_of(settings),
        modes={stage: values(column) for stage, column in MODE_COLUMNS.items() if stage in asked_for},
        protocol_digests={stage: values(column) for stage, column in DIGEST_COLUMNS.items() if stage in asked_for},
        allow_mixed=settings.allow_mixed,
        findings=values("device_kind") == ("cuda",) and len(environments) == 1,
        notes=tuple(notes),
    )


def final_verdict(row: Row) -> str | None:
    """The hidden verdict or, where that is a pass, what the timing stages or the memory stage found wrong."""
    if row["verdict_hidden"] != "pass":
        return row["verdict_hidden"]
    later = [row[column] for column in (*_VERDICTS, "memory_verdict")]
    # A time that could not be had is no failure.
    return next((verdict for verdict in later if verdict not in (None, "pass", "unstable")), "pass")


def to_review(row: Row, above: float) -> str | None:
    """A verified candidate's speedups above a bound and times below a floor, in words; None where there is none."""
    if row["verdict_hidden"] != "pass":
        return None
    large = {arm: row[f"speedup_{arm}"] for arm in EVERY_ARM if (row[f"speedup_{arm}"] or 0.0) > above}
    claims = [f"{arm} {value:.1f}x" for arm, value in large.items()]
    if row["implausible_in"]:
        claims.append(f"implausible in {row['implausible_in']}: faster than its inputs and outputs can move")
    elif row["below_floor_in"]:
        claims.append(f"faster in {row['below_floor_in']} than the reference's FLOPs and weights allow")
    return f"{row['suite']}/{row['problem']}/{row['sample']}: {', '.join(claims)}" if claims else None


def _timed_as(rows: Sequence[Row], verdict: str) -> int:
    """Candidates of which a timing record has this verdict."""
    return sum(any(row[column] == verdict for column in _VERDICTS) for row in rows)


def summary_of(name: str, dtype: str | None, rows: Sequence[Row], settings: AggregationSettings) -> GeneratorSummary:
    """Counts over all candidates of a generator."""
    verdicts: dict[Test, dict[str, int]] = {}
    for test in TESTS:
        counted = Counter(row[f"verdict_{test}"] or "not judged" for row in rows)
        verdicts[test] = dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))
    unexpected = [
        f"{row['suite']}/{row['problem']}/{row['sample']}: expected {row['expected_verdict']}, got {final_verdict(row)}"
        for row in rows
        if row["expected_verdict"] is not None and row["expected_verdict"] != final_verdict(row)
    ]
    missing = Counter(row["why_null_verdict_hidden"] for row in rows if row["verdict_hidden"] is None)
    return GeneratorSummary(
        generator=name,
        dtype=dtype,
        n_candidates=len(rows),
        verdicts=verdicts,
        not_judged=dict(sorted(missing.items())),
        n_flags_changed=sum(row["flags_changed"] is True for row in rows),
        n_timed_output_wrong=sum(
            row["verdict_hidden"] == "pass" and final_verdict(row) not in ("pass", "time_disputed") for row in rows
        ),
        n_baseline_disturbed=sum(
            any(row[f"{column_name(stage)}_baseline_disturbed"] is True for stage in TIME_STAGES) for row in rows
        ),
        n_time_disputed=_timed_as(rows, "time_disputed"),
        n_bound_not_enforced=sum(
            any(row[f"{column_name(stage)}_bound_outcome"] == "not_enforced" for stage in TIME_STAGES) for row in rows
        ),
        n_unstable=_timed_as(rows, "unstable"),
        n_implausible=sum(row["implausible_in"] is not None for row in rows),
        static_kinds=_static_kinds(rows),
        static_labels=_static_labels(rows),
        to_review=tuple(line for row in rows if (line := to_review(row, settings.review_above))),
        unexpected=tuple(unexpected),
    )


def _static_kinds(rows: Sequence[Row]) -> dict[str, int]:
    found = Counter(row["static_kind"] or "not described" for row in rows if row["verdict_hidden"] == "pass")
    return dict(sorted(found.items()))


def _static_labels(rows: Sequence[Row]) -> dict[str, int]:
    labels = [row["static_labels"] for row in rows if row["verdict_hidden"] == "pass" and row["static_labels"]]
    return dict(sorted(Counter(label for several in labels for label in several.split(", ")).items()))
