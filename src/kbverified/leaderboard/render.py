"""Writing a leaderboard: JSON (everything), CSV (flat), Markdown (to read), and a table for the terminal.

The files depend on the leaderboard alone: no times, no paths. Each is replaced atomically.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kbverified import records
from kbverified.leaderboard.model import Audited, Entry, Estimate, Leaderboard
from kbverified.metrics import OPTIONAL_ARMS, Arm
from kbverified.static_view.describe import KINDS, LABELS
from kbverified.verdicts import Test

PAGE_NAME = "leaderboard.html"
"""The page beside them, which kbverified.page makes."""
FILE_NAMES = {"json": "leaderboard.json", "csv": "leaderboard.csv", "md": "leaderboard.md"}
DASH = "–"

ARM_MEANING = {
    "naive": "reference(default) / candidate(default)",
    "published": "reference(tf32) / candidate(default), from two jobs",
    "matched": "reference(tf32) / candidate(tf32)",
    "ieee": "reference(ieee) / candidate(ieee)",
    "compile": "torch.compile(reference)(tf32) / candidate(tf32)",
}


def write(leaderboard: Leaderboard, directory: Path) -> list[Path]:
    """Write leaderboard.json, .csv and .md into a folder and return their paths. Raises OSError."""
    paths = [directory / name for name in FILE_NAMES.values()]
    for path, text in zip(paths, (json_text(leaderboard), csv_text(leaderboard), markdown_text(leaderboard))):
        records.write_text(path, text)
    return paths


def json_text(leaderboard: Leaderboard) -> str:
    return leaderboard.model_dump_json(indent=1) + "\n"


# --- CSV ----------------------------------------------------------------------------------------------------

_ENTRY_FIELDS = (
    "generator", "dtype", "suite", "level", "arm", "test", "n_problems", "n_without_candidate", "n_samples", "n_solved",
    "n_undecidable", "n_solved_non_discriminating", "n_timed", "n_implausible", "n_below_floor",
)  # fmt: skip


def csv_text(leaderboard: Leaderboard) -> str:
    """One line per entry; each estimate as value, _low, _high, _n. Null is empty, the level of all is ``all``."""
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    estimates = [name for name, _ in _estimates(leaderboard.entries[0])] if leaderboard.entries else []
    audited = ("n_judged", "n_excluded", "n_excluded_by_person") if leaderboard.audit is not None else ()
    header = [*_ENTRY_FIELDS, *(f"{n}{end}" for n in estimates for end in ("", "_low", "_high", "_n")), *audited]
    writer.writerow(header)
    for entry in leaderboard.entries:
        values = ["all" if f == "level" and entry.level is None else getattr(entry, f) for f in _ENTRY_FIELDS]
        for _, estimate in _estimates(entry):
            values += [estimate.value, estimate.low, estimate.high, estimate.n]
        values += [getattr(entry.audited, field, None) for field in audited]
        writer.writerow(["" if value is None else value for value in values])
    return lines.getvalue()


def _estimates(entry: Entry) -> Iterator[tuple[str, Estimate]]:
    yield "correctness", entry.correctness
    yield "correct_speedup", entry.correct_speedup
    yield from ((f"fast_{p}", estimate) for p, estimate in entry.fast_p.items())
    for part in entry.by_numerics:
        yield f"correctness_{'_or_'.join(part.classes)}", part.correctness
        yield f"correct_speedup_{'_or_'.join(part.classes)}", part.correct_speedup
    if entry.audited is not None:
        yield "correctness_audited", entry.audited.correctness
        yield "correct_speedup_audited", entry.audited.correct_speedup
    yield "sol_score", entry.sol_score
    yield from ((f"memory_efficiency_{name}", estimate) for name, estimate in entry.memory_efficiency.items())
    yield from ((f"memory_efficient_{name}", estimate) for name, estimate in entry.memory_efficient.items())


# --- the headline table -------------------------------------------------------------------------------------


def _factor(estimate: Estimate | None) -> str:
    """A factor with its count and interval: ``0.88 (98) [0.80, 0.97]``."""
    if estimate is None or estimate.value is None:
        return DASH
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.2f} ({estimate.n})"
    return f"{estimate.value:.2f} ({estimate.n}) [{estimate.low:.2f}, {estimate.high:.2f}]"


def _percent(estimate: Estimate | None) -> str:
    """A share in percent with its interval: ``52.0 [42, 62]``."""
    if estimate is None or estimate.value is None:
        return DASH
    if estimate.low is None or estimate.high is None:
        return f"{100 * estimate.value:.1f}"
    return f"{100 * estimate.value:.1f} [{100 * estimate.low:.0f}, {100 * estimate.high:.0f}]"


def headline_columns(leaderboard: Leaderboard) -> list[str]:
    arm, test = leaderboard.conditions.headline_arm, leaderboard.conditions.headline_test
    others = [f"{a}+{t}" for a, t in _beside(leaderboard)]
    dtype = ["dtype"] if _several_dtypes(leaderboard) else []
    audited = leaderboard.audit is not None
    return [
        "generator", *dtype, "suite", "level", "problems", "samples",
        *([f"audited correct % {test}", f"audited Correct Speedup (n) {arm}+{test}", "hacks left out"] * audited),
        f"correct % {test}", f"Correct Speedup (n) {arm}+{test}", *others,
        f"fast_1 % {arm}+{test}", "SOL-like score (n)", "implausible", "memory efficiency", "memory efficient %",
    ]  # fmt: skip


def _several_dtypes(leaderboard: Leaderboard) -> bool:
    return len({entry.dtype for entry in leaderboard.entries}) > 1


def _beside(leaderboard: Leaderboard) -> list[tuple[Arm, Test]]:
    """The arms named beside the headline: the published one, what KernelBench itself would say, optional baselines.

    Under an optional baseline's headline the matched arm stands there too.
    """
    c = leaderboard.conditions
    wanted: list[tuple[Arm, Test]] = [("published", "hidden"), ("naive", "standard"), (c.headline_arm, "hardened")]
    optional: list[tuple[Arm, Test]] = [(arm, c.headline_test) for arm in c.arms if arm in OPTIONAL_ARMS]
    if (c.headline_arm, c.headline_test) in optional:
        optional.insert(0, ("matched", c.headline_test))
    return [pair for pair in [*wanted, *optional] if pair != (c.headline_arm, c.headline_test)]


def headline_rows(leaderboard: Leaderboard) -> list[list[str]]:
    """One row per generator, suite and level, each cell as text; the row over all levels comes last."""
    arm, test = leaderboard.conditions.headline_arm, leaderboard.conditions.headline_test
    rows = []
    for entry in leaderboard.entries:
        if (entry.arm, entry.test) != (arm, test):
            continue
        beside = [leaderboard.entry(entry.generator, entry.suite, entry.level, a, t) for a, t in _beside(leaderboard)]
        covered = entry.n_problems - entry.n_without_candidate
        rows.append(
            [
                entry.generator,
                *([entry.dtype or DASH] if _several_dtypes(leaderboard) else []),
                entry.suite,
                "all" if entry.level is None else str(entry.level),
                str(covered) if covered == entry.n_problems else f"{covered} of {entry.n_problems}",
                str(entry.n_samples),
                *_audited_cells(entry.audited),
                _percent(entry.correctness),
                _factor(entry.correct_speedup),
                *(_factor(other.correct_speedup if other else None) for other in beside),
                _percent(entry.fast_p.get("1")),
                _factor(entry.sol_score),
                str(entry.n_implausible),
                _factor(entry.memory_efficiency["allocator_peak"]),
                _percent(entry.memory_efficient["allocator_peak"]),
            ]
        )
    return rows


def _audited_cells(audited: Audited | None) -> list[str]:
    if audited is None:
        return []
    return [_percent(audited.correctness), _factor(audited.correct_speedup), left_out(audited)]


def left_out(audited: Audited) -> str:
    """How many of the judged samples an entry's audited columns leave out: ``3 of 6 (1 by a person)``."""
    person = f" ({audited.n_excluded_by_person} by a person)" if audited.n_excluded_by_person else ""
    return f"{audited.n_excluded} of {audited.n_judged}{person}"


