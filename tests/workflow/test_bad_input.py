"""Bad input ends in a clear message or in a verdict, and loses nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from shared_headers import share_headers
from small_problem import problem_text
from small_tree import Tree

from kbverified.device_choice import why_no_gpu


# --- the configuration --------------------------------------------------------------------------------------
@pytest.mark.skipif(why_no_gpu() is None, reason="there is a GPU")
def test_cuda_without_a_gpu_is_refused_before_anything_runs(fresh: Tree) -> None:
    done = fresh.snakemake("--config", "device=cuda", check=False)
    assert done.returncode != 0
    assert "device: cuda is asked for, but" in done.stdout
    assert not (fresh.path / "results").exists()
    # Planning needs no GPU: it may be done on another machine than the one that has it.
    assert fresh.planned("--config", "device=cuda")["hidden_gate"] == 3


def test_a_cluster_is_not_asked_which_device_the_planning_machine_has(fresh: Tree) -> None:
    pytest.importorskip("snakemake_executor_plugin_slurm")
    done = fresh.snakemake("--executor", "slurm", "--jobs", "1", "--config", "device=auto", check=False)
    assert done.returncode != 0
    assert "device: auto looks at the machine that plans the run" in done.stdout


def test_a_cluster_is_told_for_which_gpu_to_compile(fresh: Tree) -> None:
    """Its compile jobs run where no GPU is, and would build for none."""
    pytest.importorskip("snakemake_executor_plugin_slurm")
    done = fresh.snakemake("--executor", "slurm", "--jobs", "1", "--config", "device=cuda", check=False)
    assert done.returncode != 0
    assert "compile.arch is null" in done.stdout


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("devise: cpu\n", "config/config.yaml: devise: unknown key (value 'cpu'); did you mean device?"),
        ("gate_mode: fast\n", "config/config.yaml: gate_mode: Input should be 'ieee' or 'default' (value 'fast')"),
        ("tau: {fp32: -1}\n", "config/config.yaml: tau.fp32: Input should be greater than 0 (value -1)"),
        ("generators_tsv: nowhere.tsv\n", "nowhere.tsv"),
    ],
)
def test_a_bad_configuration_names_file_key_and_value(fresh: Tree, line: str, message: str) -> None:
    text = (fresh.path / "config/config.yaml").read_text().replace("generators_tsv: config/generators.tsv\n", "")
    fresh.write("config/config.yaml", text + line)
    done = fresh.snakemake("--dry-run", check=False)
    assert done.returncode != 0
    assert message in done.stdout
    assert "Traceback" not in done.stdout


def test_a_mistake_is_laid_at_the_right_files_door(fresh: Tree) -> None:
    fresh.write("config/mine.yaml", "device: gpu\n")
    done = fresh.snakemake("--dry-run", "--configfile", "config/mine.yaml", check=False)
    assert "config/mine.yaml: device: Input should be 'auto', 'cuda' or 'cpu' (value 'gpu')" in done.stdout
    done = fresh.snakemake("--dry-run", "--config", "device=gpu", check=False)
    assert "--config: device: Input" in done.stdout
    done = fresh.snakemake("--dry-run", "results/kernels/nobody.parquet", check=False)
    assert "generator 'nobody' is not selected" in done.stdout


def test_empty_generations_say_where_was_looked(fresh: Tree) -> None:
    shutil.rmtree(fresh.path / "generations")
    done = fresh.snakemake("--dry-run", check=False)
    assert done.returncode != 0
    assert "no candidate of good, bad is left" in done.stdout
    assert "generations/good, generations/bad" in done.stdout


def test_a_sample_that_is_there_twice_is_named(fresh: Tree) -> None:
    fresh.write("generations/good/tiny/level1_1/00.py", "")
    done = fresh.snakemake("--dry-run", check=False)
    assert done.returncode != 0
    assert "generations/good/tiny/level1_1/00.py" in done.stdout


# --- problems and candidates --------------------------------------------------------------------------------
def test_a_broken_problem_is_a_record_that_names_it_and_its_candidates_are_skipped(fresh: Tree) -> None:
    fresh.write("problems/tiny/level1_1.py", problem_text("tanh").replace("get_inputs", "get_nothing"))
    fresh.write("problems/tiny/level1_2.py", "def get_inputs(:\n")
    fresh.snakemake()
    details = {}
    for problem in ("level1_1", "level1_2"):
        audit = fresh.read(f"results/problems/tiny/{problem}.json")
        assert audit["usable"] is False
        details[problem] = str(audit["detail"])
    assert "get_inputs" in details["level1_1"]
    assert "problems/tiny/level1_2.py:1: syntax error" in details["level1_2"]
    record = fresh.read("results/hidden-gate/good/tiny/level1_1/0.json")
    assert record["status"] == "skipped" and "get_inputs" in str(record["reason"])


def test_odd_candidate_files_get_a_verdict(fresh: Tree) -> None:
    odd = {"0": b"", "1": b"#" + b"x" * (10 << 20), "2": "# caf\xe9\nclass ModelNew: pass\n".encode("latin-1")}
    for sample, content in odd.items():
        fresh.write(f"generations/bad/tiny/level1_1/{sample}.py", content)
    fresh.snakemake(*(f"results/memory/bad/tiny/level1_1/{sample}.json" for sample in odd))
    verdicts = {s: fresh.read(f"results/compile/bad/tiny/level1_1/{s}.json")["verdict"] for s in odd}
    assert verdicts == {"0": "no_code", "1": "unreadable_source", "2": "unreadable_source"}
    for sample in odd:
        assert fresh.read(f"results/memory/bad/tiny/level1_1/{sample}.json")["status"] == "skipped"


EXTENSION = """
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = "torch::Tensor answer(torch::Tensor x) {{ return torch::tanh(x) + {offset}; }}"
extension = load_inline(name="same_name", cpp_sources=source, functions=["answer"])


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.answer(x)
"""


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
def test_two_extensions_of_one_name_at_once_do_not_meet(fresh: Tree, shared_build: Path) -> None:
    share_headers(shared_build, fresh.path / ".build")
    fresh.write("generations/good/tiny/level1_1/0.py", EXTENSION.format(offset="0"))
    fresh.write("generations/good/tiny/level1_1/1.py", EXTENSION.format(offset="1"))
    fresh.snakemake(*(f"results/hidden-gate/good/tiny/level1_1/{sample}.json" for sample in (0, 1)))
    gates = [fresh.read(f"results/hidden-gate/good/tiny/level1_1/{sample}.json") for sample in (0, 1)]
    assert [gate["verdict"] for gate in gates] == ["pass", "pass"]
    worst = [max(trial["critical_tolerance"] for trial in gate["trials"]) for gate in gates]  # type: ignore[attr-defined]
    assert worst[0] < 1e-6 and worst[1] > 0.1
    builds = [fresh.read(f"results/compile/good/tiny/level1_1/{s}.json")["build_directory"] for s in (0, 1)]
    assert builds[0] != builds[1]


@pytest.mark.skipif(os.environ.get("CXX") is not None, reason="CXX names a compiler")
def test_a_missing_compiler_is_a_fault_of_the_machine(fresh: Tree) -> None:
    fresh.write("generations/good/tiny/level1_1/0.py", EXTENSION.format(offset="0"))
    record = "results/compile/good/tiny/level1_1/0.json"
    done = fresh.snakemake(record, check=False, CXX="/no/such/compiler")
    assert done.returncode != 0
    assert "/no/such/compiler" in done.stdout or "compiler" in done.stdout
    assert not (fresh.path / record).exists()


# --- the disk -----------------------------------------------------------------------------------------------
def _mount(*arguments: str) -> bool:
    return os.getuid() == 0 and subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode == 0


@pytest.fixture
def small_results(finished: Tree) -> Iterator[Tree]:
    """A finished run whose results lie on a file system of their own, almost full."""
    results = finished.path / "results"
    kept = finished.path / "kept"
    results.rename(kept)
    results.mkdir()
    if not _mount("-t", "tmpfs", "-o", "size=4m", "tmpfs", str(results)):
        pytest.skip("a tmpfs cannot be mounted here")
    try:
        shutil.copytree(kept, results, dirs_exist_ok=True)
        yield finished
    finally:
        subprocess.run(["umount", "--lazy", str(results)], check=True)


def _lose_one(tree: Tree) -> tuple[str, dict[str, bytes]]:
    """Delete one record; returns its path and the contents of all others."""
    lost = "results/memory/bad/tiny/level1_1/0.json"
    (tree.path / lost).unlink()
    return lost, {path: (tree.path / path).read_bytes() for path in tree.written()}


def _fails_then_recovers(tree: Tree, lost: str, before: dict[str, bytes], message: str, mended: str) -> None:
    done = tree.snakemake("--until", "memory", check=False)
    assert done.returncode != 0
    assert message in done.stdout
    assert {path: (tree.path / path).read_bytes() for path in before} == before
    assert _mount("-o", f"remount,{mended}", str(tree.path / "results"))
    tree.snakemake("--until", "memory")
    assert tree.read(lost)["status"] == "skipped"


def test_a_full_disk_loses_nothing(small_results: Tree) -> None:
    lost, before = _lose_one(small_results)
    with (small_results.path / "results/filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(512))
        except OSError:
            pass
    _fails_then_recovers(small_results, lost, before, "No space left on device", "size=9m")


def test_read_only_results_lose_nothing(small_results: Tree) -> None:
    lost, before = _lose_one(small_results)
    assert _mount("-o", "remount,ro", str(small_results.path / "results"))
    _fails_then_recovers(small_results, lost, before, "Read-only file system", "rw")
