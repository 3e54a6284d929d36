"""docs/protocol.md gives every constant with its value and its stages, and every verdict."""

import re
from pathlib import Path
from typing import get_args

import pytest

from kbverified import keys, protocol
from kbverified.records.base import Verdict

PAGE = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")


def rows(heading: str) -> dict[str, list[str]]:
    """The table below a heading: its rows' other cells by the name in their first."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    found = re.findall(r"^\| `(\w+)` \|(.*)\|$", section, flags=re.MULTILINE)
    return {name: [cell.strip() for cell in rest.split("|")] for name, rest in found}


CONSTANTS = rows("Constants")
WORDS = {
    "timing": set(keys.TIME_STAGES),
    "all": set(protocol.STAGE_CONSTANTS) - {"audit-problem", "ceilings"},
    "aggregation": set(),
}


def as_text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {item}" for key, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def test_every_constant_is_there():
    of_stages = {name for names in protocol.STAGE_CONSTANTS.values() for name in names}
    assert of_stages <= set(CONSTANTS), sorted(of_stages - set(CONSTANTS))
    public = {name for name in vars(protocol) if name.isupper() and not name.startswith("_")}
    said_otherwise = {"SCHEMA_VERSION", "STAGE_CONSTANTS"}
    assert set(CONSTANTS) == public - said_otherwise


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_constant_has_the_value_and_the_stages_of_the_code(name):
    value, stages = CONSTANTS[name][:2]
    assert value == as_text(getattr(protocol, name))
    said = set().union(*(WORDS.get(word, {word}) for word in stages.split(", ")))
    assert said == {stage for stage, names in protocol.STAGE_CONSTANTS.items() if name in names}


def test_every_verdict_is_explained_and_no_other():
    assert set(rows("Verdicts")) == set(get_args(Verdict))
