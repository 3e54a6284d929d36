"""Stages on the CPU device, with the evaluator, and somebody who looks what they leave behind."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1] / "gpu"))
sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
sys.path.insert(0, str(Path(__file__).parents[1] / "workflow"))
sys.path.insert(0, str(Path(__file__).parents[1] / "stages"))
from chain import Bench
from stage_places import Place

from benchmarks.left_behind import IDLE_S, Watch

TIMEOUT_S = 20.0


@pytest.fixture(scope="module")
def watch() -> Iterator[Watch]:
    """Everything of a module's tests goes through one evaluator of their own, which ends after them by itself."""
    folder = Path(tempfile.mkdtemp(prefix="kbv-faults-", dir="/tmp"))  # sockets want short paths
    made = Watch(folder)
    try:
        yield made
        left = made.wait(IDLE_S + 20.0, evaluators=False)
        assert not left, left
    finally:
        made.close()
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def bench(watch: Watch, tmp_path_factory: pytest.TempPathFactory, shared_build: Path) -> Bench:
    made = Bench(tmp_path_factory.mktemp("faults"), device="cpu", timeout_s=TIMEOUT_S)
    made.options[made.options.index("--build-root") + 1] = str(shared_build)
    made.environment |= {**watch.environment, "KBV_EVALUATOR": "on"}
    return made


@pytest.fixture(scope="module")
def place(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """ReLU on a small input, audited once."""
    made = Place(bench, tmp_path_factory.mktemp("place"))
    made.make_audit()
    return made
