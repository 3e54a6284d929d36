"""A judge with a careful umask: its workers have to start all the same."""

from __future__ import annotations

import os
import sys

import pytest

from kbverified.sandbox import SandboxUnavailable, SpawnRequest, spawn


@pytest.mark.parametrize("level", ["full", "user", "none"])
def test_a_worker_starts_under_umask_077(level, tmp_path):
    old = os.umask(0o077)
    try:
        request = SpawnRequest(argv=[sys.executable, "-c", "print(__import__('json').__name__)"], level=level)
        with spawn(request) as worker:
            status = worker.wait(20)
            assert status is not None and status.ok, worker.output_tail()
            assert worker.output_tail() == "json\n"
    except SandboxUnavailable as unavailable:
        if level == "full" and os.geteuid() == 0 and "cannot be read" in str(unavailable):
            raise
        pytest.skip(str(unavailable))
    finally:
        os.umask(old)
