"""A/A study: how far from 1 the speedup of a renamed reference comes out, and how much its interval has to hold.

    python -m benchmarks.aa ARCHIVE_OR_FOLDER... [--generator renamed-reference] [--json FILE]

Reads the timing records of a generator whose candidates are renamed references (``benchmarks.references``, a sample for
each repeat): baseline and candidate are the same, so that every ratio is 1 in truth. Nothing is measured here.

The study itself is ``device-run``'s work, which goes on where it was cut off; all its archives are read here:

    python -m benchmarks.references PROBLEM... --samples 4
    kbverified device-run --list LIST --shard 1/N --out OUT [--resume OUT/*-1-of-N*.tar.xz]    # again until it exits 0
    python -m benchmarks.aa OUT/records-*.tar.xz

- within 1 %, within 3 %: share of the stable repeats whose ratio is as near to 1.
- coverage: share whose 95 % interval contains 1, with its own 95 % interval by bootstrap over problems: repeats of one
  problem are not independent. ``rounds only`` is the interval of the rounds, ``with table`` with what
  ``protocol.BETWEEN_PROCESS_SD`` has for this kind of device.
- sd: standard deviation between processes of a typical repeat (median of the squares, the rounds' own variance taken
  off); sd for coverage: the smallest that makes 95 % of the intervals contain 1. The latter is what the table wants.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

import numpy as np

from benchmarks.references import GENERATOR
from benchmarks.run_records import Run, load
from benchmarks.summaries import table, write
from kbverified import protocol, round_statistics, statistics
from kbverified.archive import ArchiveError
from kbverified.records import RecordError, TimeRecord

Z = NormalDist().inv_cdf(0.5 + protocol.CONFIDENCE / 2.0)
MEDIAN_OF_CHI_SQUARE = NormalDist().inv_cdf(0.75) ** 2
"""Of one degree of freedom: the median of a squared standard normal."""


@dataclass(frozen=True)
class Repeat:
    """One timing record of a renamed reference: its ratio and the interval of its rounds, all None where unstable."""

    problem: str
    level: int
    stage: str
    kind: str
    verdict: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None

    def covers(self, sd: float = 0.0) -> bool:
        """Whether the interval, with so much variance between processes, contains 1."""
        return sd_to_cover(self) <= sd + 1e-12


@dataclass(frozen=True)
class Study:
    """What the repeats of one stage, of one level or all, say."""

    stage: str
    level: int | None
    n: int
    n_problems: int
    n_unstable: int
    n_other: int
    """Disputed or failed: there should be none."""
    median_ratio: float | None
    within_1: float | None
    within_3: float | None
    furthest: float | None
    """The ratio that is furthest from 1."""
    coverage: float | None
    coverage_low: float | None
    coverage_high: float | None
    coverage_with_table: float | None
    sd: float | None
    sd_for_coverage: float | None


def repeats(run: Run, generator: str = GENERATOR) -> list[Repeat]:
    """The timing records of a generator, in the order of stage and candidate."""
    found = []
    for stage in ("time-fp32", "time-tf32"):
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


def sd_to_cover(one: Repeat) -> float:
    """The smallest standard deviation between processes with which a repeat's interval contains 1."""
    assert one.ratio is not None and one.low is not None and one.high is not None
    away = math.log(one.ratio)
    half = away - math.log(one.low) if away > 0 else math.log(one.high) - away
    return math.sqrt(max(away**2 - half**2, 0.0)) / Z


def between_process_sd(found: Sequence[Repeat]) -> float | None:
    """Standard deviation between processes (of log ratios) of a typical repeat; None for none with an interval.

    With v the variance that a repeat's interval claims, it solves median(x^2 / (v + sd^2)) = that of chi square: robust
    against a few problems that are far off, which ``sd_for_coverage`` has to take in.
    """
    known = [one for one in found if one.ratio is not None and one.low is not None and one.high is not None]
    if not known:
        return None
    squares = np.array([math.log(one.ratio or 1.0) ** 2 for one in known])
    claimed = np.array([(math.log((one.high or 1.0) / (one.low or 1.0)) / 2.0 / Z) ** 2 for one in known])

    def excess(sd: float) -> float:
        return float(np.median(squares / np.maximum(claimed + sd**2, 1e-18))) - MEDIAN_OF_CHI_SQUARE

    low, high = 0.0, 1.0
    if excess(low) <= 0.0:
        return 0.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if excess(middle) > 0.0 else (low, middle)
    return high


