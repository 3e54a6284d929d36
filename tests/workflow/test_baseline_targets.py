"""Optional baselines in the workflow: which targets there are, what is refused, and one real run with ieee and bf16."""

from __future__ import annotations

import pandas as pd
from small_tree import Tree

ALL = 3  # candidates of the small tree


def configure(tree: Tree, text: str) -> None:
    path = tree.path / "config/config.yaml"
    path.write_text(path.read_text() + text)


def test_each_baseline_adds_one_target_per_candidate(fresh: Tree) -> None:
    assert fresh.planned()["time"] == 2 * ALL
    configure(fresh, "baselines: [ieee]\n")
    assert fresh.planned()["time"] == 3 * ALL
    assert fresh.planned("--config", "baselines=['ieee','compile']")["time"] == 4 * ALL
    text = fresh.snakemake("--dry-run", "--config", "baselines=['compile']").stdout
    assert "results/time-compile/good/tiny/level1_1/0.json" in text and "results/time-ieee/" not in text


def test_a_baselines_record_can_be_asked_for_by_its_path(fresh: Tree) -> None:
    planned = fresh.planned("results/time-compile/bad/tiny/level1_1/0.json")
    assert planned == {"audit_problem": 1, "compile": 1, "hidden_gate": 1, "time": 1}


def test_a_headline_without_its_baseline_is_refused(fresh: Tree) -> None:
    configure(fresh, "baselines: [ieee]\nheadline_arm: compile\n")
    done = fresh.snakemake("--dry-run", check=False)
    assert done.returncode != 0
    assert "config/config.yaml: headline_arm: " in done.stdout and "add compile to baselines" in done.stdout


BF16 = """
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        assert x.dtype == torch.bfloat16
        return torch.tanh(x)
"""


def test_ieee_and_bf16_through_the_workflow(fresh: Tree) -> None:
    configure(fresh, "baselines: [ieee]\nheadline_arm: ieee\n")
    fresh.write("config/generators.tsv", "generator\torigin\tdtype\ngood\timport\tfp32\nhalf\timport\tbf16\n")
    fresh.write("generations/half/tiny/level1_1/0.py", BF16)
    fresh.snakemake()
    ieee = fresh.read("results/time-ieee/good/tiny/level1_1/0.json")
    assert (ieee["status"], ieee["verdict"], ieee["provenance"]["mode"]) == ("ok", "pass", "ieee")
    for stage, why in (("tf32", "TF32 has no effect on bf16"), ("ieee", "the modes have no effect on bf16")):
        record = fresh.read(f"results/time-{stage}/half/tiny/level1_1/0.json")
        assert record["status"] == "skipped" and why in record["reason"]
    memory = fresh.read("results/memory/half/tiny/level1_1/0.json")
    assert (memory["input_bytes"], memory["output_bytes"]) == (2 * 64 * 64, 2 * 64 * 64)
    assert fresh.read("results/memory/good/tiny/level1_1/0.json")["input_bytes"] == 4 * 64 * 64
    rows = {name: pd.read_parquet(fresh.path / f"results/kernels/{name}.parquet").iloc[0] for name in ("good", "half")}
    assert rows["good"]["speedup_ieee"] > 0 and rows["good"]["tau"] == 1e-3
    assert rows["half"]["speedup_matched"] == rows["half"]["speedup_naive"] and rows["half"]["tau"] == 1e-2
    assert rows["half"]["verdict_hidden"] == "pass" and pd.isna(rows["half"]["speedup_ieee"])
    assert "the modes have no effect on bf16" in rows["half"]["why_null_speedup_ieee"]
    board = fresh.read("results/leaderboard.json")
    assert board["conditions"]["headline_arm"] == "ieee"
    found = {(e["generator"], e["dtype"]) for e in board["entries"] if e["arm"] == "ieee"}
    assert found == {("good", "fp32"), ("half", "bf16")}
    assert board["common"] == []  # of two dtypes nothing is common
    assert "| generator | dtype |" in (fresh.path / "results/leaderboard.md").read_text()
