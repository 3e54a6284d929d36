"""What runs again after which change: real runs on the CPU, and the files they really wrote."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pandas as pd
import pytest
from small_tree import Tree, records_of, tables_of

CEILINGS = "results/ceilings/cpu.json"
ALL = ("good/tiny/level1_1/0", "bad/tiny/level1_1/0", "bad/tiny/level1_2/0")


def test_a_run_makes_every_record_and_then_has_nothing_to_do(finished: Tree) -> None:
    audits = {"results/problems/tiny/level1_1.json", "results/problems/tiny/level1_2.json"}
    assert set(finished.written()) == records_of(*ALL) | audits | {CEILINGS} | tables_of("good", "bad")
    assert finished.read("results/hidden-gate/good/tiny/level1_1/0.json")["verdict"] == "pass"
    assert finished.read("results/compile/bad/tiny/level1_1/0.json")["verdict"] == "syntax_error"
    assert finished.read("results/compile/bad/tiny/level1_2/0.json")["verdict"] == "no_model_new"
    assert finished.planned() == {}


def test_editing_one_candidate_reruns_its_stages_and_the_tables(finished: Tree) -> None:
    path = "results/compile/bad/tiny/level1_2/0.json"
    before = finished.read(path)["provenance"]["candidate_sha256"]
    finished.write("generations/bad/tiny/level1_2/0.py", "answer = 43\n")
    assert finished.rewritten() == records_of("bad/tiny/level1_2/0") | tables_of("bad")
    assert finished.read(path)["provenance"]["candidate_sha256"] != before


def test_an_edit_that_keeps_an_old_time_is_an_edit(finished: Tree) -> None:
    finished.write("generations/bad/tiny/level1_2/0.py", "answer = 44\n")
    os.utime(finished.path / "generations/bad/tiny/level1_2/0.py", (1, 1))
    one = {"compile": 1, "hidden_gate": 1, "time": 2, "memory": 1, "aggregate": 1, "leaderboard": 1, "page": 1}
    assert finished.planned() == one


def test_reverting_an_edit_and_new_times_rerun_nothing(finished: Tree) -> None:
    source = finished.path / "generations/bad/tiny/level1_2/0.py"
    text = source.read_text()
    source.write_text("something else\n")
    source.write_text(text)
    assert finished.planned() == {}
    now = time.time()
    # All later than the scripts: those two rules Snakemake does run again where a script is newer than its output.
    parts = ("generations", "problems", "results", "config", "src", "workflow/rules", "benchmarks", "logs")
    files = [file for part in parts for file in sorted((finished.path / part).rglob("*")) if file.is_file()]
    for i, file in enumerate(files):
        os.utime(file, (now, now + (i * 7919) % 100_000))
    assert finished.planned() == {}


def test_changing_tau_reruns_aggregation_only(finished: Tree) -> None:
    def verdict() -> str:
        return pd.read_parquet(finished.path / "results/kernels/good.parquet")["verdict_hidden"].item()

    assert verdict() == "pass"
    finished.write("config/config.yaml", (finished.path / "config/config.yaml").read_text() + "tau: {fp32: 1.0e-5}\n")
    assert finished.rewritten() == tables_of("good", "bad")
    assert verdict() == "wrong_value"


def test_changing_a_constant_of_the_gate_reruns_the_gate_and_what_follows(finished: Tree) -> None:
    trials = "GATE_TRIALS_PER_DISTRIBUTION = "
    finished.replace("src/kbverified/protocol.py", f"{trials}1", f"{trials}2")
    after_the_gate = records_of(*ALL, stages=("hidden-gate", "time-fp32", "time-tf32", "memory"))
    assert finished.rewritten() == after_the_gate | tables_of("good", "bad")
    assert len(finished.read("results/hidden-gate/good/tiny/level1_1/0.json")["trials"]) == 8


def test_changing_a_problem_reruns_that_problem(finished: Tree) -> None:
    finished.replace("problems/tiny/level1_2.py", "sigmoid", "relu")
    audit = {"results/problems/tiny/level1_2.json"}
    assert finished.rewritten() == audit | records_of("bad/tiny/level1_2/0") | tables_of("good", "bad")


def test_a_deleted_record_is_made_again(finished: Tree) -> None:
    lost = "results/memory/bad/tiny/level1_1/0.json"
    (finished.path / lost).unlink()
    assert finished.rewritten() == {lost} | tables_of("bad")


def test_ceilings_that_are_measured_again_rerun_the_tables_only(finished: Tree) -> None:
    (finished.path / CEILINGS).unlink()
    assert finished.rewritten() == {CEILINGS} | tables_of("good", "bad")
    finished.replace("src/kbverified/protocol.py", "CEILING_REPETITIONS = 20", "CEILING_REPETITIONS = 19")
    assert finished.planned() == {"ceilings": 1, "aggregate": 2, "leaderboard": 1, "page": 1}


def test_editing_a_module_reruns_the_stages_that_import_it(finished: Tree) -> None:
    timing = finished.path / "src/kbverified/judge/timing.py"
    timing.write_text("# A comment changes nothing.\n" + timing.read_text())
    assert finished.planned() == {}
    timing.write_text(timing.read_text() + "\n_UNUSED = 1\n")
    assert finished.planned() == {"time": 6, "aggregate": 2, "leaderboard": 1, "page": 1}


@pytest.mark.parametrize("module", ["metrics.py", "aggregation.py", "static_view/flags.py"])
def test_editing_what_interprets_records_reruns_aggregation_only(finished: Tree, module: str) -> None:
    path = finished.path / "src/kbverified" / module
    path.write_text(path.read_text() + "\n_UNUSED = 1\n")
    assert finished.planned() == {"aggregate": 2, "leaderboard": 1, "page": 1}


def test_a_longer_time_limit_reruns_nothing_and_a_sandbox_level_everything(finished: Tree) -> None:
    config = Path("config/config.yaml")
    text = (finished.path / config).read_text()
    finished.write(str(config), text + "timeouts_s: {hidden-gate: 999}\n")
    assert finished.planned() == {}
    finished.write(str(config), text + "sandbox: user\n")
    assert finished.planned()["compile"] == 3


def test_a_new_candidate_runs_alone(finished: Tree) -> None:
    finished.write("generations/bad/tiny/level1_1/1.py", "")
    assert finished.rewritten() == records_of("bad/tiny/level1_1/1") | tables_of("bad")