def sd_for_coverage(found: Sequence[Repeat], confidence: float = protocol.CONFIDENCE) -> float | None:
    """The smallest standard deviation with which that share of the intervals contains 1; None for no interval."""
    needed = sorted(sd_to_cover(one) for one in found if one.low is not None)
    return needed[math.ceil(confidence * len(needed)) - 1] if needed else None


def coverage_interval(found: Sequence[Repeat]) -> round_statistics.Interval | None:
    """Interval of the share that covers 1, by bootstrap over problems; None for too few of them."""
    problems = sorted({one.problem for one in found})
    if len(problems) < round_statistics.minimum_units():
        return None
    hits = np.array([sum(one.covers() for one in found if one.problem == p) for p in problems], dtype=np.float64)
    sizes = np.array([sum(one.problem == p for one in found) for p in problems], dtype=np.float64)
    counts = statistics.resample_counts(len(problems), statistics.seed_from("aa", problems, hits.tolist()))
    return statistics.percentile_interval((counts @ hits) / (counts @ sizes), len(problems))


def study(found: Sequence[Repeat], stage: str, level: int | None = None) -> Study:
    """What the repeats of one stage, and one level if given, say."""
    chosen = [one for one in found if one.stage == stage and level in (None, one.level)]
    known = [one for one in chosen if one.ratio is not None and one.low is not None]
    ratios = [one.ratio for one in known if one.ratio is not None]
    interval = coverage_interval(known)
    kind = known[0].kind if known else "cuda"
    sd = protocol.BETWEEN_PROCESS_SD.get(kind)

    def share(hits: list[bool]) -> float | None:
        return sum(hits) / len(hits) if hits else None

    return Study(
        stage=stage,
        level=level,
        n=len(chosen),
        n_problems=len({one.problem for one in chosen}),
        n_unstable=sum(one.verdict == "unstable" for one in chosen),
        n_other=sum(one.verdict not in ("pass", "unstable") for one in chosen),
        median_ratio=statistics.median(ratios),
        within_1=share([abs(ratio - 1.0) <= 0.01 for ratio in ratios]),
        within_3=share([abs(ratio - 1.0) <= 0.03 for ratio in ratios]),
        furthest=max(ratios, key=lambda ratio: abs(math.log(ratio)), default=None),
        coverage=share([one.covers() for one in known]),
        coverage_low=interval.low if interval else None,
        coverage_high=interval.high if interval else None,
        coverage_with_table=share([one.covers(sd) for one in known]) if sd is not None else None,
        sd=between_process_sd(known),
        sd_for_coverage=sd_for_coverage(known),
    )


def studies(found: Sequence[Repeat]) -> list[Study]:
    """Each stage, level by level and as a whole."""
    made = []
    for stage in sorted({one.stage for one in found}):
        levels = sorted({one.level for one in found if one.stage == stage})
        made += [study(found, stage, level) for level in [*levels, None]]
    return made


def text(found: Sequence[Study]) -> str:
    header = ["stage", "level", "n", "problems", "unstable", "other", "median", "within 1 %", "within 3 %", "furthest"]
    header += ["coverage, rounds only", "with table", "sd %", "sd for coverage %"]
    rows = []
    for one in found:
        covered = _percent(one.coverage)
        if one.coverage_low is not None:
            covered += f" [{_percent(one.coverage_low)}, {_percent(one.coverage_high)}]"
        rows.append(
            [
                one.stage,
                "all" if one.level is None else str(one.level),
                *(str(n) for n in (one.n, one.n_problems, one.n_unstable, one.n_other)),
                _number(one.median_ratio),
                _percent(one.within_1),
                _percent(one.within_3),
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
        known = [s.sd_for_coverage for s in studies(of_kind) if s.level is None and s.sd_for_coverage is not None]
        n = sum(one.low is not None for one in of_kind)
        problems = len({one.problem for one in of_kind})
        value = f"{max(known):.4f}" if known else "nothing, no repeat has an interval"
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
