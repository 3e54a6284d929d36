"""What the gate says of each mutant, and the shares of it: pure numbers and text, torch-free.

A mutant is *killed* by a test that gives it any verdict but pass. One without a verdict (``hardened`` where a problem
is undecidable or the record has none yet) counts in neither share.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.summaries import table

TESTS = ("standard", "hidden", "hardened")
NO_VERDICT = ("undecidable", "not_applicable", "not applicable")
OFFICIAL_CHECK_MISSES_PERCENT = 16.9
BEST_KNOWN_SUITE_KILLS_PERCENT = 98.0
ANCHORS = (
    f"Anchors, as quoted in this project's issue 5 and measured on other mutants: the official check misses "
    f"{OFFICIAL_CHECK_MISSES_PERCENT} %, the best known input suite kills {BEST_KNOWN_SUITE_KILLS_PERCENT} %."
)


@dataclass(frozen=True)
class Line:
    """One kernel and its verdicts: a mutant, or with ``fault`` None an honest parent."""

    id: str
    parent: str
    language: str
    fault: str | None
    operator: str | None
    held_out: bool
    change: str
    screened: str
    """kept, equivalent, does not build; for a parent: honest."""
    why: str
    standard: str | None = None
    hidden: str | None = None
    hardened: str | None = None
    failed: tuple[str, ...] = ()
    """Distributions of the hidden test that it fails."""
    tolerances: dict[str, float | None] | None = None
    """Critical tolerance by distribution, where it has one."""
    gate: str | None = None
    """Digest of the gate that said so."""

    def verdict(self, test: str) -> str | None:
        verdict: str | None = getattr(self, test)
        return None if verdict in NO_VERDICT else verdict


@dataclass(frozen=True)
class Share:
    """So many of n, with the 95 % interval of Wilson (1927), as fractions."""

    killed: int
    n: int

    @property
    def interval(self) -> tuple[float, float]:
        return wilson(self.killed, self.n)

    def text(self) -> str:
        if not self.n:
            return "–"
        low, high = self.interval
        return f"{self.killed}/{self.n} = {100 * self.killed / self.n:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"


def wilson(k: int, n: int, z: float = 1.959964) -> tuple[float, float]:
    """Interval of a share by Wilson's score (E. B. Wilson, J. Am. Stat. Assoc. 22, 1927); (0, 1) for n = 0.

    Raises ValueError unless 0 <= k <= n.
    """
    if not 0 <= k <= n:
        raise ValueError(f"{k} of {n} is no share")
    if n == 0:
        return 0.0, 1.0
    p, z2 = k / n, z * z
    middle = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = z / (1 + z2 / n) * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def share(lines: Iterable[Line], test: str) -> Share:
    """Of the kept mutants that have a verdict of this test: how many it killed."""
    verdicts = [line.verdict(test) for line in lines if line.fault is not None and line.screened == "kept"]
    known = [verdict for verdict in verdicts if verdict is not None]
    return Share(sum(verdict != "pass" for verdict in known), len(known))


def failed_parents(lines: Iterable[Line]) -> list[Line]:
    """Honest kernels that a test fails, or that have no hidden verdict: each is an error of the gate or of this."""
    honest = [line for line in lines if line.fault is None]
    return [x for x in honest if x.hidden != "pass" or any(x.verdict(t) not in (None, "pass") for t in TESTS)]


def survivors(lines: Iterable[Line], test: str) -> list[Line]:
    return [x for x in lines if x.fault is not None and x.screened == "kept" and x.verdict(test) == "pass"]


def text(lines: Sequence[Line], title: str) -> str:
    """The report, as Markdown."""
    mutants = [line for line in lines if line.fault is not None]
    kept = [line for line in mutants if line.screened == "kept"]
    equivalent = [line for line in mutants if line.screened == "equivalent"]
    unbuilt = [line for line in mutants if line.screened == "does not build"]
    honest = [line for line in lines if line.fault is None]
    wrong = failed_parents(lines)
    built = len(kept) + len(equivalent)
    judged = [line for line in kept if line.hidden is not None]
    unjudged = ": shares are of those, and say nothing of the rest" if len(judged) < len(kept) else ""
    excluded = f" ({100 * len(equivalent) / built:.1f} % of what builds)" if built else ""
    parts = [
        f"# {title}",
        f"{len(mutants)} mutants of {len(honest)} honest kernels: {len(unbuilt)} do not build, {len(equivalent)} are "
        f"left out as equivalent{excluded}, {len(judged)} of the {len(kept)} others were judged{unjudged}. Honest "
        f"kernels that fail: {len(wrong)}.",
        ANCHORS,
        "## Killed",
        table(["", *TESTS], [_row("all", kept)])
        + "\n"
        + "\n".join(
            _bare(_row(name, [x for x in kept if x.held_out is held]))
            for name, held in (("seen operators", False), ("held-out operators", True))
        ),
    ]
    for head, field in (("fault", "fault"), ("operator", "operator"), ("parent", "parent"), ("language", "language")):
        names = sorted({str(getattr(x, field)) for x in kept})
        rows = [_row(_marked(name, field, kept), [x for x in kept if str(getattr(x, field)) == name]) for name in names]
        parts += [f"## By {head}", table([head, *TESTS], rows)]
    for test in TESTS:
        left = survivors(lines, test)
        if share(lines, test).n:
            parts += [f"## Survivors of {test}: {len(left)}", _listed(left)]
    parts += [f"## Left out as equivalent: {len(equivalent)}", _listed(equivalent)]
    parts += [f"## Do not build: {len(unbuilt)}", _listed(unbuilt)]
    if wrong:
        parts += ["## HONEST KERNELS THAT FAIL", "\n".join(f"- {x.parent}: {x.hidden} {x.hardened}" for x in wrong)]
    return "\n\n".join(parts) + "\n"


def _row(name: str, lines: Sequence[Line]) -> list[str]:
    return [name, *(share(lines, test).text() for test in TESTS)]


def _bare(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _marked(name: str, field: str, lines: Iterable[Line]) -> str:
    return (
        f"{name} (held out)" if field == "operator" and any(x.held_out for x in lines if x.operator == name) else name
    )


def _listed(lines: Sequence[Line]) -> str:
    """With what the screening saw: for a survivor, on which of its inputs it first differs from its parent."""
    if not lines:
        return "None."
    order = sorted(lines, key=lambda x: (x.fault or "", x.operator or "", x.parent, x.id))
    return "\n".join(
        f"- `{x.id[:10]}` {x.fault}, {x.operator}{' (held out)' if x.held_out else ''}, {x.parent}: "
        f"`{x.change.replace('`', chr(39))}` ({' '.join(x.why.split())}{_largest(x)})"
        for x in order
    )


def _largest(line: Line) -> str:
    known = {name: value for name, value in (line.tolerances or {}).items() if value is not None}
    if not known:
        return ""
    name = max(known, key=lambda key: known[key])
    return f"; largest error in the gate {known[name]:.2g}, {name}"
