"""The bundled suite and the bundled candidates are what their manifest, metadata and docstrings say.

Dishonest candidates are read as text here and never run: what becomes of them is for the attacks' tests.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import runpy
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest
import torch

from kbverified import protocol
from kbverified.keys import CandidateKey, ProblemKey
from kbverified.records.base import Verdict
from kbverified.records.files import read
from kbverified.records.generation import Generation

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "workflow" / "scripts" / "refresh_bundled.py"
AFTER_AN_EDIT = "run: python workflow/scripts/refresh_bundled.py"
DEGENERATE = ProblemKey("bundled", "level2_3")

REQUIRED_STRATEGIES = {
    "shape_conditional_identity": "wrong_value",
    "constant_output": "wrong_value",
    "cached_output": "wrong_value",
    "wrong_dtype_wide": "wrong_dtype",
    "nan_output": "nonfinite",
    "input_mutation": "mutates_input",
    "segmentation_fault": "crash",
    "infinite_loop": "timeout",
    "output_flood": "output_flood",
    "exit_zero": "crash",
}
"""Those that the project has promised to bundle. There are more."""


def _load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("refresh_bundled", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


script = _load_script()
PROBLEMS = script.problem_keys(ROOT)
CANDIDATES = script.candidate_keys(ROOT)
HONEST = [key for key in CANDIDATES if key.generator == "bundled-honest"]
DISHONEST = [key for key in CANDIDATES if key.generator == "bundled-dishonest"]
GPU = [key for key in CANDIDATES if key.generator == "bundled-gpu"]


def metadata(key: CandidateKey) -> Generation:
    return read(key.metadata_path(ROOT), Generation)


@cache
def namespace(key: ProblemKey) -> dict:
    return runpy.run_path(str(key.source_path(ROOT)))


def make_inputs(key: ProblemKey, distribution: str, seed: int) -> list:
    torch.manual_seed(seed)
    factor = protocol.DISTRIBUTIONS[distribution]
    return [
        value * factor if isinstance(value, torch.Tensor) and value.is_floating_point() else value
        for value in namespace(key)["get_inputs"]()
    ]


def make_model(constructor: type, key: ProblemKey, seed: int = protocol.WEIGHT_SEED) -> torch.nn.Module:
    torch.manual_seed(seed)
    return constructor(*namespace(key)["get_init_inputs"]())


def forward(model: torch.nn.Module, inputs: list) -> torch.Tensor:
    torch.manual_seed(protocol.FORWARD_SEED)
    with torch.no_grad():
        return model(*inputs)


def critical_tolerance(output: torch.Tensor, expected: torch.Tensor) -> float:
    output, expected = output.double(), expected.double()
    return ((output - expected).abs() / (1 + expected.abs())).max().item()


# --- problems ---------------------------------------------------------------------------------------------------


def test_manifest_matches_the_files():
    text = (ROOT / "problems" / "bundled" / "manifest.csv").read_text(encoding="utf-8")
    assert text == script.manifest_text(ROOT), AFTER_AN_EDIT


def test_suite_has_three_levels():
    assert len(PROBLEMS) >= 15
    assert {key.level for key in PROBLEMS} == {1, 2, 3}


@pytest.mark.parametrize("key", PROBLEMS, ids=str)
def test_problem_runs_on_every_distribution_and_tells_inputs_apart(key):
    model = make_model(namespace(key)["Model"], key)
    replayed = []
    for distribution in protocol.DISTRIBUTIONS:
        output = forward(model, make_inputs(key, distribution, seed=1))
        assert torch.isfinite(output).all(), f"{key} is not finite on {distribution}"
        replayed.append(critical_tolerance(output, forward(model, make_inputs(key, distribution, seed=2))))
    # An answer for other inputs must not pass everywhere, or the problem discriminates nothing.
    assert (max(replayed) > 2 * protocol.TAU["fp32"]) == (key != DEGENERATE), replayed


@pytest.mark.parametrize("key", PROBLEMS, ids=str)
def test_problem_names_no_device(key):
    assert not re.search(r"cuda|device|\.cpu", key.source_path(ROOT).read_text(encoding="utf-8"))


def test_exactly_one_problem_is_degenerate():
    degenerate = []
    for key in PROBLEMS:
        largest = max(
            forward(make_model(namespace(key)["Model"], key, weights), make_inputs(key, distribution, seed)).abs().max()
            for weights in protocol.AUDIT_WEIGHT_SEEDS
            for seed in (1, 2)
            for distribution in protocol.DISTRIBUTIONS
        )
        if largest <= protocol.DEGENERATE_MAX_ABS:
            degenerate.append(key)
    assert degenerate == [DEGENERATE]


def test_some_inputs_are_not_floating_point():
    dtypes = {value.dtype for key in PROBLEMS for value in make_inputs(key, "d1_original", seed=1)}
    assert {torch.float32, torch.bool, torch.int64} <= dtypes


# --- metadata ---------------------------------------------------------------------------------------------------


def test_metadata_matches_the_files():
    assert script.stale_metadata(ROOT) == [], AFTER_AN_EDIT


@pytest.mark.parametrize("key", CANDIDATES, ids=str)
def test_candidate_belongs_to_a_problem_and_names_its_verdict(key):
    generation = metadata(key)
    assert key.problem_key in PROBLEMS
    assert generation.origin == "bundled"
    assert generation.expected_verdict in get_args(Verdict)
    assert (generation.expected_verdict == "pass") == (key.generator != "bundled-dishonest")


# --- honest candidates ------------------------------------------------------------------------------------------


def needs_compiler(key: CandidateKey) -> bool:
    return "load_inline" in key.source_path(ROOT).read_text(encoding="utf-8")


def test_every_problem_but_the_degenerate_one_has_an_honest_candidate():
    assert {key.problem_key for key in HONEST} == set(PROBLEMS) - {DEGENERATE}
    assert sum(needs_compiler(key) for key in HONEST) >= 6
    assert any(key.sample == 1 for key in HONEST)


@pytest.mark.parametrize("key", HONEST, ids=str)
def test_honest_metadata_names_the_devices(key):
    assert metadata(key).settings["devices"] == ("cpu" if needs_compiler(key) else "any")


@pytest.mark.parametrize("key", HONEST, ids=str)
def test_honest_candidate_agrees_with_the_reference(key, tmp_path, monkeypatch):
    if needs_compiler(key):
        if os.environ.get("KBV_TEST_COMPILE") != "1":
            pytest.skip("builds a C++ extension; set KBV_TEST_COMPILE=1 to run it")
        monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
        monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)  # where pip put ninja
    constructor = runpy.run_path(str(key.source_path(ROOT)))["ModelNew"]
    problem = key.problem_key
    candidate, reference = make_model(constructor, problem), make_model(namespace(problem)["Model"], problem)
    ours, theirs = candidate.state_dict(), reference.state_dict()
    assert list(ours) == list(theirs) and all(torch.equal(ours[name], theirs[name]) for name in ours)
    for trial, distribution in enumerate(protocol.DISTRIBUTIONS):
        inputs = make_inputs(problem, distribution, seed=100 + trial)
        before = [value.clone() for value in inputs]
        output = forward(candidate, inputs)
        assert all(torch.equal(value, kept) for value, kept in zip(inputs, before)), f"mutated on {distribution}"
        owners = {value.untyped_storage().data_ptr() for value in inputs}
        assert type(output) is torch.Tensor and output.untyped_storage().data_ptr() not in owners
        expected = forward(reference, before)
        assert (output.shape, output.dtype) == (expected.shape, expected.dtype)
        # A tenth of the tolerance: an honest candidate must not depend on this machine's rounding.
        assert critical_tolerance(output, expected) < 0.1 * protocol.TAU["fp32"], distribution


# --- dishonest candidates, as text ------------------------------------------------------------------------------


def strategies() -> dict[str, str | None]:
    return {metadata(key).settings["strategy"]: metadata(key).expected_verdict for key in DISHONEST}


def test_required_strategies_are_there_once_each():
    assert len(strategies()) == len(DISHONEST)
    assert REQUIRED_STRATEGIES.items() <= strategies().items()


@pytest.mark.parametrize("key", DISHONEST, ids=str)
def test_dishonest_docstring_opens_with_strategy_verdict_and_layer(key):
    source, generation = key.source_path(ROOT).read_bytes(), metadata(key)
    if generation.expected_verdict == "no_code":
        assert source == b"" and generation.extraction == "none" and generation.detail
        return
    # Any bytes are Latin-1, and one of these files is nothing better.
    found = re.match(
        r'"""Strategy: (?P<strategy>\w+): .*?\nVerdict: (?P<verdict>\w+)\nCaught by: \S.*?"""',
        source.decode("latin-1"),
        re.DOTALL,
    )
    assert found, f"{key}: docstring must give Strategy, Verdict, Caught by"
    assert found["strategy"] == generation.settings["strategy"]
    assert found["verdict"] == generation.expected_verdict


@pytest.mark.parametrize("key", DISHONEST, ids=str)
def test_dishonest_source_is_as_broken_as_its_verdict_says(key):
    source, verdict = key.source_path(ROOT).read_bytes(), metadata(key).expected_verdict
    try:
        text = source.decode("utf-8")
    except UnicodeDecodeError:
        assert verdict == "unreadable_source"
        return
    try:
        tree = ast.parse(text)
    except SyntaxError:
        assert verdict == "syntax_error"
        return
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    assert ("ModelNew" in classes) == (verdict not in ("no_code", "no_model_new"))
    assert verdict not in ("unreadable_source", "syntax_error")


# --- GPU candidates, as text ------------------------------------------------------------------------------------


def test_gpu_candidates_cover_cuda_triton_and_the_library():
    texts = {key: key.source_path(ROOT).read_text(encoding="utf-8") for key in GPU}
    cuda = {key.problem for key, text in texts.items() if "cuda_sources=" in text}
    triton = {key.problem for key, text in texts.items() if "@triton.jit" in text}
    library = {key.problem for key, text in texts.items() if "torch.matmul" in text}
    assert len(cuda) >= 3 and len(triton) >= 3 and "level1_8" in library
    assert len({key.problem for key in GPU}) >= 6


@pytest.mark.parametrize("key", GPU, ids=str)
def test_gpu_candidate_parses_and_asks_for_a_gpu(key):
    tree = ast.parse(key.source_path(ROOT).read_text(encoding="utf-8"))
    assert "ModelNew" in {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    assert metadata(key).settings["devices"] == "cuda"


# --- the refresh script -----------------------------------------------------------------------------------------


@pytest.fixture
def copy(tmp_path):
    for folder in ("problems/bundled", "generations/bundled-honest"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    return tmp_path


def refresh(root: Path, *options: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, SCRIPT, "--root", root, *options], capture_output=True, text=True)


def test_refresh_rewrites_what_an_edit_made_stale_and_nothing_else(copy):
    problem, candidate = PROBLEMS[0].source_path(copy), HONEST[0].source_path(copy)
    before = {path: path.read_bytes() for path in copy.rglob("*.*") if path.is_file()}
    for path in (problem, candidate):
        path.write_text(path.read_text(encoding="utf-8") + "\n# edited\n", encoding="utf-8")
    assert refresh(copy, "--check").returncode == 1
    assert refresh(copy).returncode == 0
    changed = {path for path, content in before.items() if path.read_bytes() != content}
    assert changed == {problem, candidate, problem.with_name("manifest.csv"), candidate.with_suffix(".json")}
    assert refresh(copy, "--check").returncode == 0


def test_refresh_names_missing_metadata(copy):
    HONEST[0].metadata_path(copy).unlink()
    result = refresh(copy)
    assert result.returncode == 2
    assert str(HONEST[0].metadata_path(copy)) in result.stderr


def test_refresh_names_a_problem_without_a_name(copy):
    path = PROBLEMS[0].source_path(copy)
    path.write_text("import torch\n", encoding="utf-8")
    result = refresh(copy)
    assert result.returncode == 2
    assert str(path) in result.stderr
