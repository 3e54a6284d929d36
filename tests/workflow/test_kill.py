"""kill -9 in the middle, and one generator's target alone."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable

import pytest
from small_tree import Tree, records_of

TARGET = "results/kernels/bad.parquet"


@pytest.fixture(scope="module")
def killed(fresh_of_module: Callable[[], Tree]) -> tuple[Tree, dict[str, int], str]:
    """A tree in which a run of one generator's target was killed and started again; what was there, what was said."""
    tree = fresh_of_module()
    first = tree.path / "results/compile/bad/tiny"
    run = subprocess.Popen(
        tree.command(TARGET), cwd=tree.path, env=tree.environment(), stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while not list(first.rglob("*.json")):
        assert run.poll() is None and time.monotonic() < deadline, "the run ended before it could be killed"
        time.sleep(0.01)
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert not (tree.path / TARGET).exists()
    assert list((tree.path / ".snakemake/locks").iterdir()), "Snakemake's own lock files stay after kill -9"
    time.sleep(2)  # jobs that outlived it may finish
    whole = {}
    for path, written in tree.written().items():
        json.loads((tree.path / path).read_text())  # none or a whole one, also now
        whole[path] = written
    return tree, whole, tree.snakemake(TARGET).stdout


def test_a_killed_run_goes_on_where_it_was(killed: tuple[Tree, dict[str, int], str]) -> None:
    tree, before, _ = killed
    assert (tree.path / TARGET).exists()
    # A candidate of this problem had been compiled, so Snakemake knew its audit as done: it is not made again.
    compiled = next(path for path in before if path.startswith("results/compile/"))
    audit = f"results/problems/tiny/{compiled.split('/')[-2]}.json"
    assert tree.written()[audit] == before[audit]
    assert tree.planned(TARGET) == {}


def test_one_generators_target_touches_no_other(killed: tuple[Tree, dict[str, int], str]) -> None:
    tree, _, _ = killed
    assert set(tree.written()) == {
        TARGET,
        "results/ceilings/cpu.json",
        "results/problems/tiny/level1_1.json",
        "results/problems/tiny/level1_2.json",
        *records_of("bad/tiny/level1_1/0", "bad/tiny/level1_2/0"),
    }
