"""Attacks that a CPU can show, each through the real command: caught, escaping without its defence, and its twin."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from attack import FIELDS, HERE, TESTS, attacks, families, read
from harness import KINDS, ROOT, Range, check, run, skip_what_no_process_may
from problem_texts import PROBLEMS
from switches import SWITCHES

EVERY = sorted({a for family in families() for device in ("cpu", "cuda") for a in attacks(family, device)}, key=str)
ATTACKS = [a for family in families() for a in attacks(family, "cpu")]


def test_the_threat_model_names_every_family_and_every_attack():
    text = (ROOT / "docs" / "threat-model.md").read_text()
    _, table = text.split("## Families of attacks")
    table = table.split("\n## ")[0]
    assert len(EVERY) >= 45 and f"holds {len(EVERY)} attacks" in table
    assert [name for name in families() if f"\n| {name} |" not in table] == []
    assert [a.name for a in EVERY if not re.search(rf"\b{a.path.stem}\b", table)] == []


@pytest.mark.parametrize("attack", EVERY, ids=lambda a: a.name)
def test_every_attack_names_what_there_is_and_has_a_twin(attack):
    assert attack.twin.exists()
    assert attack.problem in PROBLEMS and attack.device in ("cpu", "cuda", "any")
    assert set(attack.switch.split(",")) <= SWITCHES and attack.needs in ("", "ptrace")
    assert attack.test in TESTS and (attack.test == "hardened" or attack.switch != "hardened")


def test_a_docstring_that_leaves_something_out_is_refused(tmp_path):
    path = tmp_path / "some.py"
    path.write_text('"""' + "\n".join(f"{field}: something" for field in FIELDS[:-1]) + '"""')
    with pytest.raises(ValueError, match="Problem"):
        read(path)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda a: a.name)
def test_an_attack_is_caught_escapes_without_its_defence_and_has_an_honest_twin(shooting_range, attack, kind):
    skip_what_no_process_may(attack, kind)
    record = run(shooting_range, attack, kind)
    assert kind == "without its defence" or not shooting_range.touched_targets()
    check(attack, kind, record)


def test_a_switch_reaches_the_worker(shooting_range: Range):
    """Those of the GPU's clock are used where there is a GPU alone: here, that a worker is started with one."""
    record = shooting_range.timed(HERE / "timing" / "content_cache_twin.py", "matmul", without="join")
    assert record["verdict"] == "pass" and "a worker without join" in record["output_tail"]


def test_a_switch_reaches_a_process_of_its_own(shooting_range: Range, monkeypatch: pytest.MonkeyPatch):
    """As they are used where a GPU is: no warm process there."""
    monkeypatch.setattr(shooting_range, "warm", None)
    record = shooting_range.gated(HERE / "tensor_tricks" / "half_twin.py", "relu", without="kind")
    assert record["verdict"] == "pass" and "a worker without kind" in record["output_tail"]
