"""A/A study: how far from 1 the speedup of a renamed reference comes out, and how much its interval has to hold.

    python -m benchmarks.aa ARCHIVE_OR_FOLDER... [--generator renamed-reference] [--json FILE]

Reads the timing records of a generator whose candidates are renamed references (``benchmarks.references``, a sample for
each repeat): baseline and candidate are the same, so that every ratio is 1 in truth. Nothing is measured here.

The study itself is ``benchmarks.aa_run``'s work, which times each problem's reference four times in fresh processes and
goes on where it was cut off (docs/gpu-runs.md); its archives are read here, and those of ``device-run`` as well:

    python -m benchmarks.aa_run --problems problems/kernelbench --out OUT [--resume ARCHIVE]    # again until it exits 0
    python -m benchmarks.aa OUT/records-aa.tar.xz

What the columns mean: ``kbverified.aa``. ``coverage, rounds only`` is that of the intervals of rounds, ``with table``
that with what ``protocol.BETWEEN_PROCESS_SD`` has for this kind of device.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.references import GENERATOR
from benchmarks.run_records import Run, load
from benchmarks.summaries import table, write
from kbverified import round_statistics
from kbverified.aa import ARM_OF_STAGE, Repeat, Study, known, studies
from kbverified.archive import ArchiveError
from kbverified.records.files import RecordError
from kbverified.records.stages import TimeRecord


def repeats(run: Run, generator: str = GENERATOR) -> list[Repeat]:
    """The timing records of a generator, in the order of stage and candidate."""
    found = []
    for stage in ARM_OF_STAGE:
        for key, record in sorted(run.of(stage), key=lambda item: str(item[0])):
            if key.generator != generator or not isinstance(record, TimeRecord):
                continue
            kind = record.provenance.device.kind if record.provenance.device else "cuda"
            about = (f"{key.suite}/{key.problem}", key.problem_key.level, stage, kind, str(record.verdict))
            kept = [r for r in record.rounds if not r.dropped] if record.verdict == "pass" else []
            ratio, interval = round_statistics.paired_ratio(
                [r.baseline_ms for r in kept], [r.candidate_ms for r in kept]
            )
            low, high = interval if interval is not None else (None, None)
            found.append(Repeat(*about, ratio, low, high))
    return found


def text(found: Sequence[Study]) -> str:
    header = ["stage", "level", "n", "problems", "unstable", "other", "median", "within 1 %", "within 3 %", "furthest"]
    header += ["coverage, rounds only", "with table", "sd %", "sd for coverage %"]
    rows = []
    for one in found:
        covered = _percent(one.coverage.value)
        if one.coverage.interval is not None:
            covered += f" [{', '.join(map(_percent, one.coverage.interval))}]"
        rows.append(
            [
                one.stage,
                "all" if one.level is None else str(one.level),
                *(str(n) for n in (one.n, one.n_problems, one.n_unstable, one.n_other)),
                _number(one.median_ratio),
                _percent(one.within_1.value),
                _percent(one.within_3.value),
                _number(one.furthest),
                covered,
                _percent(one.coverage_with_table),
                _percent(one.sd, 2),
                _percent(one.sd_for_coverage, 2),
            ]
        )
    return table(header, rows)


def for_the_table(found: Sequence[Repeat]) -> str:
    """What to put into ``protocol.BETWEEN_PROCESS_SD`` by kind of device: the larger of its stages' sd for coverage.

    One figure for both modes, so that neither's intervals cover less than they say.
    """
    lines = []
    for kind in sorted({one.kind for one in found}):
        of_kind = [one for one in found if one.kind == kind]
        wanted = [s.sd_for_coverage for s in studies(of_kind) if s.level is None and s.sd_for_coverage is not None]
        n = len(known(of_kind))
        problems = len({one.problem for one in of_kind})
        value = f"{max(wanted):.4f}" if wanted else "nothing, no repeat has an interval"
        lines.append(
            f'BETWEEN_PROCESS_SD["{kind}"]: {value} ({n} intervals of {problems} problems; 1,000 or more wanted)'
        )
    return "\n".join(lines)


def _percent(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{100 * value:.{digits}f}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def main(argv: list[str] | None = None) -> int:
    """Exit code 0, or 2 for bad input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("places", type=Path, nargs="+", metavar="ARCHIVE_OR_FOLDER")
    parser.add_argument(
        "--generator", default=GENERATOR, help=f"whose candidates are references (default: {GENERATOR})"
    )
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args(argv)
    try:
        found = repeats(load(arguments.places), arguments.generator)
        if not found:
            raise ValueError(f"no timing record of generator {arguments.generator}")
    except (ArchiveError, RecordError, FileNotFoundError, ValueError) as error:
        print(f"aa: {error}", file=sys.stderr)
        return 2
    made = studies(found)
    if arguments.json:
        write(arguments.json, {"studies": made, "repeats": found})
    print(text(made))
    print(for_the_table(found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
