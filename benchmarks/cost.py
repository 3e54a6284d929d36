"""What a run costs before it is started: GPU and CPU hours, planning, files and bytes, from measured constants.

    python -m benchmarks.cost --candidates 8750 --gpus 2 --cores 32 [--samples 5] [--problems 250]
    python -m benchmarks.cost --document docs/scaling.md          # writes the tables there anew

A linear model: so many seconds a candidate, milliseconds a job, bytes a file (cost_constants.py, each with its source).
Every candidate is taken to go through every stage, so that GPU hours are those of candidates that are right. Nothing
is measured here, and what never was measured is in no sum.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cost_constants import CONSTANTS, GIB, UNMEASURED, of
from benchmarks.summaries import table
from kbverified.affinity import reserved_cores
from kbverified.compilation.cache import LIMIT_BYTES
from kbverified.keys import STAGES

PROBLEMS = 250
SAMPLES = 5
FILES_A_JOB = 4
"""Its record, its log, its run time, and what Snakemake notes of it."""
FOLDERS_A_PROBLEM = 3 * len(STAGES) + 1
"""Of one generator: results, logs and run times of every stage, and the candidates."""
PLAN_TARGET_S = 100.0
PLAN_TARGET_BYTES = 2 * GIB
"""What planning may take (docs/scaling.md)."""
SHARD = 256
"""Candidates of one shard: an hour of one GPU."""
SIZES = (8_750, 100_000, 1_000_000)


@dataclass(frozen=True)
class Run:
    """A run to come, of one file target per candidate and stage."""

    candidates: int
    gpus: int = 1
    cores: int = 16
    samples: int = SAMPLES
    problems: int = PROBLEMS

    def __post_init__(self) -> None:
        if bad := [name for name, value in vars(self).items() if value < 1]:
            raise ValueError(f"{bad[0]}: {getattr(self, bad[0])} is none: name at least one")

    # --- devices and cores ----------------------------------------------------------------------------------

    @property
    def gpu_s(self) -> float:
        """How long GPUs are held, all together."""
        return self.candidates * gpu_s_a_candidate() + self.problems * of("audit_hold")

    @property
    def cpu_s(self) -> float:
        """CPU seconds of compiling and of the stages beside their holds; audits are in none."""
        return self.candidates * (of("compile_cpu") + of("stages_cpu") + of("row_cpu")) + self.jobs * of("start_cpu")

    @property
    def free_cores(self) -> int:
        """Cores that are not kept for the judges and workers of GPUs. A core is one thread: of two threads a core, both
        are kept, and this is too many."""
        alone = {core: frozenset((core,)) for core in range(self.cores)}
        kept = reserved_cores(range(self.cores), [str(gpu) for gpu in range(self.gpus)], alone)
        return self.cores - sum(map(len, kept.values()))

    @property
    def limits_s(self) -> dict[str, float]:
        """Wall seconds that each of three things needs at least; the run takes the longest of them."""
        return {
            "GPUs": self.gpu_s / (self.gpus * of("gpu_busy")),
            "cores": self.cpu_s / self.free_cores,
            "starting jobs": self.jobs * of("start_wall"),
        }

    # --- Snakemake ------------------------------------------------------------------------------------------

    @property
    def jobs(self) -> int:
        """Of candidates that are there already, without tables."""
        return self.candidates * len(STAGES) + self.problems

    @property
    def plan_s(self) -> float:
        return self.jobs * of("plan_cpu")

    @property
    def noop_s(self) -> float:
        return self.jobs * of("noop_cpu")

    @property
    def plan_bytes(self) -> float:
        return of("plan_base_bytes") + self.jobs * of("plan_bytes")

    @property
    def calls(self) -> int:
        """Into how many calls of Snakemake, each for a part of the selection, planning within the targets divides."""
        return -(-self.candidates // one_call_candidates())

    # --- files ----------------------------------------------------------------------------------------------

    @property
    def inodes(self) -> int:
        """Files and folders, without builds."""
        files = self.candidates * (FILES_A_JOB * len(STAGES) + 2) + self.problems * FILES_A_JOB
        return files + -(-self.candidates // self.samples) * FOLDERS_A_PROBLEM

    @property
    def disk_bytes(self) -> float:
        """In blocks, without builds and tables."""
        job = of("metadata_disk") + of("log_disk") + of("benchmark_disk")
        candidate = of("record_disk") + of("source_disk") + of("origin_disk") + len(STAGES) * job
        return self.candidates * (candidate + FOLDERS_A_PROBLEM * of("folder_disk") / self.samples)

    @property
    def record_bytes(self) -> float:
        """What the records themselves say."""
        return self.candidates * of("record_bytes")

    @property
    def build_bytes(self) -> float:
        """What the build cache grows to: it has a limit."""
        return min(LIMIT_BYTES, self.candidates * of("build_bytes"))


@dataclass(frozen=True)
class Sharded:
    """The same with one job per shard of candidates and kind of work (compiling; everything on a GPU), and one Parquet
    file of records and one log for each: not built."""

    candidates: int
    shard: int = SHARD
    problems: int = PROBLEMS

    @property
    def jobs(self) -> int:
        return 2 * -(-self.candidates // self.shard) + self.problems

    @property
    def plan_s(self) -> float:
        return self.jobs * of("plan_cpu")

    @property
    def plan_bytes(self) -> float:
        return of("plan_base_bytes") + self.jobs * of("plan_bytes")

    @property
    def inodes(self) -> int:
        """Sources and where they came from would be rows of a Parquet file of each shard."""
        return self.jobs * FILES_A_JOB + -(-self.candidates // self.shard)

    @property
    def record_bytes(self) -> float:
        return self.candidates * of("parquet_bytes")

    @property
    def gpu_s_a_job(self) -> float:
        return self.shard * gpu_s_a_candidate()


def gpu_s_a_candidate() -> float:
    return sum(of(name) for name in ("gate_hold", "time_fp32_hold", "time_tf32_hold", "memory_hold"))


def one_call_candidates(problems: int = PROBLEMS) -> int:
    """The most candidates that one call of Snakemake plans within both targets."""
    by_time = PLAN_TARGET_S / of("plan_cpu")
    by_memory = (PLAN_TARGET_BYTES - of("plan_base_bytes")) / of("plan_bytes")
    return int((min(by_time, by_memory) - problems) / len(STAGES))


def busy_gpus() -> int:
    """How many GPUs one Snakemake keeps busy: beyond, starting jobs one after the other takes longer than they do."""
    return int(gpu_s_a_candidate() / of("gpu_busy") / (len(STAGES) * of("start_wall")))


# --- words --------------------------------------------------------------------------------------------------


def hours(seconds: float) -> str:
    """``39 min``, ``34.5 h``, ``3,930 h``."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 360_000 else f"{seconds / 3600:,.0f} h"


