"""Write the synthetic run, or a part of it, into a folder: kernel tables, audits, leaderboard, and the paper."""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path

from kbverified import leaderboard
from kbverified.aggregation import AggregationSettings
from kbverified.config import Paper
from kbverified.keys import ProblemKey
from kbverified.paper import build
from kbverified.paper.example import judgements, run
from kbverified.paper.example.truth import NARROW, RENAMED, SAMPLES, SKILL, SUITE
from kbverified.paper.inputs import load

TAUS = Paper().taus
NAMES = {name: name.capitalize() for name in SKILL} | {NARROW: NARROW.removesuffix("-bf16").capitalize()}
"""Two runs of one model, in fp32 and in bf16, have one name."""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m kbverified.paper.example", description=__doc__)
    made.add_argument("--out", type=Path, required=True, help="a folder; results/ is written below it")
    made.add_argument("--generators", nargs="+", default=list(run.GENERATORS), choices=run.GENERATORS, metavar="NAME")
    made.add_argument("--problems", nargs="+", metavar="level1_1", help="only these (default: all 250)")
    made.add_argument("--samples", type=int, default=SAMPLES, help="at most so many of each problem")
    made.add_argument("--seed", type=int, default=run.SEED)
    made.add_argument("--records", action="store_true", help="write every record as a file and aggregate those")
    made.add_argument("--paper", action="store_true", help="build the paper too, in results/paper")
    made.add_argument(
        "--published", type=Path, help="a file of published numbers; in it alder is called Alder, and so on"
    )
    return made


def main(words: list[str] | None = None) -> int:
    arguments = parser().parse_args(words)
    settings = AggregationSettings()
    chosen = [ProblemKey(SUITE, name) for name in arguments.problems] if arguments.problems else None
    clock = time.monotonic()
    example = run.draw(arguments.generators, chosen, arguments.samples, arguments.seed)
    if arguments.records:
        run.write_records(example, arguments.out)
        tables = run.aggregate_records(example, arguments.out, settings)
    else:
        tables = run.write_tables(example, arguments.out, settings)
    judged = [path for path in tables if path.stem != RENAMED]  # renamed references are no model's
    inputs = load(
        arguments.out,
        arguments.generators,
        example.problems,
        settings,
        TAUS,
        arguments.published,
        labels_path=judgements.write_labels(judged, arguments.out, arguments.seed),
        published_suite=SUITE,
        names=NAMES,
        references=(RENAMED,),
    )
    leaderboard.write(inputs.leaderboard, arguments.out / "results")
    n = sum(len(candidates) for candidates in example.candidates.values())
    print(f"{n} candidates: tables and leaderboard after {time.monotonic() - clock:.1f} s")
    if arguments.paper:
        paths = build.build(inputs, arguments.out / "results/paper")
        print(f"{len(paths)} files of the paper after {time.monotonic() - clock:.1f} s")
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"at most {peak_mib:.0f} MiB, {time.process_time():.1f} CPU seconds in this process")
    return 0


if __name__ == "__main__":
    sys.exit(main())
