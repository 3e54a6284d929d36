"""Trees to run Snakemake in: fresh ones, and copies of one finished run that all tests share."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from small_tree import Tree, make_tree


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """A tree after one whole run. Never change it: take ``finished``."""
    tree = make_tree(tmp_path_factory.mktemp("finished") / "project")
    tree.snakemake()
    return tree


@pytest.fixture
def finished(finished_run: Tree, tmp_path: Path) -> Tree:
    """A copy of the finished run, with Snakemake's metadata and all modification times."""
    copy = tmp_path / "project"
    shutil.copytree(finished_run.path, copy, symlinks=True)
    return Tree(copy)


@pytest.fixture
def fresh(tmp_path: Path) -> Tree:
    """A tree in which nothing has run."""
    return make_tree(tmp_path / "project")


@pytest.fixture(scope="module")
def fresh_of_module(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Tree]:
    return lambda: make_tree(tmp_path_factory.mktemp("fresh") / "project")
