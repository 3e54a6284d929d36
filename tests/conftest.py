"""Tests run in two workers (``make test``). A file's tests share what they make, so that a file stays in one worker,
and so do files that share something dearer still."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

# One set of bundled candidates through all stages serves both of the first, one run of the workflow both of the others.
TOGETHER = {
    "test_bundled_stages.py": "bundled",
    "test_evaluator.py": "bundled",
    "test_evaluator_switch.py": "finished",
    "test_report.py": "finished",
}


# Folders whose files take minutes: begun last, one of them would keep one worker busy after the other is done.
LONG = ("attacks", "workflow", "faults", "stages", "adversary")
# Files elsewhere whose few tests take as long as many.
LONG_FILES = ("test_slim_builds.py", "test_paper_example.py", "test_device_run.py", "test_compiled_baseline.py")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The long files first, the others in falling number of tests; a file's own tests keep their order."""
    tests = Counter(item.path for item in items)

    def place(item: pytest.Item) -> tuple[int, bool, int, str]:
        folder = item.path.parent.name
        long = LONG.index(folder) if folder in LONG else len(LONG)
        return long, item.path.name not in LONG_FILES, -tests[item.path], str(item.path)

    items.sort(key=place)


class ByWhatIsShared(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return TOGETHER.get(Path(file).name, file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling:
    config.option.loadscopereorder = False  # xdist's own order is by number of tests alone
    return ByWhatIsShared(config, log)


@pytest.fixture(scope="session")
def of_all_workers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the workers of one run share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def shared_build(of_all_workers: Path) -> Path:
    """A build root with one set of precompiled headers: they cost more than all that is built with them. Whoever comes
    first makes them."""
    folder = of_all_workers / "shared-build"
    folder.mkdir(exist_ok=True)
    return folder
