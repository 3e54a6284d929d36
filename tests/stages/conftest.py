"""The real command on the CPU device. One folder of results, builds and precompiled headers for the whole session.

``bench`` runs with the evaluator where KBV_EVALUATOR=on says so, and without otherwise; ``warm_bench`` always with.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from evaluators import evaluators
from stage_places import AT_ONCE, DISHONEST, HONEST_BUNDLED, TIMEOUT_S, Bench, Place, within


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
def bench(tmp_path_factory: pytest.TempPathFactory, own_lease: None, evaluator_folder: Path) -> Bench:
    made = Bench(tmp_path_factory.mktemp("stages"), device="cpu", timeout_s=TIMEOUT_S)
    # One precompiled header serves these tests and tests/unit/test_precompiled.py: it costs more than all the rest.
    made.options[made.options.index("--build-root") + 1] = str(tmp_path_factory.getbasetemp() / "shared-build")
    return made


@pytest.fixture(scope="session", autouse=True)
def evaluator_folder():
    """Evaluators of these tests only, none of which may outlive them. A socket's path has at most 107 characters."""
    with tempfile.TemporaryDirectory(prefix="kbv-", dir="/tmp") as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name)
        patch.setenv("KBV_EVALUATOR_DIR", str(folder))
        patch.setenv("KBV_EVALUATOR_IDLE_S", "8")
        yield folder
        assert within(60, lambda: not evaluators(folder)), f"still there: {evaluators(folder)}"


@pytest.fixture(scope="session")
def warm_bench(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """The same with the evaluator; builds of its own, but not another precompiled header."""
    out = tmp_path_factory.mktemp("warm")
    made = Bench(out, device="cpu", timeout_s=TIMEOUT_S)
    made.environment["KBV_EVALUATOR"] = "on"
    shared = Path(bench.options[bench.options.index("--build-root") + 1])
    (shared / "pch").mkdir(parents=True, exist_ok=True)
    (out / "build").mkdir()
    (out / "build" / "pch").symlink_to(shared / "pch")
    return made


@pytest.fixture(scope="session")
def records(bench: Bench):
    """Of bundled candidates. Two at a time: while one holds the device, the other imports torch or compiles."""
    gates = {item.name: ("compile", "hidden-gate") for item in DISHONEST}
    return bench.chains([*HONEST_BUNDLED, *DISHONEST], gates, at_once=AT_ONCE)


@pytest.fixture(scope="module")
def place(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """ReLU on a small input, audited once."""
    made = Place(bench, tmp_path_factory.mktemp("place"))
    made.make_audit()
    return made
