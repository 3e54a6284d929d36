"""CUDA inside the sandbox: on machines with an NVIDIA GPU, each mechanism, with and without a PID namespace."""

from __future__ import annotations

import json
import os
import shutil

import pytest
from sandbox_ways import WAYS, Judge, Way, python_for

from kbverified.sandbox import nvidia_nodes

pytestmark = [
    pytest.mark.skipif(not nvidia_nodes(), reason="no NVIDIA device nodes on this machine"),
    pytest.mark.parametrize("way", WAYS, ids=str),
]


def test_a_kernel_runs(way: Way, stage, capsys) -> None:
    answer = run(way, stage, "cuda")
    assert answer["ok"], answer["output"]
    result = json.loads(answer["output"].splitlines()[-1])
    with capsys.disabled():
        print(f"\n{way}: {result}")
    assert result["sum"] == 4096.0
    if shutil.which("nvcc"):
        assert result["nvcc"] == "8 no error"


def test_a_worker_writes_into_the_judges_memory(way: Way, stage) -> None:
    pytest.importorskip("cuda.bindings")
    answer = run(way, stage, "cuda_buffer")
    assert answer["ok"], answer


def run(way: Way, stage, command: str) -> dict:
    if way.as_root and os.geteuid() != 0:
        pytest.skip(f"{way} needs root")
    python = python_for(way.as_root, own_uid_workers=way.mechanism == "landlock")
    if python is None:
        pytest.skip(f"{way}: no Python >= 3.11 on this machine that every user may execute")
    answer = Judge(way, stage, python).run(command)
    if "unavailable" in answer:
        pytest.skip(answer["unavailable"])
    return answer
