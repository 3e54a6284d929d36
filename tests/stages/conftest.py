"""The real command on the CPU device. One folder of results, builds and precompiled headers for the whole session."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from stage_places import TIMEOUT_S, Bench, Place


@pytest.fixture(scope="session", autouse=True)
def own_lease(tmp_path_factory: pytest.TempPathFactory):
    """Nothing here is measured: these runs need not wait for others on this machine, nor hold them up."""
    before = os.environ.get("KBV_LEASE_DIR")
    os.environ["KBV_LEASE_DIR"] = str(tmp_path_factory.mktemp("leases"))
    yield
    if before is None:
        del os.environ["KBV_LEASE_DIR"]
    else:
        os.environ["KBV_LEASE_DIR"] = before


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory, own_lease: None) -> Bench:
    made = Bench(tmp_path_factory.mktemp("stages"), device="cpu", timeout_s=TIMEOUT_S)
    # One precompiled header serves these tests and tests/unit/test_precompiled.py: it costs more than all the rest.
    made.options[made.options.index("--build-root") + 1] = str(tmp_path_factory.getbasetemp() / "shared-build")
    return made


@pytest.fixture(scope="module")
def place(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """ReLU on a small input, audited once."""
    made = Place(bench, tmp_path_factory.mktemp("place"))
    made.make_audit()
    return made
