"""One folder of audits and records, and one lease for all: what is timed here must not be disturbed by its like.

Commands are served by an evaluator (docs/evaluator.md), those without a defence by another one, both of this session.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from harness import Bench, Range, answers_for_all, warm_process


@pytest.fixture(scope="session")
def shooting_range(tmp_path_factory: pytest.TempPathFactory, of_all_workers: Path):
    bench = Bench(tmp_path_factory.mktemp("attacks"), device="cpu", timeout_s=30.0)
    # A socket's path has at most 107 characters.
    with tempfile.TemporaryDirectory(prefix="kbv-", dir="/tmp") as sockets, answers_for_all() as port:
        bench.environment |= {
            "KBV_LEASE_DIR": str(of_all_workers / "attack-leases"),
            "KBV_EVALUATOR": "on",
            "KBV_EVALUATOR_DIR": sockets,
            "KBV_EVALUATOR_IDLE_S": "20",
        }
        where = Range(bench, "cpu", port)
        patient = {**bench.environment, "KBV_EVALUATOR_IDLE_S": "900"}
        with warm_process(Path(sockets), patient) as where.warm:
            yield where
