"""The configuration's key ``evaluator``: it reaches the jobs, the environment goes before it, and it reruns nothing."""

from __future__ import annotations

from pathlib import Path

from small_tree import HONEST, Tree

CANDIDATE = "generations/good/tiny/level1_1/0.py"
GATE = "results/hidden-gate/good/tiny/level1_1/0.json"


def test_it_reaches_jobs(finished: Tree, tmp_path: Path) -> None:
    config = (finished.path / "config/config.yaml").read_text()
    finished.write("config/config.yaml", f"{config}evaluator: true\n")
    assert finished.planned() == {}
    finished.write(CANDIDATE, f"{HONEST}# edited\n")
    before = finished.read(GATE)["provenance"]
    without, used = tmp_path / "without", tmp_path / "used"
    finished.snakemake(GATE, KBV_EVALUATOR="off", KBV_EVALUATOR_DIR=str(without))
    assert finished.read(GATE)["provenance"] != before and not without.exists()
    finished.write(CANDIDATE, f"{HONEST}# edited again\n")
    environment = {**finished.environment(KBV_EVALUATOR_DIR=str(used), KBV_EVALUATOR_IDLE_S="3")}
    environment.pop("KBV_EVALUATOR", None)  # of whoever runs these tests
    finished.run(environment, GATE)
    assert (used / "start.lock").exists()  # somebody has started one
    assert finished.read(GATE)["verdict"] == "pass"
    finished.write("config/config.yaml", config)
    assert finished.planned(GATE) == {}
