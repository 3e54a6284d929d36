"""The real command on the CPU device. One folder of results, builds and precompiled headers for the whole session.

``bench`` runs with the evaluator where KBV_EVALUATOR=on says so, and without otherwise; ``warm_bench`` always with,
``cold_bench`` never.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from evaluators import evaluators
from shared_headers import share_headers
from stage_places import DISHONEST, TIMEOUT_S, Bench, Place, bundled_records, within


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
def bench(
    tmp_path_factory: pytest.TempPathFactory, own_lease: None, evaluator_folder: Path, shared_build: Path
) -> Bench:
    made = Bench(tmp_path_factory.mktemp("stages"), device="cpu", timeout_s=TIMEOUT_S)
    made.options[made.options.index("--build-root") + 1] = str(shared_build)
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
def warm_bench(
    tmp_path_factory: pytest.TempPathFactory, own_lease: None, evaluator_folder: Path, shared_build: Path
) -> Bench:
    """The same with the evaluator; builds of its own, but not another precompiled header."""
    return _with_evaluator("on", tmp_path_factory.mktemp("warm"), shared_build)


@pytest.fixture(scope="session")
def cold_bench(
    tmp_path_factory: pytest.TempPathFactory, own_lease: None, evaluator_folder: Path, shared_build: Path
) -> Bench:
    return _with_evaluator("off", tmp_path_factory.mktemp("cold"), shared_build)


def _with_evaluator(switch: str, out: Path, shared_build: Path) -> Bench:
    made = Bench(out, device="cpu", timeout_s=TIMEOUT_S)
    made.environment["KBV_EVALUATOR"] = switch
    share_headers(shared_build, out / "build")
    return made


@pytest.fixture(scope="session")
def records(warm_bench: Bench):
    """Of bundled candidates, as config.yaml has them run: with the evaluator."""
    return bundled_records(warm_bench, DISHONEST)


@pytest.fixture(scope="module")
def place(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """ReLU on a small input, audited once."""
    made = Place(bench, tmp_path_factory.mktemp("place"))
    made.make_audit()
    return made