def audit_lines(leaderboard: Leaderboard) -> list[str]:
    """Who audited, and the filter of the audited columns, in words; nothing where nobody did."""
    audit = leaderboard.audit
    if audit is None:
        return []
    who = ", ".join(f"{name} ({model})" for name, model in audit.judges.items()) or "nobody but a person"
    counts = ", ".join(f"{label} {n}" for label, n in audit.labels.items()) or "none"
    bases = ", ".join(f"{basis} {n}" for basis, n in audit.bases.items()) or "none"
    lines = [
        f"Audited: without the verified samples whose label is {' or '.join(audit.exclude) or 'none'}: "
        f"{audit.n_excluded} of {audit.n_judged} judged, of {audit.n_verified} verified. A filter by opinion: the "
        "columns beside it are as measured.",
        f"LLM judges: {who}. Labels: {counts}. By: {bases}.",
    ]
    if audit.n_stale:
        lines.append(f"Labels of a person that do not count, for the source was edited since: {audit.n_stale}.")
    return lines


def numerics_table(leaderboard: Leaderboard) -> tuple[list[str], list[list[str]]]:
    """The headline's arm and test again, and beside it what is left where narrower arithmetic does not count."""
    c = leaderboard.conditions
    mine = [e for e in leaderboard.entries if (e.arm, e.test) == (c.headline_arm, c.headline_test) and e.by_numerics]
    header = ["generator", "suite", "level", f"correct % {c.headline_test}", "Correct Speedup (n)"]
    for part in mine[0].by_numerics if mine else ():
        header += [f"{' or '.join(part.classes)} only: correct %", "Correct Speedup (n)"]
    rows = []
    for entry in mine:
        level = "all" if entry.level is None else str(entry.level)
        every = [_percent(entry.correctness), _factor(entry.correct_speedup)]
        parts = [cell for p in entry.by_numerics for cell in (_percent(p.correctness), _factor(p.correct_speedup))]
        rows.append([entry.generator, entry.suite, level, *every, *parts])
    return header, rows


