"""What one candidate, one job and one file cost: every measured constant of the cost model, with where it is from.

A figure that was never measured has no value here, and stands in UNMEASURED: it is in no sum.
"""

from __future__ import annotations

from dataclasses import dataclass

KIB, GIB = 1 << 10, 1 << 30


@dataclass(frozen=True)
class Constant:
    """One measured figure."""

    value: float
    unit: str
    what: str
    source: str
    """The document, archive or module that has it, and on what it was measured."""


RUN_G = "docs/runs/2026-11-30-h200x2-g.tar.xz (two H200, 36 real candidates)"
PLANNED = "docs/scaling.md, 8,750 candidates on a quiet machine"
TWICE = "docs/scaling.md, 8,750 and 17,500 candidates"
TREE = "`python -m benchmarks.tree` of `make demo`'s results (ext4)"

CONSTANTS: dict[str, Constant] = {
    # GPU: means over those that reached the stage. All are taken to reach all of them, so that the sum is too high
    # where candidates fail early.
    "gate_hold": Constant(5.32, "s", "GPU held by the gate, mean", RUN_G),
    "time_fp32_hold": Constant(3.50, "s", "GPU held by time-fp32, mean", RUN_G),
    "time_tf32_hold": Constant(3.38, "s", "GPU held by time-tf32, mean", RUN_G),
    "memory_hold": Constant(1.95, "s", "GPU held by memory, mean", RUN_G),
    "audit_hold": Constant(2.29, "s", "GPU held by the audit of a problem, mean", RUN_G),
    "gpu_busy": Constant(0.88, "", "share of a run's wall in which its GPUs are held", RUN_G),
    # CPU.
    "compile_cpu": Constant(16.1, "CPU-s", "compiling, mean", RUN_G),
    "stages_cpu": Constant(
        10.4, "CPU-s", "the four GPU stages outside their holds, at most", RUN_G + ", `benchmarks.holds`"
    ),
    "row_cpu": Constant(1.4e-3, "CPU-s", "records in memory to a row of the table", "docs/performance.md, the paper"),
    # Snakemake.
    "plan_cpu": Constant(1.50e-3, "CPU-s", "planning a job and announcing it", PLANNED + ": 66.1 s, 44,009 jobs"),
    "noop_cpu": Constant(1.03e-3, "CPU-s", "finding that a job needs nothing", PLANNED + ": 45.4 s, 44,009 jobs"),
    "plan_bytes": Constant(23.3 * 1000, "B", "memory of Snakemake for a job", TWICE + ": 1.18 and 2.13 GiB"),
    "plan_base_bytes": Constant(0.225 * GIB, "B", "memory of Snakemake without jobs", TWICE),
    "start_wall": Constant(0.030, "s", "Snakemake starting and ending a job, one after the other", PLANNED),
    "start_cpu": Constant(0.046, "CPU-s", "the same with its shell and Python", PLANNED + ": 28 + 18 ms"),
    # Files: one of each kind for every job of a candidate.
    "record_bytes": Constant(39_988, "B", "five records of a candidate, as JSON", RUN_G + ", the 30 complete ones"),
    "record_disk": Constant(51_702, "B", "the same in blocks of 4 KiB", RUN_G),
    "parquet_bytes": Constant(4_205, "B", "the same in one Parquet file (zstd) of 30 candidates", RUN_G),
    "metadata_disk": Constant(4_312, "B", "what Snakemake notes of an output", TREE),
    "log_disk": Constant(4_096, "B", "a job's log, some 80 bytes", TREE),
    "benchmark_disk": Constant(4_096, "B", "a job's run time, some 130 bytes", TREE),
    "source_disk": Constant(
        6_032, "B", "a candidate's source (4,264 bytes)", "the 146 public candidates of docs/runs/candidates.jsonl"
    ),
    "origin_disk": Constant(4_096, "B", "where it came from, some 400 bytes", RUN_G),
    "folder_disk": Constant(4_096, "B", "a folder", TREE),
    "row_bytes": Constant(
        463, "B", "a row of the table", "kernels/alder.parquet of `kbverified.paper.example`, 1,250 rows"
    ),
    "page_bytes": Constant(
        1_794, "B", "a candidate on the leaderboard page", "docs/leaderboard-page.md: 15.7 MB of 8,750"
    ),
    "build_bytes": Constant(
        2.3e6, "B", "what a candidate builds", "compilation/cache.py: 20 GB of 8,750, 1 to 3 MB each"
    ),
}

UNMEASURED = (
    "a network file system: all files here lie on a local disk",
    "a cluster's executor: about 12 s a plain job and 4 s in a group were seen (SLURM with fake GPUs), in no sum here",
    "Snakemake starting jobs with more than 44,009 left: its share of a job grew from 34 ms at 250 candidates to 47 ms "
    "at 8,750 on a busy machine, since each round walks over all jobs that are left",
    "CPU time of judge and workers while they hold a GPU: four cores are kept for them",
    "files of a CUDA build: a C++ one of the demo has up to nine, in four folders",
    "CPU time of an audit with CUDA",
    "the gate's trial that guards what torch allocates, and its second launch: both came after the run of the holds",
    "optional baselines: time-ieee and time-compile have not run on a GPU",
    "generating: tokens and money are the endpoint's; a generator of origin `api` adds a job for every candidate",
    "shards: nothing of them is built",
)


def of(name: str) -> float:
    """The value of a constant."""
    return CONSTANTS[name].value
