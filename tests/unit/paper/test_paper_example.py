"""The whole paper from the synthetic run of seven generators, 250 problems and five samples: 8,750 candidates, and some
in bf16 and renamed references beside them. Expected numbers are those of plain_numbers.py, from the run's own truth.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import plain_numbers as plain
import pytest

from kbverified import kernel_table
from kbverified.aggregation import AggregationSettings
from kbverified.paper import build
from kbverified.paper.example import __main__ as command
from kbverified.paper.example import run
from kbverified.paper.example.audits import DEVICE
from kbverified.paper.example.run import Example
from kbverified.paper.example.truth import DEGENERATE, NARROW, RENAMED, SKILL, SUITE

LEVELS = {"1": 1, "2": 2, "3": 3, "all": None}
SLICE_PROBLEMS = [
    *(f"level1_{n}" for n in (1, 2, 3, 4, 5, 23, 90, 98)),
    *(f"level2_{n}" for n in (1, 2, 3, 4, 23, 36)),
    *(f"level3_{n}" for n in (1, 2, 3, 4, 28, 50)),
]
SLICE = ["alder", "rowan", NARROW]
PUBLISHED = {
    "source": "invented",
    "models": ["Alder", "Nobody"],
    "verified": {
        "Alder": {"level1": {"correctness_pct": 99.0, "correct_speedup": 7.77}},
        "Nobody": {"level1": {"correct_speedup": 1.0}},
    },
    "bf16": {"Alder": {"level1": {"correct_speedup": 1.3}}},
}
# Times are kept to six digits, geometric means to nine.
REL = 1e-5


@pytest.fixture(scope="module")
def example() -> Example:
    return run.draw()


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the whole example's paper."""
    root = tmp_path_factory.mktemp("synthetic")
    published = root / "published.json"
    published.write_text(json.dumps(PUBLISHED))
    assert command.main(["--out", str(root), "--paper", "--published", str(published)]) == 0
    return root / "results/paper"


def rows(paper: Path, table: str) -> list[dict[str, str]]:
    with (paper / f"tables/{table}.csv").open() as file:
        return list(csv.DictReader(file))


def check(row: dict[str, str], expected: dict[str, float], *columns: str) -> None:
    """Numbers of a row, None and NaN being empty; a mean's interval has the mean in it."""
    where = {k: v for k, v in row.items() if k in ("generator", "level", "test", "tau")}
    for column in columns:
        value = expected[column.split("=")[-1]]
        name = column.split("=")[0]
        assert float(row[name] or "nan") == pytest.approx(value, rel=REL, nan_ok=True), (where, name)
        if row.get(f"{name}_low"):
            assert float(row[f"{name}_low"]) <= float(row[name]) <= float(row[f"{name}_high"]), (where, name)


def test_the_example_is_of_the_size_and_mix_that_it_says(example: Example) -> None:
    sizes = {name: len(candidates) for name, candidates in example.candidates.items()}
    assert sizes == dict.fromkeys(SKILL, 1250) | {NARROW: 500, RENAMED: 180}
    assert Counter(key.level for key in example.problems) == {1: 100, 2: 100, 3: 50}
    verdicts = Counter(
        plain.verdict(c, example.problems[c.key.problem_key]) for name in SKILL for c in example.candidates[name]
    )
    assert len(verdicts) >= 10 and 0.4 < verdicts["pass"] / 8750 < 0.7
    again = run.draw(["rowan"], list(example.problems)[:3], 2)
    assert again.candidates["rowan"] == [c for c in example.candidates["rowan"] if c.key.sample < 2][:6]


def test_every_file_is_there_and_none_is_empty(paper: Path) -> None:
    there = {path.relative_to(paper).as_posix() for path in paper.rglob("*") if path.is_file()}
    assert there == {path for topic in build.TOPICS for path in topic.paths()} | {"findings.md"}
    for topic in build.TOPICS:
        for name in topic.tables:
            assert name == "published_sets" or rows(paper, name), f"{name} has no row"


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_the_verified_leaderboard(paper: Path, example: Example, dtype: str) -> None:
    found = rows(paper, f"verified_{dtype}")
    expected_names = set(SKILL) if dtype == "fp32" else {NARROW}
    assert Counter(row["generator"] for row in found) == dict.fromkeys(expected_names, 4)
    columns = ("n_problems", "n_solved", "n_timed", "correctness", "correct_speedup", "fast_1")
    for row in found:
        expected = plain.headline(example, row["generator"], LEVELS[row["level"]], "matched", "hidden")
        check(row, expected, *columns)


def test_memory_is_that_of_the_sample_that_won_on_speed(paper: Path, example: Example) -> None:
    for row in rows(paper, "memory_allocator_peak"):
        expected = plain.headline(example, row["generator"], LEVELS[row["level"]], "matched", "hidden")
        check(row, expected, "n_timed", "n_measured", "memory_efficiency", "memory_efficient")


