"""From the records of a run to its lines and its report."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.mutation import running, score, screening
from benchmarks.mutation.running import Kernel, Work
from benchmarks.mutation.score import Line
from benchmarks.summaries import environment
from kbverified import verdicts
from kbverified.protocol import TAU
from kbverified.records.files import read, write_bytes, write_text
from kbverified.records.problem import ProblemRecord


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
    gate = running.gated(work, kernel)
    if listed["outcome"] not in ("kept", "honest") or gate is None:
        return line
    audit = read(work.audit(kernel.parent.problem), ProblemRecord)
    path = work.record("hidden-gate", kernel.name)
    compiled = running.compiled(work, kernel)
    judged = verdicts.judge(compiled, gate, audit.applicable(), TAU[gate.provenance.dtype], path, audit)
    mark = path.with_suffix(".digest")
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
    text = score.text(found, f"Mutation score, {device}")
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


def read_lines(path: Path) -> list[Line]:
    """Lines of an earlier run. Raises FileNotFoundError, TypeError for a line of another shape."""
    rows = map(json.loads, gzip.decompress(path.read_bytes()).decode().splitlines())
    return [Line(**{**row, "failed": tuple(row["failed"])}) for row in rows]
