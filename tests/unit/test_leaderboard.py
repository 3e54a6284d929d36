"""The leaderboard against a table small enough to be worked out by hand, and what it does with what is missing."""

import csv
import io
import json
import math
import random

import pytest
import record_factory as rf

from kbverified import cli, kernel_table, leaderboard
from kbverified.aggregation import AggregationSettings, MixedEnvironments, aggregate_generator, load_problems
from kbverified.keys import CandidateKey, ProblemKey
from kbverified.leaderboard import files, headline, markdown, terminal
from kbverified.leaderboard.model import Estimate, Leaderboard
from kbverified.leaderboard.scopes import why_inactive
from kbverified.records.files import read
from kbverified.records.stages import GateRecord, TimeRecord

SETTINGS = AggregationSettings(resamples=400)
HIDDEN_ONLY = {"d1_original": 1e-6, "d2_scale_3": 0.5, "d3_scale_0.01": 1e-6, "d4_negate": 1e-6}
ALWAYS_WRONG = dict.fromkeys(HIDDEN_ONLY, 0.5)


def stages(fp32, tf32, memory=(2000, 1000), tolerances=None, **gate):
    """fp32 and tf32: (baseline ms, candidate ms)."""
    return {
        "compile": rf.compiled(),
        "hidden-gate": rf.gate(tolerances, **gate),
        "time-fp32": rf.timing("time-fp32", *fp32, rounds=6),
        "time-tf32": rf.timing("time-tf32", *tf32, rounds=6),
        "memory": rf.memory(*memory),
    }


# What each sample's arms come to:               naive  published  matched   memory
FAST_NAIVE = stages((4.0, 1.0), (1.0, 2.0))  # 4      1          0.5       2
FAST_MATCHED = stages((4.0, 2.0), (1.0, 0.25), (900, 1800))  # 2      0.5        4         0.5
OVERFITTED = stages((8.0, 1.0), (8.0, 1.0), tolerances=HIDDEN_ONLY)  # 8      8          8, standard only
WRONG = stages((90.0, 1.0), (90.0, 1.0), tolerances=ALWAYS_WRONG)
EVEN = stages((1.0, 1.0), (1.0, 1.0), (1000, 1000))  # 1      1          1         1

PROBLEMS = [ProblemKey("kb", p) for p in ("level1_1", "level1_2", "level1_3", "level1_4", "level2_1", "level2_23")]
CANDIDATES = {
    "level1_1": [FAST_NAIVE, FAST_MATCHED],
    "level1_2": [OVERFITTED, EVEN],
    "level1_3": [WRONG],
    # level1_4: no candidate
    "level2_1": [FAST_NAIVE],
    "level2_23": [FAST_MATCHED],  # degenerate
}  # fmt: skip


def make(root, candidates, generator="gen", settings=SETTINGS, problems=PROBLEMS):
    """Write records and return (frame, audits)."""
    for key in problems:
        weak = {"replay": 1e-4} if key.problem == "level1_2" else {}
        rf.write_problem(root, key, degenerate=key.problem == "level2_23", **weak)
    keys = []
    for problem, samples in candidates.items():
        for number, records_of in enumerate(samples):
            keys.append(CandidateKey(generator, "kb", problem, number))
            rf.write_candidate(root, keys[-1], records_of)
    return aggregate_generator(root, generator, keys, settings), load_problems(root, problems)


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    frame, audits = make(tmp_path_factory.mktemp("board"), CANDIDATES)
    return leaderboard.build({"gen": frame}, audits, SETTINGS)


def entry(board, level, arm, test, generator="gen"):
    found = board.entry(generator, "kb", level, arm, test)
    assert found is not None
    return found


def test_denominators_are_the_active_problems_in_every_arm(board):
    assert {e.n_problems for e in board.entries if e.level is None} == {5}
    assert {e.n_problems for e in board.entries if e.level == 1} == {4}
    assert {e.n_problems for e in board.entries if e.level == 2} == {1}
    whole = entry(board, None, "matched", "hidden")
    assert (whole.n_without_candidate, whole.n_samples) == (1, 6)
    assert [(e.problem, e.reason) for e in board.excluded] == [
        ("level2_23", "degenerate: the reference is 0 throughout")
    ]
    assert len(board.entries) == 3 * 3 * 3


