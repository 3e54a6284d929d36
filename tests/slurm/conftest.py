"""One SLURM for all of these tests, and one tree that has run on it. ``make test-slurm`` asks for them."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "workflow")]

from cluster import Cluster, Unavailable, install  # noqa: E402
from slurm_tree import SlurmTree, WholeRun, bundled_tree  # noqa: E402
from small_tree import Tree  # noqa: E402

ASKED = "KBV_TEST_SLURM"


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A SLURM that is up. Skips where none was asked for, or none can be had."""
    if os.environ.get(ASKED) != "1":
        pytest.skip("needs a SLURM of its own: make test-slurm")
    try:
        install()
    except Unavailable as reason:
        pytest.skip(str(reason))
    folder = Path(tempfile.mkdtemp(prefix="kbverified-slurm-"))
    cluster = Cluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def local_run(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """The same candidates on this machine without SLURM, to compare with."""
    tree = bundled_tree(tmp_path_factory.mktemp("local") / "project")
    tree.snakemake()
    return tree


@pytest.fixture(scope="session")
def whole_run(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> WholeRun:
    made = bundled_tree(tmp_path_factory.mktemp("slurm") / "project")
    tree = SlurmTree(made.path, cluster)
    tree.write_profile()
    tree.whole_run()
    return WholeRun(tree, tree.jobs(), tree.records_by_job())


@pytest.fixture
def slurm_run(whole_run: WholeRun) -> SlurmTree:
    return whole_run.tree
