"""An attack is one candidate file. Its docstring says, a line each, what it does and what has to become of it.

    Strategy: what it does, and why a harness might pay for it
    Layer:    the defence that must catch it
    Severity: what it gains where nothing does
    Verdict:  the timing stage's verdict; ``true_time``: it passes, and at its own speed
    Switch:   defences (names of ``without.SWITCHES``) without which it escapes
    Device:   cpu, cuda or any
    Problem:  a name of ``harness.PROBLEMS``
    Escapes:  the speedup that would be its success, 2 where this is left out; none of them is faster than the reference

Beside ``NAME.py`` lies ``NAME_twin.py``: as close to the attack as honest code can come. It has to pass.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
FIELDS = ("Strategy", "Layer", "Severity", "Verdict", "Switch", "Device", "Problem")


@dataclass(frozen=True)
class Attack:
    """One attack as its file describes it."""

    path: Path
    strategy: str
    layer: str
    severity: str
    verdict: str
    switch: str
    device: str
    problem: str
    escapes: float = 2.0

    @property
    def name(self) -> str:
        return f"{self.path.parent.name}-{self.path.stem}"

    @property
    def twin(self) -> Path:
        return self.path.with_name(f"{self.path.stem}_twin.py")


def read(path: Path) -> Attack:
    """Read an attack's docstring. Raises ValueError where a field is missing, unknown or twice there."""
    found: dict[str, str] = {}
    last = ""
    for line in (ast.get_docstring(ast.parse(path.read_text())) or "").splitlines():
        field, colon, text = line.partition(":")
        if colon and field in (*FIELDS, "Escapes") and field not in found:
            last = field
            found[field] = text.strip()
        elif last and line.startswith("  "):
            found[last] += " " + line.strip()
        else:
            raise ValueError(f"{path}: the docstring's line {line!r} is no new field of {', '.join(FIELDS)}")
    if missing := [field for field in FIELDS if not found.get(field)]:
        raise ValueError(f"{path}: the docstring says nothing of {', '.join(missing)}")
    return Attack(path, *(found[field] for field in FIELDS), escapes=float(found.get("Escapes", 2.0)))


def attacks(family: str, device: str) -> list[Attack]:
    """Every attack of a family that runs on a device, twins left out."""
    paths = sorted(p for p in (HERE / family).glob("*.py") if not p.stem.endswith("_twin"))
    return [a for a in map(read, paths) if a.device in (device, "any")]
