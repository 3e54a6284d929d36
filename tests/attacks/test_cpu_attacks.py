"""Attacks that a CPU can show, each through the real command: caught, escaping without its defence, and its twin."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from attack import FIELDS, HERE, attacks, read
from harness import KINDS, PROBLEMS, Range, check, run
from without import SWITCHES

FAMILIES = sorted(p.name for p in HERE.iterdir() if p.is_dir() and not p.name.startswith("_"))
EVERY = sorted({a for family in FAMILIES for device in ("cpu", "cuda") for a in attacks(family, device)}, key=str)
ATTACKS = [a for family in FAMILIES for a in attacks(family, "cpu")]


@pytest.mark.parametrize("attack", EVERY, ids=lambda a: a.name)
def test_every_attack_names_what_there_is_and_has_a_twin(attack):
    assert attack.twin.exists()
    assert attack.problem in PROBLEMS and attack.device in ("cpu", "cuda", "any")
    assert set(attack.switch.split(",")) <= set(SWITCHES)


def test_a_docstring_that_leaves_something_out_is_refused(tmp_path):
    path = tmp_path / "some.py"
    path.write_text('"""' + "\n".join(f"{field}: something" for field in FIELDS[:-1]) + '"""')
    with pytest.raises(ValueError, match="Problem"):
        read(path)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda a: a.name)
@pytest.mark.parametrize("kind", KINDS)
def test_an_attack_is_caught_escapes_without_its_defence_and_has_an_honest_twin(shooting_range, attack, kind):
    check(attack, kind, run(shooting_range, attack, kind))


def test_a_switch_reaches_the_worker(shooting_range: Range):
    """Those of the GPU's clock are used where there is a GPU alone: here, that a worker is started with one."""
    record = shooting_range.timed(HERE / "timing" / "content_cache_twin.py", "matmul", without="join")
    assert record["verdict"] == "pass" and "a worker without join" in record["output_tail"]
