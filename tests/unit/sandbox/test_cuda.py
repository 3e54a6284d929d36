"""CUDA inside the sandbox: on machines with an NVIDIA GPU, each mechanism, with and without a PID namespace."""

from __future__ import annotations

import json
import os
import shutil

import pytest
from sandbox_ways import Judge, Way, python_for

from kbverified.sandbox import nvidia_nodes

WAYS = (
    Way("full", "root-namespaces", True),
    Way("full", "root-namespaces", True, pid_namespace=False),
    Way("full", "root-namespaces", True, pid_namespace=True),
    Way("user", "user-namespaces", False),
    Way("user", "landlock", False),
    Way("user", "landlock", True),
    Way("none", "bare", False),
)


@pytest.mark.skipif(not nvidia_nodes(), reason="no NVIDIA device nodes on this machine")
@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way}-pid-namespace-{way.pid_namespace}")
def test_a_kernel_runs(way: Way, stage, capsys) -> None:
    if way.as_root and os.geteuid() != 0:
        pytest.skip(f"{way} needs root")
    python = python_for(way.as_root, own_uid_workers=way.mechanism == "landlock")
    if python is None:
        pytest.skip(f"{way}: no Python >= 3.11 on this machine that every user may execute")
    answer = Judge(way, stage, python).run("cuda")
    if "unavailable" in answer:
        pytest.skip(answer["unavailable"])
    assert answer["ok"], answer
    result = json.loads(answer["output"].splitlines()[-1])
    with capsys.disabled():
        print(f"\n{way} pid_namespace={way.pid_namespace}: {result} {answer['status']}")
    assert result["sum"] == 4096.0
    if shutil.which("nvcc"):
        assert result["nvcc"] == "8"