# level 1, active: 1 solved, 2 solved (hidden: only by EVEN), 3 not solved, 4 without a candidate.
@pytest.mark.parametrize(
    ("arm", "test", "best_1", "best_2", "memory_1", "memory_2"),
    [
        ("naive", "hidden", 4.0, 1.0, 2.0, 1.0),  # best of N picks FAST_NAIVE
        ("published", "hidden", 1.0, 1.0, 2.0, 1.0),
        ("matched", "hidden", 4.0, 1.0, 0.5, 1.0),  # ... and here FAST_MATCHED, whose memory is worse
        ("naive", "standard", 4.0, 8.0, 2.0, 2.0),
        ("published", "standard", 1.0, 8.0, 2.0, 2.0),
        ("matched", "standard", 4.0, 8.0, 0.5, 2.0),
    ],
)
def test_level_one_by_hand(board, arm, test, best_1, best_2, memory_1, memory_2):
    e = entry(board, 1, arm, test)
    assert (e.n_solved, e.n_timed) == (2, 2)
    assert (e.correctness.value, e.correctness.n) == (0.5, 4)
    assert e.correct_speedup.value == pytest.approx(math.sqrt(best_1 * best_2), rel=1e-8)
    assert e.correct_speedup.n == 2
    for p in (0, 0.5, 0.8, 1, 1.5, 2):
        assert e.fast_p[f"{p:g}"].value == ((best_1 > p) + (best_2 > p)) / 4
    peak = e.memory_efficiency["allocator_peak"]
    assert (peak.value, peak.n) == (pytest.approx(math.sqrt(memory_1 * memory_2), rel=1e-8), 2)
    assert e.memory_efficient["allocator_peak"].value == ((memory_1 > 1) + (memory_2 > 1)) / 4


def test_overall_pools_problems_and_not_levels(board):
    e = entry(board, None, "matched", "hidden")
    assert (e.n_solved, e.correctness.value) == (3, 0.6)
    assert e.correct_speedup.value == pytest.approx((4.0 * 1.0 * 0.5) ** (1 / 3), rel=1e-8)
    assert e.fast_p["0.5"].value == 0.4  # 0.5 is not above 0.5


def test_non_discriminating_problems_count_and_are_listed(board):
    assert board.non_discriminating == {"fp32": ("kb/level1_2",)}
    assert entry(board, 1, "matched", "hidden").n_solved_non_discriminating == 1


def test_kinds_of_sources_are_counted_over_verified_candidates(tmp_path):
    frame, audits = make(tmp_path, CANDIDATES)
    rows = kernel_table.rows(frame)
    for row in rows:
        if row["problem"] != "level2_1":
            row["static_kind"] = "custom kernel" if row["verdict_hidden"] == "pass" else "torch only"
            row["static_labels"] = "decoy kernel, try/except fallback" if row["problem"] == "level2_23" else None
    board = leaderboard.build({"gen": kernel_table.frame(rows)}, audits, SETTINGS)
    (summary,) = board.generators
    assert summary.static_kinds == {"custom kernel": 4, "not described": 1}
    assert summary.static_labels == {"decoy kernel": 1, "try/except fallback": 1}
    text = markdown.markdown_text(board)
    assert "| custom kernel | 4 |\n| mixed | 0 |\n| not described | 1 |\n| (renamed reference) | 0 |" in text
    assert Leaderboard.model_validate_json(files.json_text(board)) == board


def test_intervals_contain_the_value_and_few_problems_have_no_mean_interval(board):
    for e in board.entries:
        for estimate in (e.correctness, *e.fast_p.values()):
            assert estimate.low <= estimate.value <= estimate.high
    whole = entry(board, None, "matched", "hidden").correct_speedup
    assert (whole.low, whole.why_null) == (None, "no interval: only 3 problems have a value")


def test_verdicts_are_counted_over_all_candidates(board):
    (summary,) = board.generators
    assert summary.n_candidates == 7
    assert summary.verdicts["hidden"] == {"pass": 5, "wrong_value": 2}
    assert summary.verdicts["standard"] == {"pass": 6, "wrong_value": 1}


