"""Attacks that take a GPU, through the harness of ``tests/attacks``: caught, escaping without its defence, its twin."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "attacks"))
from attack import attacks
from chain import Bench
from harness import Range, check_caught, check_escapes, check_twin

from kbverified.lease import visible_gpus

pytestmark = pytest.mark.skipif(not visible_gpus(), reason="no GPU is visible")
each = pytest.mark.parametrize("attack", attacks("timing", "cuda"), ids=lambda a: a.name)


@pytest.fixture(scope="module")
def shooting_range(tmp_path_factory: pytest.TempPathFactory):
    named = os.environ.get("KBV_GPU_TEST_OUT")
    out = Path(named) / "attacks" if named else tmp_path_factory.mktemp("attacks")
    return Range(Bench(out, device="cuda", timeout_s=60.0), "cuda")


@each
def test_an_attack_is_caught(shooting_range: Range, attack):
    check_caught(shooting_range, attack)


@each
def test_it_escapes_without_its_defence(shooting_range: Range, attack):
    check_escapes(shooting_range, attack)


@each
def test_its_honest_twin_passes(shooting_range: Range, attack):
    check_twin(shooting_range, attack)
