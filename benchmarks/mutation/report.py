"""From the records of a run to its lines and its report."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.mutation import launches, live_code, mutants, running, score, screening, variants
from benchmarks.mutation.running import Kernel, Work
from benchmarks.mutation.score import Line
from benchmarks.summaries import environment, table
from kbverified.records.files import write_bytes, write_text


def lines(work: Work, kernels: Sequence[Kernel]) -> list[Line]:
    """A line for every parent and mutant. Raises RecordError, FileNotFoundError where the screening is not there."""
    screened = screening.read(work)
    return [_line(work, kernel, screened) for kernel in kernels]


def _line(work: Work, kernel: Kernel, screened: dict[str, dict[str, str]]) -> Line:
    mutant = kernel.mutant
    listed = screened[kernel.name] if mutant is not None else {"outcome": "honest", "reason": ""}
    line = Line(
        kernel.name,
        kernel.parent.name,
        mutant.language if mutant else "",
        mutant.fault if mutant else None,
        mutant.operator if mutant else None,
        bool(mutant and mutant.held_out),
        mutant.change if mutant else "",
        listed["outcome"],
        listed["reason"],
    )
    gate, judged = running.gated(work, kernel), running.judged(work, kernel)
    if listed["outcome"] not in ("kept", "honest") or gate is None or judged is None:
        return line
    mark = work.record("hidden-gate", kernel.name).with_suffix(".digest")
    return Line(
        **{
            **asdict(line),
            "standard": judged["standard"].verdict,
            "hidden": judged["hidden"].verdict,
            "hardened": judged["hardened"].verdict,
            "failed": judged["hidden"].failed,
            "tolerances": {t.distribution: t.critical_tolerance for t in gate.trials},
            "gate": mark.read_text().split()[0] if mark.is_file() else None,
        }
    )


def write(work: Work, kernels: Sequence[Kernel], device: str) -> int:
    """Write ``lines.jsonl.gz`` and ``report.md``; 1 where an honest kernel fails or a verdict is missing, else 0."""
    found = lines(work, kernels)
    facts = environment(None)
    raw = "".join(json.dumps(asdict(line)) + "\n" for line in found)
    write_bytes(work.root / "lines.jsonl.gz", gzip.compress(raw.encode(), mtime=0))
    text = score.text(found, f"Mutation score, {device}") + (_parents(work, kernels) if device == "cuda" else "")
    write_text(work.root / "report.md", f"{text}\nEnvironment: {json.dumps(facts, sort_keys=True)}\n")
    print(text.partition("\n## By operator")[0])
    print(f"{work.root / 'report.md'}, {work.root / 'lines.jsonl.gz'}")
    missing = [x.id for x in found if x.screened in ("kept", "honest") and x.hidden is None]
    for name in missing[:5]:
        print(f"mutation: no hidden verdict of {name}: run the step gate")
    for line in score.failed_parents(found):
        print(
            f"mutation: the honest kernel {line.parent} does not pass: {line.standard}, {line.hidden}, {line.hardened}"
        )
    return 1 if missing or score.failed_parents(found) else 0


def _parents(work: Work, kernels: Sequence[Kernel]) -> str:
    """Of every parent: at which sizes it was tried, what it did not pass, and in how much of its code mutants are made.

    Raises ValueError where the steps before the list have not been run.
    """
    honest = [kernel.parent for kernel in kernels if kernel.mutant is None]
    decided, launched, rows = variants.read(work), launches.of(work, honest), []
    for parent in honest:
        text = parent.path.read_text(encoding="utf-8")
        every = mutants.of_parent(parent.name, parent.problem.stem, parent.device, text)
        dropped = len(every) - len(live_code.live(every, text, launched[parent.name]))
        before = decided[parent.name]["tried"].items()
        refused = "; ".join(f"{name}: {said}" for name, said in before if name != parent.variant) or "–"
        why = launches.read(work)[parent.name]["why_null"]
        reached = f"unknown, nothing dropped: {' '.join(why.split())}" if why else str(dropped)
        rows.append(
            [parent.name, parent.variant, refused.replace("|", "/"), str(len(every)), reached.replace("|", "/")]
        )
    unknown = sum(names is None for names in launched.values())
    head = f"\n## Parents: sizes and reach\n\n{len(honest)} parents, {unknown} of them with launches unknown.\n\n"
    return head + table(["parent", "sizes", "did not pass at", "places", "of them never reached"], rows) + "\n"


def read_lines(path: Path) -> list[Line]:
    """Lines of an earlier run. Raises FileNotFoundError, TypeError for a line of another shape."""
    rows = map(json.loads, gzip.decompress(path.read_bytes()).decode().splitlines())
    return [Line(**{**row, "failed": tuple(row["failed"])}) for row in rows]