def test_conditions_say_what_the_numbers_hold_under(board):
    c = board.conditions
    assert (c.n_problems_selected, c.n_problems_active, c.suites) == (6, 5, ("kb",))
    assert c.tau == {"fp32": 1e-3, "bf16": 1e-2}
    assert c.environments == ("H200 (cuda), driver 580, torch 2.11.0, CUDA 13.0",)
    assert c.modes == {"hidden-gate": ("ieee",), "time-fp32": ("default",), "time-tf32": ("tf32",)}
    assert c.findings is True


def test_order_of_problems_and_samples_changes_nothing(tmp_path, board):
    shuffled = dict(random.Random(3).sample(list(CANDIDATES.items()), len(CANDIDATES)))
    frame, audits = make(tmp_path, shuffled)
    audits = dict(random.Random(4).sample(list(audits.items()), len(audits)))
    again = leaderboard.build({"gen": frame.sample(frac=1.0, random_state=1)}, audits, SETTINGS)
    assert again == board


def test_a_tie_goes_to_the_first_sample(tmp_path):
    light, heavy = (stages((2.0, 1.0), (2.0, 1.0), memory) for memory in ((1000, 500), (500, 1000)))
    for i, samples in enumerate(([light, heavy], [heavy, light])):
        frame, audits = make(tmp_path / str(i), {"level1_1": samples})
        e = entry(leaderboard.build({"gen": frame}, audits, SETTINGS), None, "matched", "hidden")
        assert e.memory_efficiency["allocator_peak"].value == (2.0, 0.5)[i]


def test_solved_without_times_is_null_and_not_zero(tmp_path):
    untimed = FAST_NAIVE | {stage: rf.skipped(TimeRecord, stage, "no GPU time") for stage in ("time-fp32", "time-tf32")}
    frame, audits = make(tmp_path, {"level1_1": [untimed]})
    e = entry(leaderboard.build({"gen": frame}, audits, SETTINGS), None, "matched", "hidden")
    assert (e.n_solved, e.n_timed, e.correctness.value) == (1, 0, 0.2)
    for estimate in (
        e.correct_speedup,
        *e.fast_p.values(),
        *e.memory_efficiency.values(),
        *e.memory_efficient.values(),
    ):
        assert (estimate.value, estimate.why_null) == (None, "time-tf32 skipped: no GPU time")


def test_nothing_solved_is_zero_for_shares_and_null_for_means(tmp_path):
    frame, audits = make(tmp_path, {"level1_3": [WRONG]})
    e = entry(leaderboard.build({"gen": frame}, audits, SETTINGS), None, "matched", "hidden")
    assert e.correctness.value == e.fast_p["1"].value == e.memory_efficient["allocator_peak"].value == 0.0
    assert e.correctness.high > 0.4  # 0 of 5 is no certainty
    assert (e.correct_speedup.value, e.correct_speedup.why_null) == (None, "no verified sample")


def test_a_winner_without_a_memory_record_is_not_replaced_by_another_sample(tmp_path):
    frame, audits = make(tmp_path, {"level1_1": [EVEN, FAST_MATCHED | {"memory": None}]})
    e = entry(leaderboard.build({"gen": frame}, audits, SETTINGS), None, "matched", "hidden")
    assert e.correct_speedup.value == 4.0
    assert e.memory_efficiency["allocator_peak"].value is None


def test_a_generator_without_candidates_solves_nothing_and_is_listed(tmp_path, board):
    frame, audits = make(tmp_path, {})
    built = leaderboard.build({"gen": frame}, audits, SETTINGS)
    assert built.generators[0].n_candidates == 0
    assert markdown.markdown_text(built)
    assert built.conditions.findings is False


def test_generators_are_compared_on_what_both_solved(tmp_path):
    one, audits = make(tmp_path, {"level1_1": [FAST_MATCHED], "level1_2": [EVEN], "level2_1": [FAST_NAIVE]})
    two, _ = make(tmp_path, {"level1_1": [EVEN], "level1_2": [WRONG], "level2_1": [FAST_MATCHED]}, "other")
    built = leaderboard.build({"gen": one, "other": two}, audits, SETTINGS)
    (common,) = (c for c in built.common if (c.arm, c.test) == ("matched", "hidden"))
    assert common.n_problems == 2
    assert common.correct_speedup["gen"].value == pytest.approx(math.sqrt(4.0 * 0.5), rel=1e-8)
    assert common.correct_speedup["other"].value == pytest.approx(math.sqrt(1.0 * 4.0), rel=1e-8)
    assert common.correct_speedup["gen"].n == 2


