"""One folder of audits and records, and one lease for all: what is timed here must not be disturbed by its like."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from harness import Bench, Range


@pytest.fixture(scope="session")
def shooting_range(tmp_path_factory: pytest.TempPathFactory):
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    bench = Bench(tmp_path_factory.mktemp("attacks"), device="cpu", timeout_s=30.0)
    bench.environment["KBV_LEASE_DIR"] = str(shared / "attack-leases")
    return Range(bench, "cpu")
