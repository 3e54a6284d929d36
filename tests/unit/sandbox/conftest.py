"""Fixtures: what a judge runs from, and one judge for each way to reach a level."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from sandbox_ways import WAYS, Judge, Way, reach

HERE = Path(__file__).parent
SOURCES = HERE.parents[2] / "src/kbverified"


@pytest.fixture(scope="session")
def stage():
    """A copy of the package's torch-free core and of these programs, where every user can read it."""
    folder = Path(tempfile.mkdtemp(prefix="kbverified-test-", dir="/var/tmp"))
    folder.chmod(0o755)
    package = folder / "src/kbverified"
    package.mkdir(parents=True)
    for name in ("__init__.py", "keys.py", "protocol.py"):
        shutil.copy(SOURCES / name, package)
    for name in ("sandbox", "evaluator"):
        shutil.copytree(SOURCES / name, package / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("judge.py", "probes.py", "warm.py"):
        shutil.copy(HERE / name, folder)
    # A set-user-ID copy of id, where the tests can make one.
    shutil.copy("/usr/bin/id", folder / "id")
    (folder / "id").chmod(0o4755)
    (folder / "work").mkdir()
    (folder / "work").chmod(0o777)
    yield folder
    shutil.rmtree(folder)


_judges: dict[Way, Judge | str] = {}


@pytest.fixture(params=WAYS, ids=str)
def judge(request, stage) -> Judge:
    """A judge for each way; skipped, with the launcher's own reason, where this machine does not offer it."""
    way = request.param
    if way not in _judges:
        _judges[way] = reach(way, stage)
    found = _judges[way]
    if isinstance(found, str):
        pytest.skip(found)
    return found