def test_an_expected_verdict_that_did_not_come_is_named(tmp_path):
    for key in PROBLEMS:
        rf.write_problem(tmp_path, key)
    timed_wrong = EVEN | {"time-fp32": rf.timing("time-fp32", 1.0, 1.0, verdict="wrong_value")}
    cases = {
        "level1_1": (EVEN, "pass"),
        "level1_2": (EVEN, "crash"),
        "level1_3": (timed_wrong, "wrong_value"),
        "level2_1": (timed_wrong, "pass"),
    }
    keys = []
    for problem, (records_of, expected) in cases.items():
        keys.append(CandidateKey("gen", "kb", problem, 0))
        rf.write_candidate(tmp_path, keys[-1], records_of, expected_verdict=expected)
    frame = aggregate_generator(tmp_path, "gen", keys, SETTINGS)
    built = leaderboard.build({"gen": frame}, load_problems(tmp_path, PROBLEMS), SETTINGS)
    assert built.generators[0].unexpected == (
        "kb/level1_2/0: expected crash, got pass",
        "kb/level2_1/0: expected pass, got wrong_value",
    )
    assert built.generators[0].n_timed_output_wrong == 2


def test_bounds_that_nothing_enforced_are_counted(tmp_path):
    records_of = {problem: rf.good_stages() for problem in ("level1_1", "level1_2")}
    short = records_of["level1_2"]["time-tf32"]
    bound = short.judge_bound.model_copy(update={"outcome": "not_enforced"})
    records_of["level1_2"]["time-tf32"] = short.model_copy(update={"judge_bound": bound})
    keys = [CandidateKey("gen", "kb", problem, 0) for problem in records_of]
    for key in keys:
        rf.write_candidate(tmp_path, key, records_of[key.problem])
    frame = aggregate_generator(tmp_path, "gen", keys, SETTINGS)
    built = leaderboard.build({"gen": frame}, load_problems(tmp_path, PROBLEMS), SETTINGS)
    assert built.generators[0].n_bound_not_enforced == 1


def test_an_unusually_fast_candidate_counts_and_is_listed(tmp_path):
    frame, audits = make(tmp_path, {"level1_1": [stages((30.0, 1.0), (30.0, 1.0))], "level1_2": [WRONG]})
    built = leaderboard.build({"gen": frame}, audits, SETTINGS)
    assert built.generators[0].to_review == ("kb/level1_1/0: naive 30.0x, published 30.0x, matched 30.0x",)
    assert entry(built, None, "matched", "hidden").correct_speedup.value == 30.0


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, None),
        ({"usable": False, "detail": "no get_inputs"}, "unusable: no get_inputs"),
        ({"degenerate": None}, "not audited: the record does not say whether it is degenerate"),
        ({"degenerate": True}, "degenerate: the reference is 0 throughout"),
        ({"status": "skipped", "reason": "no device"}, "not audited: no device"),
    ],
)
def test_which_problems_are_active(change, expected):
    assert why_inactive(rf.problem(PROBLEMS[0], **change)) == expected
    assert why_inactive(None) == "not audited: no audit-problem record"


def test_suites_are_never_pooled(tmp_path):
    frame, audits = make(tmp_path, {"level1_1": [EVEN]})
    built = leaderboard.build({"gen": frame}, audits | {ProblemKey("old", "level1_1"): None}, SETTINGS)
    assert {(e.suite, e.level) for e in built.entries} == {("kb", 1), ("kb", 2), ("kb", None)}
    assert [e.suite for e in built.excluded] == ["kb", "old"]


def test_tables_of_other_problems_or_generators_are_refused(tmp_path):
    frame, audits = make(tmp_path, CANDIDATES)
    with pytest.raises(ValueError, match="has a row of generator gen"):
        leaderboard.build({"other": frame}, audits, SETTINGS)
    del audits[PROBLEMS[0]]
    with pytest.raises(ValueError, match="kb/level1_1, which is not selected"):
        leaderboard.build({"gen": frame}, audits, SETTINGS)


