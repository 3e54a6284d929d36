"""The mutation operators by name: what fault each makes, in which language, and whether it is held out.

An operator is a function from a source to its sites, in the order of the source; a site carries its own change. The
C++ and CUDA ones are in ``cpp_operators.py``, the ones for Triton kernels in ``triton_operators.py``. An operator that
both languages have goes by one name.

**Held out** are 30 % of the names: those with the smallest sha256 of their name (hex). The rule knows nothing of any
result. Who tunes the gate looks at the survivors of the others only.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

HELD_OUT_SHARE = 0.3
FAULTS = (
    "wrong index",
    "off by one",
    "dropped term",
    "swapped operands",
    "wrong epsilon",
    "missing bound check",
    "uninitialised accumulator",
    "wrong axis",
    "narrowed precision",
    "skipped tail",
    "lost sync",
)


@dataclass(frozen=True)
class Site:
    """One change: characters from start to end of the source become ``new``."""

    start: int
    end: int
    new: str

    def apply(self, source: str) -> str:
        return source[: self.start] + self.new + source[self.end :]


Finder = Callable[[str], Iterator[Site]]


@dataclass(frozen=True)
class Operator:
    """``finders``: by language (``c++`` for CUDA too, ``triton``), the function that finds the sites."""

    name: str
    fault: str
    finders: dict[str, Finder]

    def sites(self, language: str, source: str) -> list[Site]:
        """Its sites in the order of the source, each that changes something once; none in other languages."""
        if language not in self.finders:
            return []
        found = dict.fromkeys(self.finders[language](source))
        return sorted((s for s in found if s.apply(source) != source), key=lambda s: (s.start, s.end, s.new))


OPERATORS: dict[str, Operator] = {}


def operator(name: str, fault: str, language: str) -> Callable[[Finder], Finder]:
    """Enter a finder under a name. Raises ValueError for an unknown fault, or a name that has it already."""
    if fault not in FAULTS:
        raise ValueError(f"operator {name}: fault {fault!r} is none of {', '.join(FAULTS)}")

    def enter(finder: Finder) -> Finder:
        known = OPERATORS.setdefault(name, Operator(name, fault, {}))
        if known.fault != fault or language in known.finders:
            raise ValueError(f"operator {name} is there for {language}, or for another fault ({known.fault})")
        known.finders[language] = finder
        return finder

    return enter


def all_operators() -> dict[str, Operator]:
    """Every operator by name, in the order of the names."""
    from benchmarks.mutation import cpp_operators, triton_operators  # noqa: F401 (they enter theirs)

    return dict(sorted(OPERATORS.items()))


def held_out() -> frozenset[str]:
    """Names of the operators that stay unseen while the gate is tuned, by the rule above."""
    names = sorted(all_operators(), key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    return frozenset(names[: math.ceil(HELD_OUT_SHARE * len(names))])
