"""An attack is one candidate file. Its docstring says, a line each, what it does and what has to become of it.

    Strategy: what it does, and why a harness might pay for it
    Layer:    the defence that must catch it
    Severity: what it gains where nothing does
    Verdict:  of the stage that must catch it; ``true_time``: it passes, and at its own speed
    Switch:   defences (names of ``without.SWITCHES``) without which it escapes
    Device:   cpu, cuda or any
    Problem:  a name of ``problem_texts.PROBLEMS``

and, where it is not as usual:

    Stage:    the stage that must catch it: time-fp32 for the family ``timing``, hidden-gate for all others
    Test:     the verdict that is meant: ``hidden``, or ``hardened``, or ``flags`` (what the record says of those)
    Escapes:  what its success is: the speedup where it is timed (2; none of them is faster than the reference),
              ``pass`` where it is judged by its values, ``no record`` where it ends its judge
    Needs:    ``ptrace``: without its defence it still needs that right (CAP_SYS_PTRACE)

Beside ``NAME.py`` lies ``NAME_twin.py``: as close to the attack as honest code can come. It has to pass.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
FIELDS = ("Strategy", "Layer", "Severity", "Verdict", "Switch", "Device", "Problem")
OPTIONAL = ("Stage", "Test", "Escapes", "Needs")
TESTS = ("hidden", "hardened", "flags")


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
    stage: str
    test: str
    escapes: str
    needs: str

    @property
    def name(self) -> str:
        return f"{self.path.parent.name}-{self.path.stem}"

    @property
    def timed(self) -> bool:
        return self.stage.startswith("time-")

    @property
    def twin(self) -> Path:
        return self.path.with_name(f"{self.path.stem}_twin.py")


def read(path: Path) -> Attack:
    """Read an attack's docstring. Raises ValueError where a field is missing, unknown or twice there."""
    found: dict[str, str] = {}
    last = ""
    for line in (ast.get_docstring(ast.parse(path.read_text())) or "").splitlines():
        field, colon, text = line.partition(":")
        if colon and field in (*FIELDS, *OPTIONAL) and field not in found:
            last = field
            found[field] = text.strip()
        elif last and line.startswith("  "):
            found[last] += " " + line.strip()
        else:
            raise ValueError(f"{path}: the docstring's line {line!r} is no new field of {', '.join(FIELDS)}")
    if missing := [field for field in FIELDS if not found.get(field)]:
        raise ValueError(f"{path}: the docstring says nothing of {', '.join(missing)}")
    stage = found.get("Stage", "time-fp32" if path.parent.name == "timing" else "hidden-gate")
    escapes = found.get("Escapes", "2" if stage.startswith("time-") else "pass")
    rest = (stage, found.get("Test", "hidden"), escapes, found.get("Needs", ""))
    return Attack(path, *(found[field] for field in FIELDS), *rest)


def families() -> list[str]:
    return sorted(p.name for p in HERE.iterdir() if p.is_dir() and not p.name.startswith("_"))


def attacks(family: str, device: str) -> list[Attack]:
    """Every attack of a family that runs on a device, twins left out."""
    paths = sorted(p for p in (HERE / family).glob("*.py") if not p.stem.endswith("_twin"))
    return [a for a in map(read, paths) if a.device in (device, "any")]
