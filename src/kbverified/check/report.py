"""A check's row as a page for the terminal. Every number is the row's own; what is null says why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kbverified import protocol
from kbverified.aggregation import AggregationSettings
from kbverified.check.brief import brief
from kbverified.check.judged import Judged
from kbverified.check.outcome import Outcome
from kbverified.check.question import Question
from kbverified.kernel_table import MEMORY_FIELDS, column_name
from kbverified.keys import BASELINE_STAGES, TIME_STAGES
from kbverified.leaderboard.conditions import to_review
from kbverified.leaderboard.headline import ARM_MEANING, DASH
from kbverified.metrics import ARMS, EVERY_ARM, within_tolerance
from kbverified.printable import printable
from kbverified.verdicts import TESTS

Row = Mapping[str, Any]
STYLES = {"pass": "bold green", "fail": "bold red", "no verdict": "bold yellow"}


def print_report(judged: Judged, question: Question, console: Console) -> None:
    """Print the page: verdict, tolerances, times, speedups, memory, what to look at."""
    row, outcome = judged.row, judged.outcome
    console.print()
    for line in _head(row, question):
        _say(console, line)
    console.print()
    console.print(Text(f"{outcome.word.upper()}", STYLES[outcome.word]), Text(_verdict_line(question, outcome)))
    for line in brief(outcome.reason or "", question.candidate.name):
        _say(console, f"  {line}")
    if "hidden-gate" in question.stages:
        _section(console, "Right?", correctness(row, question))
    if set(TIME_STAGES) & set(question.stages):
        interval = f"[{100 * protocol.CONFIDENCE:g} % interval]"
        _section(console, f"Times: median {interval}", times(row, question))
        _section(console, f"Speedup: reference / candidate {interval}", speedups(row, question))
    if "memory" in question.stages:
        _section(console, "Memory of one forward: reference / candidate", memory(row))
    notes = list(remarks(row, question, judged.details))
    if notes:
        console.print(Text("\nTo look at", "bold"))
        for note in notes:
            _say(console, f"  - {note}")


def _say(console: Console, text: str) -> None:
    console.print(Text(printable(text)), soft_wrap=not console.is_terminal)


def _section(console: Console, title: str, content: Table | str) -> None:
    console.print(Text(f"\n{title}", "bold"))
    if isinstance(content, str):
        _say(console, f"  {content}")
    else:
        console.print(content)


def _head(row: Row, question: Question) -> Iterator[str]:
    key = question.problem.key
    yield f"{question.candidate}\n  against {key} ({question.problem.name}), {question.problem.path}"
    where = f"{row['device_kind']} {row['device_name']}" if row["device_name"] else question.device
    versions = [f"{name} {row[name]}" for name in ("driver", "torch", "cuda") if row[name]]
    sandbox = [f"sandbox {row['sandbox']}"] if row["sandbox"] else []
    yield "  " + ", ".join([where, *versions, *sandbox, question.dtype, f"tau {question.tau:g}"])


def _verdict_line(question: Question, outcome: Outcome) -> str:
    if "hidden-gate" not in question.stages:
        return f"compile only: {outcome.verdict}"
    return f"{question.test} test" + (f": {outcome.verdict}" if outcome.word == "fail" else "")


def _table(*headers: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), show_edge=False, pad_edge=True, header_style="dim")
    for i, header in enumerate(headers):
        table.add_column(header, justify="left" if i == 0 else "right", overflow="fold")
    return table


def _add(table: Table, *cells: str) -> None:
    table.add_row(*(Text(printable(cell)) for cell in cells))


_WITHIN = {True: "within tau", False: "above tau", None: ""}

# --- the sections -------------------------------------------------------------------------------------------


def correctness(row: Row, question: Question) -> Table:
    """The three tests' verdicts, then each distribution's critical tolerance and scaled error."""
    table = _table("", "verdict", "critical tolerance", "scaled error", "of the reference")
    table.columns[1].justify = "left"
    for test in TESTS:
        verdict = row[f"verdict_{test}"] or f"{DASH} {row[f'why_null_verdict_{test}'] or ''}"
        _add(table, f"{test} test{' (asked)' if test == question.test else ''}", verdict, "", "", "")
    for name in protocol.DISTRIBUTIONS:
        tolerance = row[f"critical_tolerance_{name}"]
        verdict = _WITHIN[within_tolerance(tolerance, question.tau)]
        errors = (row[f"scaled_error_{name}"], row[f"reference_scaled_error_{name}"])
        _add(table, name, verdict, _small(tolerance), *map(_small, errors))
    return table


def times(row: Row, question: Question) -> Table:
    """Both sides' medians of each timing stage that was asked for, in ms, or why there is none."""
    table = _table("", "reference", "candidate", "rounds", "least possible")
    for stage in TIME_STAGES:
        if stage not in question.stages:
            continue
        t = column_name(stage)
        mode = f"{stage} ({row[f'{t}_mode']})" if row[f"{t}_mode"] else stage
        if row[f"{t}_candidate_ms"] is None:
            _add(table, mode, DASH, row[f"why_null_{t}"] or DASH, "", "")
            continue
        sides = [_interval(row, f"{t}_{side}_ms", " ms") for side in ("baseline", "candidate")]
        floor = row[f"{t}_floor_ms"]
        _add(table, mode, *sides, str(row[f"{t}_rounds"]), DASH if floor is None else f"{floor:.3g} ms")
    return table