def gigabytes(size: float) -> str:
    return f"{size / 1e6:.0f} MB" if size < 1e9 else f"{size / 1e9:,.1f} GB"


def rows_of(run: Run) -> list[tuple[str, str]]:
    """What is known of a run, in words."""
    longest = max(run.limits_s, key=lambda name: run.limits_s[name])
    return [
        ("GPU held", hours(run.gpu_s)),
        ("CPU time", hours(run.cpu_s)),
        (f"wall on {run.gpus} GPU and {run.cores} cores", f"{hours(run.limits_s[longest])} ({longest})"),
        ("Snakemake's jobs", f"{run.jobs:,}"),
        ("planning all, CPU", hours(run.plan_s)),
        ("finding nothing to do, CPU", hours(run.noop_s)),
        ("memory of Snakemake", f"{run.plan_bytes / GIB:,.1f} GiB"),
        ("starting jobs, one after the other", hours(run.jobs * of("start_wall"))),
        (f"calls, each within {PLAN_TARGET_S:.0f} s and {PLAN_TARGET_BYTES / GIB:.0f} GiB", f"{run.calls}"),
        ("files and folders", f"{run.inodes:,}"),
        ("on disk", gigabytes(run.disk_bytes)),
        ("of it records, as JSON", gigabytes(run.record_bytes)),
        ("build cache", gigabytes(run.build_bytes)),
        ("tables of rows", gigabytes(run.candidates * of("row_bytes"))),
        ("leaderboard page", gigabytes(run.candidates * of("page_bytes"))),
    ]


