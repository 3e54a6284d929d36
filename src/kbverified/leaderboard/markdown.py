"""The leaderboard to read: the headline, its conditions, what is missing and why, verdicts, what sources look like."""

from __future__ import annotations

from kbverified.leaderboard.headline import (
    ARM_MEANING,
    arms_beside,
    conditions_lines,
    headline_columns,
    headline_rows,
    numerics_table,
)
from kbverified.leaderboard.model import Entry, Estimate, Leaderboard
from kbverified.static_view.describe import KINDS, LABELS

_NUMERICS_MEANING = (
    "The class is that of the result under the original inputs, held against float64: as exact as float32, or not. "
    "*undetermined* is where no class can be told, as for an output that rounded operands hardly change."
)
_MEANS = ("Correct Speedup", "SOL-like score", "memory efficiency")
_STATIC_TITLE = "## What the sources of verified candidates look like (static view: no verdict)"


def markdown_text(leaderboard: Leaderboard) -> str:
    """The leaderboard to read: headline, conditions, what was not measured, left out, and the verdicts."""
    lines = ["# Leaderboard", "", *_table(headline_columns(leaderboard), headline_rows(leaderboard)), ""]
    header, rows = numerics_table(leaderboard)
    if rows:
        title = f"## By arithmetic ({leaderboard.conditions.headline_arm}+{leaderboard.conditions.headline_test})"
        lines += [title, "", *_table(header, rows), "", _NUMERICS_MEANING, ""]
    lines += ["## Conditions", "", *(f"- {line}" for line in conditions_lines(leaderboard))]
    lines += [f"- Arm {arm}: {meaning}." for arm, meaning in ARM_MEANING.items() if arm in leaderboard.conditions.arms]
    lines += ["- Memory: torch's allocator peak, baseline / candidate, of the sample that won on speed.", ""]
    lines += _section("Not measured", _null_lines(leaderboard))
    lines += _section("Problems left out", [f"{e.suite}/{e.problem}: {e.reason}" for e in leaderboard.excluded])
    weak = [f"{dtype}: {', '.join(names)}" for dtype, names in leaderboard.non_discriminating.items() if names]
    lines += _section("Non-discriminating problems (another input's output passes; they count above)", weak)
    lines += ["## Verdicts", "", *_verdict_table(leaderboard), ""]
    lines += [_STATIC_TITLE, "", *_static_table(leaderboard), ""]
    for summary in leaderboard.generators:
        lines += _section(f"{summary.generator}: not judged", [f"{why}: {n}" for why, n in summary.not_judged.items()])
        lines += _section(f"{summary.generator}: to review (unusually fast)", list(summary.to_review))
        lines += _section(f"{summary.generator}: not the verdict that was expected", list(summary.unexpected))
    return "\n".join(lines).rstrip("\n") + "\n"


def _section(title: str, items: list[str]) -> list[str]:
    return [f"## {title}", "", *(f"- {item}" for item in items), ""] if items else []


def _table(header: list[str], rows: list[list[str]]) -> list[str]:
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]


def _null_lines(leaderboard: Leaderboard) -> list[str]:
    """Why a mean of the headline table is missing; a level's only where the whole suite's is there."""
    lines = []
    for entry in leaderboard.entries:
        whole = leaderboard.entry(entry.generator, entry.suite, None, entry.arm, entry.test) or entry
        level = "all levels" if entry.level is None else f"level {entry.level}"
        for what, estimate, total in zip(_MEANS, _means(leaderboard, entry), _means(leaderboard, whole)):
            if estimate is not None and estimate.value is None and (whole is entry or (total and total.value)):
                where = f"{entry.generator}, {entry.suite}, {level}, {entry.arm}+{entry.test}"
                lines.append(f"{where}, {what}: {estimate.why_null}")
    return lines


def _means(leaderboard: Leaderboard, entry: Entry) -> tuple[Estimate | None, ...]:
    """The means that the headline table shows of an entry, in the order of _MEANS; None where it shows none."""
    headline = (leaderboard.conditions.headline_arm, leaderboard.conditions.headline_test)
    shown = (entry.arm, entry.test)
    speed = entry.correct_speedup if shown in (headline, *arms_beside(leaderboard)) else None
    beside = (entry.sol_score, entry.memory_efficiency["allocator_peak"]) if shown == headline else (None, None)
    return speed, *beside


def _verdict_table(leaderboard: Leaderboard) -> list[str]:
    header = ["verdict", *(f"{s.generator} ({t})" for s in leaderboard.generators for t in s.verdicts)]
    names = sorted({name for s in leaderboard.generators for counts in s.verdicts.values() for name in counts})
    names.sort(key=lambda name: (name != "pass", name == "not judged"))
    rows = [
        [name, *(str(counts.get(name, 0)) for s in leaderboard.generators for counts in s.verdicts.values())]
        for name in names
    ]
    remarks = {
        "(changed global flags)": "n_flags_changed",
        "(wrong while measured)": "n_timed_output_wrong",
        "(baseline disturbed)": "n_baseline_disturbed",
        "(time disputed)": "n_time_disputed",
        "(time too short for the judge's bound)": "n_bound_not_enforced",
        "(time unstable)": "n_unstable",
        "(implausible time)": "n_implausible",
    }
    rows += [
        [label, *(str(getattr(s, field)) for s in leaderboard.generators for _ in s.verdicts)]
        for label, field in remarks.items()
    ]
    return _table(header, rows)


def _static_table(leaderboard: Leaderboard) -> list[str]:
    """Kinds, each candidate in one; then labels, in which a candidate may be several times or never."""
    summaries = leaderboard.generators
    kinds = [*KINDS, *(["not described"] if any("not described" in s.static_kinds for s in summaries) else [])]
    rows = [[kind, *(str(s.static_kinds.get(kind, 0)) for s in summaries)] for kind in kinds]
    rows += [[f"({label})", *(str(s.static_labels.get(label, 0)) for s in summaries)] for label in LABELS]
    return _table(["kind", *(s.generator for s in summaries)], rows)