def test_every_arm_under_every_test(paper: Path, example: Example) -> None:
    found = rows(paper, "arms")
    assert len(found) == 8 * 4 * 3
    for row in found:
        for arm in ("naive", "published", "matched"):
            expected = plain.headline(example, row["generator"], LEVELS[row["level"]], arm, row["test"])
            check(row, expected, "n_problems", "n_solved", f"correct_speedup_{arm}=correct_speedup", f"n_{arm}=n_timed")


def test_every_tolerance_and_what_the_common_problems_say(paper: Path, example: Example) -> None:
    found = rows(paper, "tolerance")
    assert {row["tau"] for row in found if row["dtype"] == "fp32"} == {"0.01", "0.001", "0.0001"}
    for row in found:
        tau, level = float(row["tau"]), LEVELS[row["level"]]
        expected = plain.headline(example, row["generator"], level, "matched", "hidden", tau)
        check(row, expected, "correctness", "correct_speedup", "timed=n_timed")


def test_what_fewer_samples_would_have_given(paper: Path, example: Example) -> None:
    best = {(row["generator"], row["level"], int(row["k"])): row for row in rows(paper, "best_of_n")}
    chosen = {(row["generator"], row["level"], int(row["k"])): row for row in rows(paper, "best_of_n_selection")}
    assert sorted(k for name, level, k in best if (name, level) == ("rowan", "all")) == [1, 2, 3, 4, 5, 50]
    assert best["rowan", "all", 50]["pass_at_k"] == "", "five samples say nothing about fifty"
    for name in ("alder", "rowan", NARROW):
        for level, number in LEVELS.items():
            for k in (1, 2, 3, 4, 5) if name != NARROW else (1, 2):
                expected = plain.best_of(example, name, number, k)
                check(best[name, level, k], expected, "pass_at_k", "correct_speedup")
                check(chosen[name, level, k], expected, "right", "taken_right")


def test_the_published_decomposition(paper: Path, example: Example) -> None:
    found = {(row["level"], row["generator"]): row for row in rows(paper, "decomposition_counts")}
    for level, number in LEVELS.items():
        check(
            found[level, "any generator"], plain.taken(example, SKILL, number),
            "tf32_only", "hidden_only", "both", "neither",
        )  # fmt: skip
        check(found[level, "rowan"], plain.taken(example, ["rowan"], number), "tf32_only", "hidden_only", "both")


def test_verdicts_are_counted_and_problems_named(paper: Path, example: Example) -> None:
    found = {row["verdict"]: row for row in rows(paper, "verdicts_hidden")}
    for name, candidates in example.candidates.items():
        counts = Counter(plain.verdict(c, example.problems[c.key.problem_key]) for c in candidates)
        assert {v: int(row[f"n_{name}"]) for v, row in found.items() if row[f"n_{name}"] != "0"} == dict(counts) | {
            "all candidates": len(candidates)
        }
    degenerate = [row["problem"] for row in rows(paper, "problems_apart") if row["kind"] == "degenerate"]
    assert [name.split("/")[-1] for name in degenerate] == list(DEGENERATE)
    whole = next(row for row in rows(paper, "problems_counts") if row["level"] == "all")
    wanted = {"n_selected": "250", "n_active": "246", "n_degenerate": "3", "n_unusable": "1", "n_not_applicable": "2"}
    assert whole | wanted == whole


def test_claims_below_what_has_to_move_are_counted_and_win_nothing(paper: Path, example: Example) -> None:
    found = {row["generator"]: row for row in rows(paper, "roofline") if row["level"] == "all"}
    too_good = {
        name: sum(
            c.speedup_tf32 is not None
            and not plain.plausible(c, example.problems[c.key.problem_key], "tf32")
            and plain.passes(c, example.problems[c.key.problem_key], "hidden", 1e-3)
            for c in example.candidates[name]
            if example.problems[c.key.problem_key].active
        )
        for name in SKILL
    }
    assert sum(too_good.values()) > 10
    assert {name: int(found[name]["n_implausible"]) for name in SKILL} == too_good


def test_renamed_references_are_as_fast_as_themselves(paper: Path, example: Example) -> None:
    for row in rows(paper, "aa"):
        attribute = {"default": "speedup_default", "tf32": "speedup_tf32"}[row["mode"]]
        by_problem = {
            name: [getattr(c, attribute) for c in several]
            for name, several in plain.samples(example, RENAMED).items()
            if LEVELS[row["level"]] in (None, several[0].key.problem_key.level)
        }
        mean = plain.geometric_mean(plain.geometric_mean(values) for values in by_problem.values())
        assert float(row["mean_ratio"]) == pytest.approx(mean, rel=REL)
        assert int(row["n_repeats"]) == sum(map(len, by_problem.values()))