def sharded_rows(run: Sharded) -> list[tuple[str, str]]:
    return [
        ("jobs", f"{run.jobs:,}"),
        ("planning all, CPU", hours(run.plan_s)),
        ("memory of Snakemake", f"{run.plan_bytes / GIB:,.1f} GiB"),
        ("files", f"{run.inodes:,}"),
        ("records, as Parquet", gigabytes(run.record_bytes)),
    ]


def document() -> str:
    """The part of docs/scaling.md that comes from here."""
    shapes = [Run(n) for n in SIZES]
    head = ["candidates", *(f"{n:,}" for n in SIZES)]
    lines = [
        f"One GPU, 16 cores, {PROBLEMS} problems, {SAMPLES} samples of each by a generator:",
        "",
        table(head, [[name, *(dict(rows_of(run))[name] for run in shapes)] for name, _ in rows_of(shapes[0])]),
        "",
        f"One call of Snakemake plans at most {one_call_candidates():,} candidates within the targets above, and keeps "
        f"at most {busy_gpus()} GPUs busy.",
        "",
        f"With shards of {SHARD} candidates, {hours(Sharded(SHARD).gpu_s_a_job)} of one GPU each:",
        "",
        table(head, _columns([sharded_rows(Sharded(n)) for n in SIZES])),
        "",
        "The constants:",
        "",
        table(
            ("constant", "value", "what", "measured where"),
            [(f"`{name}`", f"{c.value:,.6g} {c.unit}".strip(), c.what, c.source) for name, c in CONSTANTS.items()],
        ),
        "",
        "Not measured, and in no sum:",
        "",
        *(f"- {line}" for line in UNMEASURED),
    ]
    return "\n".join(lines) + "\n"


def _columns(sides: list[list[tuple[str, str]]]) -> list[list[str]]:
    return [[several[0][0], *(value for _, value in several)] for several in zip(*sides, strict=True)]


BEGIN, END = "<!-- python -m benchmarks.cost --document docs/scaling.md -->\n", "<!-- end -->\n"


def rewritten(page: str) -> str:
    """A page with the part between the two marks made anew. Raises ValueError where it has no such marks."""
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        raise ValueError(f"the page needs one line {BEGIN.strip()} and one line {END.strip()} after it")
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    return f"{before}{BEGIN}\n{document()}\n{END}{after}"


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cost", description=__doc__.splitlines()[0])
    parser.add_argument("--candidates", type=int, default=SIZES[0])
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--cores", type=int, default=16)
    parser.add_argument("--samples", type=int, default=SAMPLES, help="of each problem, by a generator")
    parser.add_argument("--problems", type=int, default=PROBLEMS)
    parser.add_argument("--document", type=Path, help="write the tables into this page instead")
    arguments = parser.parse_args(words)
    if arguments.document:
        arguments.document.write_text(rewritten(arguments.document.read_text("utf-8")), "utf-8")
        return 0
    try:
        run = Run(arguments.candidates, arguments.gpus, arguments.cores, arguments.samples, arguments.problems)
    except ValueError as error:
        parser.error(str(error))
    print(table((f"{run.candidates:,} candidates", ""), rows_of(run)))
    if run.calls > 1:
        print(
            f"\nOne call plans at most {one_call_candidates(run.problems):,}: take a part of the selection at a time."
        )
    if run.gpus > busy_gpus():
        print(
            f"\nOne Snakemake keeps at most {busy_gpus()} GPUs busy: "
            "run parts of the selection side by side, in folders of their own."
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