def test_generators_from_different_devices_are_refused_unless_allowed(tmp_path):
    one, audits = make(tmp_path, {"level1_1": [EVEN]})
    old = rf.GPU.model_copy(update={"name": "H100"})
    moved = {
        s: r.model_copy(update={"provenance": rf.provenance(s, device=old)}) for s, r in EVEN.items() if s != "compile"
    }
    two, _ = make(tmp_path, {"level1_1": [moved]}, "other", AggregationSettings(resamples=400, allow_mixed=True))
    with pytest.raises(MixedEnvironments, match=r"H100 \(cuda\).*: 1 candidates \(other/kb/level1_1/0\)"):
        leaderboard.build({"gen": one, "other": two}, audits, SETTINGS)
    built = leaderboard.build({"gen": one, "other": two}, audits, AggregationSettings(resamples=400, allow_mixed=True))
    assert built.conditions.findings is False
    assert "environments are mixed" in built.conditions.notes


def test_a_cpu_run_is_no_finding(tmp_path):
    cpu = {
        s: r.model_copy(update={"provenance": r.provenance.model_copy(update={"device": rf.CPU})})
        for s, r in EVEN.items()
    }
    frame, audits = make(tmp_path, {"level1_1": [cpu]}, settings=AggregationSettings(resamples=400, allow_mixed=True))
    for key in audits:
        audits[key] = rf.problem(key, provenance=rf.provenance("audit-problem", device=rf.CPU))
    built = leaderboard.build({"gen": frame}, audits, SETTINGS)
    assert built.conditions.findings is False
    assert any(note.startswith("cpu: no TF32 unit") for note in built.conditions.notes)
    text = markdown.markdown_text(built)
    assert "- Not for findings" in text and "Environment: Xeon x2 (cpu), torch 2.13.0.\n" in text
    assert "- gen, kb, all levels, published+hidden, Correct Speedup: cpu: the published arm crosses two jobs" in text
    assert entry(built, None, "published", "hidden").correct_speedup.value is None


def test_an_estimate_has_an_interval_or_a_reason():
    for wrong in ({"value": None}, {"value": 1.0}, {"value": 1.0, "low": 0.9, "high": 1.1, "why_null": "x"}):
        with pytest.raises(ValueError, match="interval, or a reason"):
            Estimate(n=1, **wrong)


def _plain_frame(keys, speedups):
    """A table with nothing but what the metrics need; None stands for a wrong answer."""
    rows = []
    for key, value in zip(keys, speedups):
        row = {"generator": "gen", "suite": key.suite, "problem": key.problem, "sample": 0, "level": 1,
               "number": key.number, "dtype": "fp32", "verdict_hidden": "pass" if value else "wrong_value",
               "verdict_standard": "pass" if value else "wrong_value", "speedup_matched": value}  # fmt: skip
        rows.append(kernel_table.complete(row, {}))
    return kernel_table.frame(rows)


def test_intervals_are_those_of_a_bootstrap_over_problems_whatever_their_order():
    rng = random.Random(7)
    keys = [ProblemKey("kb", f"level1_{i}") for i in range(1, 41)]
    speedups = [math.exp(rng.gauss(-0.2, 0.6)) if rng.random() < 0.7 else None for _ in keys]
    settings = AggregationSettings(resamples=4000)
    pairs = list(zip(keys, speedups))
    built = []
    for order in (pairs, rng.sample(pairs, len(pairs))):
        frame = _plain_frame(*zip(*order))
        built.append(leaderboard.build({"gen": frame}, {key: rf.problem(key) for key, _ in order}, settings))
    assert built[0] == built[1]

    # Independently: plain resampling of problems, plain 95 % percentiles; the expansion for n = 28 widens a little.
    means, above = [], []
    for _ in range(4000):
        drawn = rng.choices(speedups, k=len(speedups))
        solved = [math.log(v) for v in drawn if v is not None]
        means.append(math.exp(sum(solved) / len(solved)))
        above.append(sum(v is not None and v > 1 for v in drawn) / len(drawn))
    e = entry(built[0], None, "matched", "hidden")
    assert e.correct_speedup.value == pytest.approx(math.exp(sum(math.log(v) for v in speedups if v) / e.n_solved))
    for estimate, draws in ((e.correct_speedup, means), (e.fast_p["1"], above)):
        low, high = sorted(draws)[99], sorted(draws)[3899]
        assert estimate.low <= low + 0.01 and high - 0.01 <= estimate.high
        assert estimate.high - estimate.low == pytest.approx(high - low, rel=0.2)


