"""The cost model by hand, its constants against what they were measured from, and the page against the command."""

from __future__ import annotations

import json
import math
import re
import tarfile
from pathlib import Path

import pytest

from benchmarks import cost, run_records, tree
from benchmarks.cost_constants import CONSTANTS, of

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/scaling.md"
ARCHIVE = ROOT / "docs/runs/2026-11-30-h200x2-g.tar.xz"
STAGES = ("compile", "hidden-gate", "time-fp32", "time-tf32", "memory")


# --- the model ----------------------------------------------------------------------------------------------


def test_a_run_by_hand() -> None:
    run = cost.Run(8_750, gpus=2, cores=32)
    assert run.gpu_s == pytest.approx(8_750 * (5.32 + 3.50 + 3.38 + 1.95) + 250 * 2.29)
    assert run.jobs == 8_750 * 5 + 250
    assert run.plan_s == pytest.approx(44_000 * 1.5e-3)
    assert run.plan_bytes / 2**30 == pytest.approx(1.18, abs=0.005), "what was measured at this size"
    # Candidate, origin, and record, log, run time and note of five jobs; four files of an audit; sixteen folders.
    assert run.inodes == 8_750 * (2 + 5 * 4) + 250 * 4 + 1_750 * 16
    blocks = 51_702 + 6_032 + 4_096 + 5 * (4_312 + 2 * 4_096) + 16 * 4_096 / 5
    assert run.disk_bytes == pytest.approx(8_750 * blocks)
    assert run.calls == 1
    assert run.limits_s["GPUs"] == pytest.approx(run.gpu_s / 2 / 0.88)
    # Four cores are kept for either GPU.
    assert run.limits_s["cores"] == pytest.approx((8_750 * (16.1 + 10.4 + 1.4e-3) + 44_000 * 0.046) / 24)


def test_what_is_kept_for_gpus_is_not_counted_on_few_cores() -> None:
    assert cost.Run(10, gpus=4, cores=31).free_cores == 31
    assert cost.Run(10, gpus=4, cores=32).free_cores == 16


def test_the_longest_of_three_is_the_wall() -> None:
    def said(**shape: int) -> str:
        return next(text for name, text in cost.rows_of(cost.Run(100_000, **shape)) if name.startswith("wall"))

    assert said(gpus=1, cores=16).endswith("(GPUs)")
    assert said(gpus=8, cores=8).endswith("(cores)")
    assert said(gpus=500, cores=10_000).endswith("(starting jobs)")


def test_one_call_is_the_largest_that_meets_both_targets() -> None:
    n = cost.one_call_candidates()
    assert cost.Run(n).plan_s <= 100 < cost.Run(n + 1).plan_s
    assert cost.Run(n).plan_bytes <= 2 * 2**30
    assert [cost.Run(c).calls for c in (n, n + 1, 2 * n + 1)] == [1, 2, 3]


def test_more_gpus_than_one_snakemake_can_feed_wait_for_it() -> None:
    n = cost.busy_gpus()
    for gpus, waits in ((n, False), (n + 1, True)):
        limits = cost.Run(10**6, gpus=gpus, cores=10**5, problems=1).limits_s
        assert (limits["starting jobs"] > limits["GPUs"]) is waits


def test_shards_by_hand() -> None:
    run = cost.Sharded(1_000, shard=256)
    assert run.jobs == 2 * 4 + 250
    assert run.inodes == 258 * 4 + 4
    assert run.gpu_s_a_job == pytest.approx(256 * 14.15)
    assert run.record_bytes == 1_000 * 4_205


@pytest.mark.parametrize(
    ("seconds", "said"), [(45.3, "45 s"), (5_160, "86 min"), (36_000, "10.0 h"), (14_151_000, "3,931 h")]
)
def test_times_in_words(seconds: float, said: str) -> None:
    assert cost.hours(seconds) == said


# --- the command and the page -------------------------------------------------------------------------------


def test_the_page_has_what_the_command_writes(tmp_path: Path) -> None:
    page = PAGE.read_text("utf-8")
    assert cost.document() in page
    copy = tmp_path / "scaling.md"
    copy.write_text(page.replace("34.6 h", "3 h"), "utf-8")
    assert cost.main(["--document", str(copy)]) == 0
    assert copy.read_text("utf-8") == page, "python -m benchmarks.cost --document docs/scaling.md"


def test_a_page_without_the_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="one line"):
        cost.rewritten("# Scaling\n")


def test_the_command_says_what_does_not_fit_one_call(capsys: pytest.CaptureFixture[str]) -> None:
    assert cost.main(["--candidates", "100000", "--gpus", "200", "--cores", "2000"]) == 0
    said = capsys.readouterr().out
    assert "| Snakemake's jobs | 500,250 |" in said
    assert "take a part of the selection at a time" in said
    assert "run parts of the selection side by side" in said
    assert cost.main(["--candidates", "10"]) == 0
    assert "a time" not in capsys.readouterr().out
    with pytest.raises(SystemExit):
        cost.main(["--candidates", "0"])