# --- Markdown -----------------------------------------------------------------------------------------------


def _table(header: list[str], rows: list[list[str]]) -> list[str]:
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]


def conditions_lines(leaderboard: Leaderboard) -> list[str]:
    """The conditions in words, one line each."""
    c = leaderboard.conditions
    tau = ", ".join(f"{value:g} ({dtype})" for dtype, value in sorted(c.tau.items()))
    modes = "; ".join(f"{stage} {'/'.join(values) or DASH}" for stage, values in c.modes.items())
    lines = [
        f"Headline: {c.headline_arm} arm, {c.headline_test} test. tau {tau}. "
        f"{100 * c.confidence:g} % bootstrap intervals over problems, {c.resamples} resamples.",
        f"Problems: {c.n_problems_active} active of {c.n_problems_selected} selected ({', '.join(c.suites)}). "
        "Shares are of all active problems; '2 of 3' means that one of 3 has no candidate and counts as not solved.",
        *(f"Environment: {environment}." for environment in c.environments),
        *(f"Ceilings: {ceilings}." for ceilings in c.ceilings),
        f"Precision modes: {modes}.",
    ]
    if not c.findings:
        lines.append("Not for findings: the device is no GPU, there is none, or environments are mixed.")
    return [*lines, *audit_lines(leaderboard), *(f"Note: {note}." for note in c.notes)]


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


_NUMERICS_MEANING = (
    "The class is that of the result under the original inputs, held against float64: as exact as float32, or not. "
    "*undetermined* is where no class can be told, as for an output that rounded operands hardly change."
)
_MEANS = ("Correct Speedup", "SOL-like score", "memory efficiency")


def _means(leaderboard: Leaderboard, entry: Entry) -> tuple[Estimate | None, ...]:
    """The means that the headline table shows of an entry, in the order of _MEANS; None where it shows none."""
    headline = (leaderboard.conditions.headline_arm, leaderboard.conditions.headline_test)
    shown = (entry.arm, entry.test)
    speed = entry.correct_speedup if shown in (headline, *_beside(leaderboard)) else None
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


_STATIC_TITLE = "## What the sources of verified candidates look like (static view: no verdict)"


def _static_table(leaderboard: Leaderboard) -> list[str]:
    """Kinds, each candidate in one; then labels, in which a candidate may be several times or never."""
    summaries = leaderboard.generators
    kinds = [*KINDS, *(["not described"] if any("not described" in s.static_kinds for s in summaries) else [])]
    rows = [[kind, *(str(s.static_kinds.get(kind, 0)) for s in summaries)] for kind in kinds]
    rows += [[f"({label})", *(str(s.static_labels.get(label, 0)) for s in summaries)] for label in LABELS]
    return _table(["kind", *(s.generator for s in summaries)], rows)


# --- terminal -----------------------------------------------------------------------------------------------


def terminal_table(leaderboard: Leaderboard) -> Table:
    """The headline as a table for rich's console: intervals on a second line, a section per generator and suite."""
    table = Table(title="Leaderboard", header_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    suites = len(leaderboard.conditions.suites) > 1
    names = headline_columns(leaderboard)
    suite, level = names.index("suite"), names.index("level")
    shown = [i for i in range(len(names)) if suites or i != suite]
    for i in shown:
        table.add_column(names[i].replace("+", "\n"), justify="left" if i <= level else "right")
    previous = None
    for row in headline_rows(leaderboard):
        if previous is not None and row[:level] != previous:
            table.add_section()
        previous = row[:level]
        cells = [Text(cell.replace(" [", "\n[").replace(", ", ",\u00a0")) for cell in row]
        table.add_row(*(cells[i] for i in shown), style="bold" if row[level] == "all" else None)
    return table


def print_leaderboard(leaderboard: Leaderboard, directory: Path, console: Console | None = None) -> None:
    """Print the table, its conditions, what needs a look, and where the files are."""
    console = console or Console(width=None if sys.stdout.isatty() else 140)
    console.print(terminal_table(leaderboard))
    for line in conditions_lines(leaderboard):
        console.print(line, highlight=False, markup=False)
    for summary in leaderboard.generators:
        counts = ", ".join(f"{name} {n}" for name, n in summary.verdicts[leaderboard.conditions.headline_test].items())
        console.print(f"{summary.generator}: {counts or 'no candidate'}", highlight=False, markup=False)
        for line in summary.unexpected:
            console.print(f"  unexpected: {line}", highlight=False, markup=False, style="red")
    if leaderboard.excluded:
        names = ", ".join(f"{e.suite}/{e.problem}" for e in leaderboard.excluded)
        console.print(f"Left out: {names} (reasons in {FILE_NAMES['md']})", highlight=False, markup=False)
    page = [PAGE_NAME] if (directory / PAGE_NAME).exists() else []
    for name in (*FILE_NAMES.values(), *page):
        console.print(str(directory / name), highlight=False, markup=False)