# --- files and command --------------------------------------------------------------------------------------


def test_files_hold_the_same_numbers_and_the_same_bytes(tmp_path, board):
    paths = leaderboard.write(board, tmp_path)
    assert [p.name for p in paths] == ["leaderboard.json", "leaderboard.csv", "leaderboard.md"]
    assert read(paths[0], Leaderboard) == board
    content = [p.read_bytes() for p in paths]
    assert [p.read_bytes() for p in leaderboard.write(board, tmp_path)] == content
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(p.name for p in paths)

    data = json.loads(content[0])
    lines = list(csv.DictReader(io.StringIO(content[1].decode())))
    assert len(lines) == len(data["entries"])
    line = next(x for x in lines if (x["level"], x["arm"], x["test"]) == ("all", "matched", "hidden"))
    whole = entry(board, None, "matched", "hidden")
    assert float(line["correct_speedup"]) == whole.correct_speedup.value
    assert line["correct_speedup_low"] == ""
    assert float(line["fast_0.5"]) == 0.4
    assert float(line["memory_efficient_allocator_peak_high"]) == whole.memory_efficient["allocator_peak"].high


def test_the_headline_names_published_and_naive_beside_it(board):
    text = markdown.markdown_text(board)
    header = text.splitlines()[2]
    assert "Correct Speedup (n) matched+hidden | published+hidden | naive+standard" in header
    row = next(x for x in text.splitlines() if x.startswith("| gen | kb | all |"))
    # matched 2^(1/3); published (1*1*1)^(1/3); naive+standard (4*8*4)^(1/3); 4 of 5 problems have a candidate.
    assert "| 4 of 5 | 6 |" in row
    assert "| 1.26 (3) | 1.00 (3) | 5.04 (3) |" in row
    assert "kb/level2_23: degenerate" in text
    assert "fp32: kb/level1_2" in text