# --- the constants, against where they are from -------------------------------------------------------------


@pytest.fixture(scope="module")
def run() -> run_records.Run:
    return run_records.load([ARCHIVE])


def test_holds_are_those_of_the_run(run: run_records.Run) -> None:
    for stage in STAGES[1:]:
        held = [r.provenance.device_hold_s for _, r in run.of(stage) if r.provenance.device_hold_s is not None]
        name = f"{stage.removeprefix('hidden-').replace('-', '_')}_hold"
        assert of(name) == pytest.approx(sum(held) / len(held), abs=0.006), name
    audits = [a.provenance.device_hold_s for a in run.audits.values() if a.provenance.device_hold_s is not None]
    assert of("audit_hold") == pytest.approx(sum(audits) / len(audits), abs=0.006)
    compiled = [r.cpu_seconds for _, r in run.of("compile") if r.cpu_seconds is not None]  # type: ignore[attr-defined]
    assert of("compile_cpu") == pytest.approx(sum(compiled) / len(compiled), abs=0.06)


def test_sizes_of_records_are_those_of_the_run() -> None:
    sizes: dict[str, dict[str, int]] = {}
    with tarfile.open(ARCHIVE) as members:
        for member in members:
            top, stage, *tail = member.name.split("/") if member.name.count("/") > 1 else ("", "")
            if top == "results" and stage in STAGES:
                sizes.setdefault("/".join(tail), {})[stage] = member.size
    complete = [sum(of_one.values()) for of_one in sizes.values() if len(of_one) == 5]
    assert len(complete) == 30
    assert of("record_bytes") == pytest.approx(sum(complete) / 30, abs=1)
    on_disk = 0.0
    for stage in STAGES:
        blocks = [4096 * math.ceil(of_one[stage] / 4096) for of_one in sizes.values() if stage in of_one]
        on_disk += sum(blocks) / len(blocks)
    assert of("record_disk") == pytest.approx(on_disk, abs=1)


def test_snakemakes_figures_are_those_of_the_page() -> None:
    quiet = PAGE.read_text("utf-8").split("**The same machine, quiet**")[1]
    dry, gib = re.search(r"\| 8,750 \| dry run \| [\d.]+ s \| ([\d.]+) s \| ([\d.]+) GiB", quiet).groups()  # type: ignore[union-attr]
    (noop,) = re.search(r"\| 8,750 \| no-op \| [\d.]+ s \| ([\d.]+) s", quiet).groups()  # type: ignore[union-attr]
    wall, own, others = re.search(r"\| 8,750 \| running \| (\d+) ms a job \| (\d+) \+ (\d+) ms", quiet).groups()  # type: ignore[union-attr]
    assert of("plan_cpu") == pytest.approx(float(dry) / 44_009, abs=5e-6)
    assert of("noop_cpu") == pytest.approx(float(noop) / 44_009, abs=5e-6)
    assert (of("start_wall"), of("start_cpu")) == (int(wall) / 1e3, (int(own) + int(others)) / 1e3)
    (twice,) = re.search(r"\| 17,500 \| dry run, `--quiet` \| [\d.]+ s \| [\d.]+ s \| ([\d.]+) GiB", quiet).groups()  # type: ignore[union-attr]
    assert of("plan_bytes") == pytest.approx((float(twice) - float(gib)) * 2**30 / 43_750, rel=0.005)
    assert of("plan_base_bytes") == pytest.approx(float(gib) * 2**30 - 44_009 * of("plan_bytes"), rel=0.01)


def test_every_constant_says_what_it_is_and_where_it_is_from() -> None:
    for name, constant in CONSTANTS.items():
        assert constant.value > 0 and constant.what and constant.source, name
        for path in re.findall(r"docs/[\w./-]+?\.(?:md|tar\.xz|jsonl)", constant.source):
            assert (ROOT / path).is_file(), (name, path)


# --- the tree -----------------------------------------------------------------------------------------------


def test_files_and_bytes_of_a_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for sample in (0, 1):
        for path, text in (
            (f"results/compile/g/s/level1_1/{sample}.json", json.dumps({"n": sample})),
            (f"logs/compile/g/s/level1_1/{sample}.log", "x" * 5_000),
            (f".snakemake/metadata/{sample}", "note"),
        ):
            file = tmp_path / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    found = tree.measure(tmp_path)
    assert (found["results/compile"].files, found["results/compile"].folders) == (2, 3)
    assert (found["logs/compile"].size, found["logs/compile"].files) == (10_000, 2)
    assert found["logs/compile"].on_disk == sum(
        file.stat().st_blocks * 512 for file in (tmp_path / "logs").rglob("*.log")
    )
    assert found[".snakemake/metadata"].files == 2 and found["results/memory"].files == 0
    assert tree.main([str(tmp_path)]) == 0
    assert "2 candidates" in capsys.readouterr().out
    assert tree.main([str(tmp_path / "empty")]) == 1