def test_published_numbers_are_answered_by_what_was_measured(paper: Path, example: Example) -> None:
    found = {(row["section"], row["metric"]): row for row in rows(paper, "published")}
    fp32 = plain.headline(example, "alder", 1, "published", "hidden")
    bf16 = plain.headline(example, NARROW, 1, "matched", "hidden")
    correctness = found["verified", "correctness (%)"]
    check(correctness, {"measured": 100 * fp32["correctness"], "n": fp32["n_problems"]}, "measured", "n")
    speedup, narrow = found["verified", "Correct Speedup"], found["bf16", "Correct Speedup"]
    check(speedup, {"measured": fp32["correct_speedup"], "n": fp32["n_timed"]}, "measured", "n")
    check(narrow, {"measured": bf16["correct_speedup"], "n": bf16["n_timed"]}, "measured", "n")
    assert (correctness["inside"], speedup["inside"]) == ("yes", "no")
    assert [row["field"] for row in rows(paper, "published_unanswered")] == ["verified.Nobody.level1.correct_speedup"]


def test_what_llm_judges_say_is_what_was_drawn(paper: Path, example: Example) -> None:
    """Every verified candidate above 1x, or too fast to be true, is judged, by two that are not its own model."""
    found = {row["generator"]: row for row in rows(paper, "llm_judges")}
    n_both = 0
    for name in (*SKILL, NARROW):
        faster, problems = [], example.problems
        for c in example.candidates[name]:
            p = problems[c.key.problem_key]
            if not (p.usable and not p.degenerate and plain.passes(c, p, "hidden", plain.TAU[c.dtype])):
                continue
            speedup = plain.speedup(c, p, "matched")
            timed = [m for m in ("default", "tf32") if getattr(c, f"speedup_{m}") is not None]
            if (speedup or 0.0) > 1 or any(not plain.plausible(c, p, mode) for mode in timed):
                faster.append(c.key.tail)
        assert int(found[name]["n_faster"]) == len(faster), name
        if name != "hazel":  # whose model judges the others
            n_both += len(faster)
    assert len(found) == len(SKILL) + 2 and "renamed" not in " ".join(found)
    (pair,) = [row for row in rows(paper, "llm_judges_agreement") if row["first"] == "hazel-again"]
    sampled = int(pair["n"]) + int(pair["n_without"]) - n_both
    others = sum(int(row["n_sample"]) for name, row in found.items() if name not in ("hazel", "all generators"))
    assert sampled == others and float(pair["kappa_low"]) < float(pair["kappa"]) < float(pair["kappa_high"])
    judges = {row["judge"]: row for row in rows(paper, "llm_judges_judges")}
    assert int(judges["hazel-again"]["n_asked"]) == int(pair["n"]) + int(pair["n_without"])


# --- a part of it, through files ----------------------------------------------------------------------------


def written(root: Path, **environment: str) -> dict[str, str]:
    """Digests of what another process makes of a part of the example, all of whose records are files."""
    words = ["--out", str(root), "--generators", *SLICE, "--problems", *SLICE_PROBLEMS, "--samples", "2"]
    subprocess.run(
        [sys.executable, "-m", "kbverified.paper.example", *words, "--records", "--paper"],
        check=True, env=os.environ | environment, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    files = [
        *(root / "results/paper").rglob("*.*"),
        *(root / "results/kernels").iterdir(),
        root / "results/leaderboard.md",
    ]
    return {path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_a_part_through_record_files_is_the_same_and_has_the_same_bytes_when_made_again(tmp_path: Path) -> None:
    first = written(tmp_path / "a", PYTHONHASHSEED="0", TZ="UTC")
    second = written(tmp_path / "b", PYTHONHASHSEED="1234", TZ="Asia/Kathmandu", SOURCE_DATE_EPOCH="1")
    assert len(first) == sum(len(topic.paths()) for topic in build.TOPICS) + 1 + len(SLICE) + 1
    assert {name for name in first if first[name] != second[name]} == set()

    part = run.draw(SLICE, [key for key in run.problem_keys() if key.problem in SLICE_PROBLEMS], 2)
    settings, audits = AggregationSettings(), run.audits(part)
    for name, candidates in part.candidates.items():
        in_memory = run.table(candidates, part.problems, audits, settings, tmp_path / "a")
        from_files = kernel_table.read_parquet(tmp_path / f"a/results/kernels/{name}.parquet")
        assert len(from_files) == len(candidates) == 40
        assert kernel_table.rows(in_memory) == kernel_table.rows(from_files)
    assert (tmp_path / f"a/results/time-tf32/alder/{SUITE}/level1_1/0.json").is_file()
    assert DEVICE.name == "synthetic device"