def test_the_command_prints_what_was_written(tmp_path, board, capsys):
    leaderboard.write(board, tmp_path)
    assert cli.main(["leaderboard", "--results", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "1.26 (3)" in out and "4 of 5" in out
    assert str(tmp_path / "leaderboard.md") in out.replace("\n", "")
    assert "gen: pass 5, wrong_value 2" in out


def test_the_command_without_a_leaderboard_says_what_to_do(tmp_path, capsys):
    assert cli.main(["leaderboard", "--results", str(tmp_path)]) == 2
    assert "Run snakemake first" in capsys.readouterr().err
    (tmp_path / "leaderboard.json").write_text('{"entries": 1}')
    assert cli.main(["leaderboard", "--results", str(tmp_path)]) == 2
    assert "leaderboard.json: field" in capsys.readouterr().err


def test_not_judged_candidates_are_counted_with_their_reason(tmp_path):
    frame, audits = make(tmp_path, {"level1_1": [{"hidden-gate": rf.skipped(GateRecord, "hidden-gate", "no device")}]})
    (summary,) = leaderboard.build({"gen": frame}, audits, SETTINGS).generators
    assert summary.verdicts["hidden"] == {"not judged": 1}
    assert summary.not_judged == {"no compile record": 1}


# --- optional baselines, dtypes -----------------------------------------------------------------------------


def with_baselines(stages, ieee, compiled):
    """Of the baselines given as (baseline ms, candidate ms)."""
    more = {"time-ieee": rf.timing("time-ieee", *ieee, rounds=6)}
    return stages | more | {"time-compile": rf.timing("time-compile", *compiled, rounds=6)}


def test_an_optional_arm_is_shown_where_it_was_asked_for_and_can_be_the_headline(tmp_path):
    settings = SETTINGS.model_copy(update={"baselines": ("ieee", "compile"), "headline_arm": "compile"})
    frame, audits = make(
        tmp_path, {"level1_1": [with_baselines(FAST_NAIVE, (8.0, 1.0), (1.0, 4.0))]}, settings=settings
    )
    built = leaderboard.build({"gen": frame}, audits, settings)
    assert entry(built, None, "ieee", "hidden").correct_speedup.value == 8.0
    assert entry(built, None, "compile", "hidden").correct_speedup.value == 0.25
    assert built.conditions.arms == ("naive", "published", "matched", "ieee", "compile")
    assert built.conditions.modes["time-compile"] == ("tf32",)
    assert "time-ieee" in built.conditions.protocol_digests
    columns = headline.headline_columns(built)
    shown = [
        "Correct Speedup (n) compile+hidden",
        "published+hidden",
        "naive+standard",
        "compile+hardened",
        "matched+hidden",
        "ieee+hidden",
    ]
    assert columns[columns.index(shown[0]) :][: len(shown)] == shown
    row = dict(zip(columns, headline.headline_rows(built)[-1]))
    assert [row[name] for name in shown] == ["0.25 (1)", "1.00 (1)", "4.00 (1)", "0.25 (1)", "0.50 (1)", "8.00 (1)"]
    assert "Arm compile: torch.compile(reference)(tf32) / candidate(tf32)." in markdown.markdown_text(built)


def test_a_missing_score_has_the_reason_of_the_record_that_its_arm_is_from(tmp_path):
    settings = SETTINGS.model_copy(update={"baselines": ("ieee", "compile")})
    candidates = {"level1_1": [with_baselines(FAST_NAIVE, (8.0, 1.0), (1.0, 4.0))]}
    frame, audits = make(tmp_path, candidates, settings=settings)
    times = ("fp32", "tf32", "ieee", "compile")
    frame = frame.assign(**{f"why_null_roofline_time_{time}": f"that of {time}" for time in times})
    board = leaderboard.build({"gen": frame}, audits, settings)
    whys = {
        arm: entry(board, None, arm, "hidden").sol_score.why_null for arm in ("naive", "matched", "ieee", "compile")
    }
    assert whys == dict(zip(whys, (f"that of {time}" for time in times)))


def test_without_baselines_nothing_of_them_is_shown(tmp_path):
    frame, audits = make(tmp_path, {"level1_1": [with_baselines(FAST_NAIVE, (8.0, 1.0), (1.0, 4.0))]})
    built = leaderboard.build({"gen": frame}, audits, SETTINGS)
    assert {e.arm for e in built.entries} == {"naive", "published", "matched"}
    assert "ieee" not in markdown.markdown_text(built).replace("hidden-gate ieee", "")
    assert not any("compile" in column for column in headline.headline_columns(built))


def test_a_leaderboard_from_before_there_were_optional_arms_is_readable(board):
    text = board.model_dump(mode="json")
    del text["conditions"]["arms"]
    assert Leaderboard.model_validate(text) == board


def test_dtypes_stand_apart(tmp_path):
    wide = {"compile": rf.compiled(), "hidden-gate": rf.gate(dict.fromkeys(HIDDEN_ONLY, 5e-3))}
    narrow = {
        "compile": rf.compiled(dtype="bf16"),
        "hidden-gate": rf.gate(dict.fromkeys(HIDDEN_ONLY, 5e-3), dtype="bf16"),
        "time-fp32": rf.timing("time-fp32", 3.0, 1.0, rounds=6, dtype="bf16"),
        "time-tf32": rf.skipped(TimeRecord, "time-tf32", "TF32 has no effect on bf16", dtype="bf16"),
        "memory": rf.memory(2000, 1000, dtype="bf16"),
    }
    frames = {}
    for name, stages_ in (("half", narrow), ("full", wide), ("even", EVEN)):
        frames[name], audits = make(tmp_path, {"level1_1": [stages_]}, name)
    built = leaderboard.build(frames, audits, SETTINGS)
    found = {name: built.entry(name, "kb", None, "matched", "hidden") for name in frames}
    assert [(e.dtype, e.n_solved) for e in found.values()] == [
        ("bf16", 1),
        ("fp32", 0),
        ("fp32", 1),
    ]  # each its own tau
    assert found["half"].correct_speedup.value == 3.0
    published = built.entry("half", "kb", None, "published", "hidden")
    assert published.correct_speedup.why_null == "time-tf32 skipped: TF32 has no effect on bf16"
    common = [c for c in built.common if (c.arm, c.test) == ("matched", "hidden")]
    assert [(c.dtype, sorted(c.correct_speedup)) for c in common] == [("fp32", ["even", "full"])]
    columns = headline.headline_columns(built)
    assert [row[columns.index("dtype")] for row in headline.headline_rows(built) if row[2] == "kb"][:1] == ["bf16"]
    assert terminal.terminal_table(built).columns[1].header == "dtype"


def test_one_dtype_needs_no_column(board):
    assert "dtype" not in headline.headline_columns(board)


# Relative rms errors between the factory's 1e-7 of float32, 3e-4 of ten bits and 2e-3 of seven.
ERROR_OF = {"fp32": 1e-7, "tf32": 3e-4, "half": 2e-3, "undetermined": 1e-5 * 6}


def of_class(name, records_of):
    gate = records_of["hidden-gate"]
    numerics = gate.numerics.model_copy(update={"candidate_rms_error": ERROR_OF[name]})
    return {**records_of, "hidden-gate": gate.model_copy(update={"numerics": numerics})}


def test_what_is_left_where_narrower_arithmetic_does_not_count(tmp_path):
    """level1_1: the fastest is tf32, so that the next one wins. level1_2: nothing else. level1_3: not known."""
    candidates = {
        "level1_1": [of_class("fp32", FAST_NAIVE), of_class("tf32", FAST_MATCHED)],
        "level1_2": [of_class("half", EVEN)],
        "level1_3": [of_class("undetermined", FAST_MATCHED)],
    }
    frame, audits = make(tmp_path, candidates)
    board = leaderboard.build({"gen": frame}, audits, SETTINGS)
    e = entry(board, 1, "matched", "hidden")
    assert e.n_by_numerics == {"fp32": 1, "half": 1, "tf32": 1, "undetermined": 1}
    assert (e.n_solved, e.correct_speedup.value) == (3, pytest.approx((4.0 * 1.0 * 4.0) ** (1 / 3), rel=1e-8))
    strict, loose = e.by_numerics
    assert (strict.classes, loose.classes) == (("fp32",), ("fp32", "undetermined"))
    assert (strict.n_solved, strict.correctness.value, strict.correctness.n) == (1, 0.25, 4)
    assert (strict.correct_speedup.value, strict.correct_speedup.n) == (0.5, 1)
    assert (loose.n_solved, loose.correctness.value) == (2, 0.5)
    assert loose.correct_speedup.value == pytest.approx(math.sqrt(0.5 * 4.0), rel=1e-8)

    text = markdown.markdown_text(board)
    section = text.partition("## By arithmetic (matched+hidden)")[2].partition("## ")[0]
    (line,) = [line for line in section.splitlines() if line.startswith("| gen | kb | 1 |")]
    assert [cell.split(" ")[0] for cell in line.strip("| ").split(" | ")[3:]] == [
        "75.0",
        "2.52",
        "25.0",
        "0.50",
        "50.0",
        "1.41",
    ]
    (row,) = [
        x
        for x in csv.DictReader(io.StringIO(files.csv_text(board)))
        if (x["level"], x["arm"], x["test"]) == ("1", "matched", "hidden")
    ]
    assert (row["correctness_fp32"], row["correctness_fp32_or_undetermined"]) == ("0.25", "0.5")


def test_where_no_class_is_told_there_is_a_reason_and_no_zero(tmp_path):
    without = {**FAST_NAIVE, "hidden-gate": FAST_NAIVE["hidden-gate"].model_copy(update={"numerics": None})}
    frame, audits = make(tmp_path, {"level1_1": [without]})
    frame["numerics_class"] = None  # as of bf16
    part = entry(leaderboard.build({"gen": frame}, audits, SETTINGS), 1, "matched", "hidden").by_numerics[0]
    assert part.correctness.value is None and "no class of arithmetic" in part.correctness.why_null
    assert part.correct_speedup.value is None
