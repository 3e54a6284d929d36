"""Candidates in languages whose packages are not among ours: through all stages where such a package is installed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from chain import ROOT, Bench, Item, verdict

from kbverified.lease import visible_gpus

pytestmark = pytest.mark.skipif(not visible_gpus(), reason="no GPU is visible")
LANGUAGES = {"cute_dsl": "cutlass.cute"}
"""File of the honest candidate, and the module that its language is imported as."""
DISHONEST = {"cute_dsl": ("cute.ceil_div(cute.size(x), THREADS)", "cute.size(x) // THREADS - 1")}
"""What is another in the dishonest one: nobody computes the last block of elements, what lay there is the answer."""


def installed(module: str) -> bool:
    """Its package first: another of the same name may be there, without the module."""
    package = module.partition(".")[0]
    return importlib.util.find_spec(package) is not None and importlib.util.find_spec(module) is not None


@pytest.fixture(scope="module", params=LANGUAGES)
def found(request, tmp_path_factory) -> dict[str, dict[str, Any]]:
    """Records by stage of an honest and of a dishonest candidate."""
    if not installed(LANGUAGES[request.param]):
        pytest.skip(f"module {LANGUAGES[request.param]} is not installed")
    folder = tmp_path_factory.mktemp(request.param)
    honest = (Path(__file__).parent / "languages" / f"{request.param}.py").read_text()
    right, wrong = DISHONEST[request.param]
    assert honest.count(right) == 1
    items = {}
    for sample, (kind, text) in enumerate({"honest": honest, "dishonest": honest.replace(right, wrong)}.items()):
        candidate = folder / "generations" / request.param / "bundled" / "level1_1" / f"{sample}.py"
        candidate.parent.mkdir(parents=True, exist_ok=True)
        candidate.write_text(text)
        items[kind] = Item(candidate, ROOT / "problems" / "bundled" / "level1_1.py")
    stages = {items["dishonest"].name: ("compile", "hidden-gate")}
    every = Bench(folder / "out", timeout_s=120.0).chains(list(items.values()), stages)
    records = {kind: every[item.name] for kind, item in items.items()}
    for told in records.values():
        assert isinstance(told, dict), told
    return records


def test_an_honest_candidate_passes_every_stage(found) -> None:
    records = found["honest"]
    assert verdict(records) == "pass", records["hidden-gate"]
    assert [records[stage]["verdict"] for stage in ("time-fp32", "time-tf32", "memory")] == ["pass"] * 3


def test_a_dishonest_one_is_caught(found) -> None:
    assert verdict(found["dishonest"]) in ("wrong_value", "nonfinite"), found["dishonest"]["hidden-gate"]
