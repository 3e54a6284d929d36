"""One folder of audits and records, and one lease for all: what is timed here must not be disturbed by its like."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from harness import Bench, Range


@pytest.fixture(scope="session")
def shooting_range(tmp_path_factory: pytest.TempPathFactory, of_all_workers: Path):
    bench = Bench(tmp_path_factory.mktemp("attacks"), device="cpu", timeout_s=30.0)
    bench.environment["KBV_LEASE_DIR"] = str(of_all_workers / "attack-leases")
    return Range(bench, "cpu")
