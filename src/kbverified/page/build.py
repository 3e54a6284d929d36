"""From a run's results to ``results/leaderboard.html``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kbverified import kernel_table
from kbverified.aggregation import AggregationSettings
from kbverified.candidate_records import load_problems, read_candidate
from kbverified.keys import CandidateKey, ProblemKey
from kbverified.leaderboard.model import Leaderboard
from kbverified.page import board, candidates, details, html, problem, rule, sweep
from kbverified.page.packing import pack
from kbverified.records.files import read, write_text
from kbverified.records.problem import ProblemRecord
from kbverified.verdicts import Test

Row = dict[str, Any]


def write(
    root: Path,
    kernels: Sequence[Path],
    keys: Sequence[ProblemKey],
    leaderboard: Path,
    settings: AggregationSettings,
    out: Path,
    taus: Sequence[float] = sweep.TAUS,
) -> Path:
    """Make the page of some kernel tables, on the selected problems (``keys``), and write it to ``out``.

    Records, sources and metadata are read from their places below ``root``. ``taus`` have means besides the configured
    one. Raises RecordError for a table, leaderboard
    or record that is not what it should be, naming file, field and value; OSError.
    """
    rows = kernel_table.read_rows(kernels)
    shown = read(leaderboard, Leaderboard)
    write_text(out, page(root, rows, load_problems(root, keys), shown, settings, taus))
    return out


def page(
    root: Path,
    rows: Sequence[Row],
    audits: Mapping[ProblemKey, ProblemRecord | None],
    shown: Leaderboard,
    settings: AggregationSettings,
    taus: Sequence[float] = sweep.TAUS,
) -> str:
    """The page's text. ``rows`` are of kernel tables, each for a problem of ``audits``. Raises as ``write`` does."""
    problems = sorted(audits, key=lambda key: (key.suite, key.level, key.number))
    ordered = sorted(rows, key=_order)
    of_problem: dict[ProblemKey, list[int]] = {key: [] for key in problems}
    for i, row in enumerate(ordered):
        of_problem[ProblemKey(row["suite"], row["problem"])].append(i)
    steps: dict[int, dict[Test, rule.Step]] = {}
    blocks = []
    for key, here in of_problem.items():
        found = {i: read_candidate(root, candidate_key(ordered[i]), audits[key], settings.baselines) for i in here}
        steps |= {i: rule.steps(one) for i, one in found.items()}
        blocks.append(
            pack(
                {
                    "problem": problem.of_problem(root, key, audits[key]),
                    "rows": here,
                    "candidates": [details.of_candidate(found[i], ordered[i], steps[i]) for i in here],
                }
            )
        )
    arms = shown.conditions.arms
    in_order = [steps[i] for i in range(len(ordered))]
    others = sweep.boards(ordered, in_order, audits, shown, settings, taus)
    main = {
        "size": len(ordered),
        "problems": candidates.problem_columns(problems, audits),
        "columns": candidates.columns(ordered, in_order, problems, arms),
        "memory": candidates.memory_field(ordered),
        "board": board.of_leaderboard(shown) | {"sweep": [tau for tau, _ in others]},
    }
    return html.document(pack(main), pack([[tau, board.means(other)] for tau, other in others]), blocks)


def candidate_key(row: Row) -> CandidateKey:
    return CandidateKey(row["generator"], row["suite"], row["problem"], row["sample"])


def _order(row: Row) -> tuple[Any, ...]:
    """As a reader steps through them: a problem's candidates of one generator, then its next problem's."""
    return row["generator"], row["suite"], row["level"], row["number"], row["sample"]