def speedups(row: Row, question: Question) -> Table:
    """Each arm that is always reported or was asked for, or why it has no value."""
    table = _table("arm", "", "what it is")
    asked = [arm for arm in EVERY_ARM if arm in ARMS or BASELINE_STAGES[arm] in question.stages]
    for arm in asked:
        value = row[f"speedup_{arm}"]
        what = ARM_MEANING[arm] if value is not None else row[f"why_null_speedup_{arm}"] or ""
        _add(table, arm, DASH if value is None else _interval(row, f"speedup_{arm}", "x"), what)
    table.columns[-1].justify = "left"
    return table


def memory(row: Row) -> Table | str:
    """Both sides' memory figures and their ratios; a sentence where none was measured."""
    if all(row[f"memory_ratio_{name}"] is None for name in MEMORY_FIELDS):
        return f"{DASH} {row['why_null_memory']}"
    table = _table("", "reference", "candidate", "ratio")
    for name in MEMORY_FIELDS:
        sides = [row[f"memory_{side}_{name}_bytes"] for side in ("baseline", "candidate")]
        ratio = row[f"memory_ratio_{name}"]
        _add(table, name.replace("_", " "), *map(_bytes, sides), DASH if ratio is None else f"{ratio:.3g}")
    return table


# --- what to look at ----------------------------------------------------------------------------------------


def remarks(row: Row, question: Question, details: Mapping[str, str]) -> Iterator[str]:
    """Sentences about this row that its numbers do not say; the gravest first. ``details``: as of Judged."""
    if row["sandbox"] == "none":
        yield "the sandbox kept nothing from the candidate (level none): kbverified doctor says why"
    if row["degenerate"]:
        yield "the problem is degenerate (its output is 0 throughout): it counts in no table"
    if row["non_discriminating"]:
        yield "the problem is non-discriminating: the output for other inputs passes too, so a pass says little"
    if row["undecidable"]:
        yield "the hardened test cannot decide this problem: the output for other inputs passes under every law"
    if row["within_scaled_limit"] is False:
        yield "on the scale of the output the error is larger than an honest kernel's: see scaled error"
    if row["numerics_class"]:
        yield f"arithmetic: {row['numerics_class']}{_more(row['numerics_remark'])}"
    if row["weights_match"] is False:
        yield "the candidate's weights correspond to the reference's and differ from them"
    if row["static_kind"]:
        language = f" in {row['static_language']}" if row["static_language"] else ""
        yield f"the source looks like: {row['static_kind']}{language}{_more(row['static_labels'])}"
    if row["static_delegated"]:
        yield f"left to torch or a library: {row['static_delegated']}"
    if row["static_flags"]:
        yield f"constructs in the source: {row['static_flags']}"
    if row["flags_changed_in"]:
        yield f"global flags changed in {row['flags_changed_in']}"
    yield from _remarks_on_times(row, question, details)
    yield from filter(None, (row["arms_note"], row["without_oracle"]))


def _remarks_on_times(row: Row, question: Question, details: Mapping[str, str]) -> Iterator[str]:
    claims = to_review(row, AggregationSettings().review_above)
    if claims is not None:
        yield f"unusually fast, review it before you believe it: {claims.partition(': ')[2]}"
    for stage in (stage for stage in TIME_STAGES if stage in question.stages):
        t = column_name(stage)
        if row[f"{t}_verdict"] == "unstable":
            why = details.get(stage, "its rounds differ too much")
            yield f"{stage}: no time, {why}; run it again when nothing else uses the machine"
        if row[f"{t}_candidate_ms"] is None:
            continue
        if row[f"{t}_baseline_disturbed"]:
            yield f"{stage}: the reference ran at another speed beside the candidate than alone"
        if row[f"{t}_interleaved"] is False:
            yield f"{stage}: both sides did not fit the device together and ran one after the other"
        if row[f"{t}_rounds_dropped"]:
            yield f"{stage}: {row[f'{t}_rounds_dropped']} rounds dropped, the device was throttled"
        if row[f"{t}_bound_outcome"] == "not_enforced":
            gain = row[f"{t}_undetected_gain_at_most"]
            at_most = f" (a false claim could gain {gain:.3g}x at most)" if gain is not None else ""
            yield f"{stage}: too short for the judge's own clock to confirm{at_most}"


def _more(text: str | None) -> str:
    return f"; {text}" if text else ""


# --- numbers ------------------------------------------------------------------------------------------------


def _small(value: float | None) -> str:
    return DASH if value is None else f"{value:.3g}"


def _interval(row: Row, name: str, unit: str) -> str:
    """``1.02x [0.99, 1.05]``; without an interval the value alone."""
    value, low, high = row[name], row[f"{name}_low"], row[f"{name}_high"]
    if low is None or high is None:
        return f"{value:.3g}{unit}"
    return f"{value:.3g}{unit} [{low:.3g}, {high:.3g}]"


def _bytes(value: int | None) -> str:
    if value is None:
        return DASH
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value >= size:
            return f"{value / size:.4g} {unit}"
    return f"{value} B"
