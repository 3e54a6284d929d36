"""What takes an apparent win away, problem by problem: the TF32 baseline, hidden distributions, both, or neither.

The two criteria are the published ones (KernelBench-Verified, arXiv 2607.16241), in their own words:

* TF32: "some model's per-problem speedup drops by >=50% when the fp32 baseline is replaced by the tf32 baseline".
  From naive to published arm, which share the candidate's time: published <= 0.5 naive, of one and the same sample,
  the fastest in the matched arm among those that pass the standard test and have both numbers.
* hidden: "some model's kernel passes the standard distribution and fails a hidden one". Any sample, not only the
  fastest: its standard verdict is a pass, its hidden verdict is a failure.

Both are asked of every fp32 generator (precision modes have no effect on bf16) and of all of them together, "some
model's". Shares are of the active problems. The published counts are out of all 250 problems, the three degenerate
ones included, and count as *neither* what is told apart here: no kernel passes the standard test, or none has both
speedups.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

from matplotlib.figure import Figure

from kbverified import metrics
from kbverified.leaderboard.estimates import share_estimate
from kbverified.leaderboard.model import Estimate
from kbverified.leaderboard.scopes import Scope
from kbverified.metrics import Arm
from kbverified.paper.contrasts import share_difference
from kbverified.paper.finding import Finding, claim, conditions, report
from kbverified.paper.inputs import PaperInputs, Row
from kbverified.paper.scopes import by_dtype, generators_in, level_word, note_for, place
from kbverified.paper.table import Cell, Column, Table

TOPIC = "decomposition"
LEFT_AT_MOST = 0.5
"""A drop by at least 50 % leaves at most this share of the speedup."""

Category = Literal["tf32_only", "hidden_only", "both", "neither", "not_timed", "no_pass"]
CATEGORIES: tuple[Category, ...] = get_args(Category)
HEADERS: dict[Category, str] = {
    "tf32_only": "TF32 only",
    "hidden_only": "hidden only",
    "both": "both",
    "neither": "neither",
    "not_timed": "TF32 unknown",
    "no_pass": "no standard pass",
}
TAKEN: tuple[Category, ...] = ("tf32_only", "hidden_only", "both")
ANY = "any generator"

NO_FP32 = "no generator of dtype fp32 has a candidate, and precision modes have no effect on others"
UNTIMED = "no kernel that passes the standard test has both a naive and a published speedup"


@dataclass(frozen=True)
class Fate:
    """What became of one problem's kernels, of one generator or of several."""

    passes: bool
    """A kernel passes the standard test: there is an apparent win to take away."""
    tf32: bool | None
    """The TF32 criterion; None where no kernel has both speedups."""
    hidden: bool
    """The hidden criterion."""
    left: float | None = None
    """published / naive: what the TF32 baseline leaves of the speedup, the least over generators."""

    @property
    def category(self) -> Category:
        if not self.passes:
            return "no_pass"
        if self.tf32 is None:
            return "not_timed"
        if self.tf32:
            return "both" if self.hidden else "tf32_only"
        return "hidden_only" if self.hidden else "neither"


@dataclass(frozen=True)
class Decomposed:
    """The fates of a scope's problems, in its order: of several generators together, then of each."""

    scope: Scope
    fates: dict[str, tuple[Fate, ...]]

    @property
    def first(self) -> str:
        """The name under which all generators stand together, or that of the only one."""
        return next(iter(self.fates))

    def category(self, name: str, *wanted: Category) -> list[bool]:
        """Per problem whether it is in one of these categories."""
        return [fate.category in wanted for fate in self.fates[name]]

    def tf32(self, name: str) -> list[bool]:
        """Per problem the TF32 criterion; unknown counts as not met."""
        return [fate.tf32 is True for fate in self.fates[name]]

    def hidden(self, name: str) -> list[bool]:
        return [fate.hidden for fate in self.fates[name]]


def fate_of(rows: Sequence[Row]) -> Fate:
    """One generator's fate on one problem, from all its samples there."""
    passing = [row for row in rows if row["verdict_standard"] == "pass"]
    hidden = any(row["verdict_hidden"] not in (None, "pass") for row in passing)
    timed = [row for row in passing if row["speedup_naive"] is not None and row["speedup_published"] is not None]
    # Without a matched speedup: by what the claim itself is made of.
    winner = _fastest(timed, "matched") or _fastest(timed, "naive")
    if winner is None:
        return Fate(bool(passing), None, hidden)
    left = winner["speedup_published"] / winner["speedup_naive"]
    return Fate(True, left <= LEFT_AT_MOST, hidden, left)


def _fastest(rows: Sequence[Row], arm: Arm) -> Row | None:
    return metrics.best_of(rows, speedup_of=lambda row: row[f"speedup_{arm}"], order=lambda row: row["sample"])


def together(fates: Iterable[Fate]) -> Fate:
    """Several generators' fate on one problem: "some model's"."""
    fates = list(fates)
    known = [fate.tf32 for fate in fates if fate.tf32 is not None]
    return Fate(
        passes=any(fate.passes for fate in fates),
        tf32=any(known) if known else None,
        hidden=any(fate.hidden for fate in fates),
        left=min((fate.left for fate in fates if fate.left is not None), default=None),
    )


@lru_cache(maxsize=1)
def decompose(inputs: PaperInputs) -> list[Decomposed]:
    """Every suite's levels, then the suite, for the fp32 generators that have candidates in it; none without such."""
    found = []
    for per_test in inputs.scopes:
        scope = per_test["standard"]
        here = [name for name in by_dtype(inputs).get("fp32", ()) if name in generators_in(inputs, scope.suite)]
        if not here:
            continue
        fates: dict[str, tuple[Fate, ...]] = {}
        for name in here:
            samples: dict[str, list[Row]] = {problem: [] for problem in scope.problems}
            for row in inputs.rows[name]:
                if row["suite"] == scope.suite and row["problem"] in samples:
                    samples[row["problem"]].append(row)
            fates[name] = tuple(fate_of(rows) for rows in samples.values())
        if len(fates) > 1:
            fates = {ANY: tuple(together(column) for column in zip(*fates.values(), strict=True)), **fates}
        found.append(Decomposed(scope, fates))
    return found


# --- tables -------------------------------------------------------------------------------------------------

_KEY = (Column("suite", "suite"), Column("level", "level"), Column("generator", "generator"))
_MEANING = (
    "TF32: replacing the default baseline by the TF32 one takes at least half of the speedup (published <= 0.5 naive, "
    "of the fastest sample that passes the standard test). Hidden: a sample passes the standard distribution and fails "
    "a hidden one. TF32 unknown: " + UNTIMED + ". Any generator: met by at least one of the fp32 generators below it."
)


def tables(inputs: PaperInputs) -> list[Table]:
    """Shares with intervals, counts, and the problems one by one."""
    found = decompose(inputs)
    note = f"{_MEANING} {note_for(inputs)}"
    if not found:
        note = f"Nothing to show: {NO_FP32}. {note}"
    return [_shares(found, note, inputs), _counts(found, note), _problems(found, note)]


def _shares(found: Sequence[Decomposed], note: str, inputs: PaperInputs) -> Table:
    columns = (
        *_KEY,
        Column("problems", "active problems", kind="count"),
        *(Column(name, header, kind="percent", digits=0, interval=True) for name, header in HEADERS.items()),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            *_key(part, name),
            len(part.scope.problems),
            *(share_estimate(part.category(name, c), part.scope, None, inputs.settings) for c in CATEGORIES),
        )
        for part in found
        for name in part.fates
    ]
    return Table("decomposition", "What takes the apparent win away: share of problems", note, columns, tuple(rows))


def _counts(found: Sequence[Decomposed], note: str) -> Table:
    columns = (
        *_KEY,
        Column("problems", "active problems", kind="count"),
        *(Column(name, header, kind="count") for name, header in HEADERS.items()),
        Column("tf32", "TF32 in all", kind="count"),
        Column("hidden", "hidden in all", kind="count"),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            *_key(part, name),
            len(part.scope.problems),
            *(sum(part.category(name, c)) for c in CATEGORIES),
            sum(part.tf32(name)),
            sum(part.hidden(name)),
        )
        for part in found
        for name in part.fates
    ]
    title = "What takes the apparent win away: number of problems"
    return Table("decomposition_counts", title, note, columns, tuple(rows))


def _problems(found: Sequence[Decomposed], note: str) -> Table:
    whole = [part for part in found if part.scope.level is None]
    names = list(dict.fromkeys(name for part in whole for name in part.fates))
    columns = (
        Column("suite", "suite"),
        Column("problem", "problem"),
        Column("left", "least published / naive", kind="factor"),
        *(Column(f"fate_{name}".replace(" ", "_"), name) for name in names),
    )
    rows: list[tuple[Cell, ...]] = []
    for part in whole:
        for i, problem in enumerate(part.scope.problems):
            fates = [HEADERS[part.fates[name][i].category] if name in part.fates else None for name in names]
            rows.append((part.scope.suite, problem, part.fates[part.first][i].left, *fates))
    dash = "A dash: no kernel with both speedups, or a generator without candidates in the suite."
    title = "What takes the apparent win away: problem by problem"
    return Table("decomposition_problems", title, f"{dash} {note}", columns, tuple(rows))


def _key(part: Decomposed, name: str) -> tuple[str, str, str]:
    return part.scope.suite, level_word(part.scope.level), name


# --- figures and findings -----------------------------------------------------------------------------------


def figures(inputs: PaperInputs) -> dict[str, Figure]:
    """One stacked bar per generator, a panel per level."""
    from kbverified.paper.topics import decomposition_figures

    return {"decomposition": decomposition_figures.stacked(decompose(inputs), inputs)}


def findings(inputs: PaperInputs) -> list[Finding]:
    """Per level: how many problems lose an apparent win, and which of the two takes more."""
    parts = decompose(inputs)
    if not parts:
        nothing = Estimate(value=None, n=0, why_null=NO_FP32)
        return [report(TOPIC, "what takes apparent wins away", nothing, conditions(inputs), form="percent")]
    found = []
    for part in parts:
        name = part.first
        who = "some generator" if name == ANY else name
        where = place(inputs, part.scope.suite, part.scope.level)
        n = len(part.scope.problems)
        under = conditions(inputs, dtype="fp32", problems=f"{n} active problems of {part.scope.suite}")
        subject = f"the share of problems on which the TF32 baseline halves {who}'s speedup or a hidden distribution "
        subject += f"fails its kernel ({where})"
        found.append(report(TOPIC, subject, taken_share(part, name, inputs), under, form="percent"))
        # The larger less the smaller, whichever it is: the interval has two sides.
        shares = {"the TF32 baseline takes": part.tf32(name), "hidden distributions take": part.hidden(name)}
        (more, a), (less, b) = sorted(shares.items(), key=lambda item: -sum(item[1]))
        subject = f"the share of problems whose win {more} from {who}, less the share that {less} ({where})"
        found.append(claim(TOPIC, subject, _difference(part, name, a, b, inputs), 0.0, under, form="percent"))
    return found


def taken_share(part: Decomposed, name: str, inputs: PaperInputs) -> Estimate:
    """Share of active problems in any of the three categories that take a win away."""
    return share_estimate(part.category(name, *TAKEN), part.scope, _why_unknown(part, name), inputs.settings)


def _difference(part: Decomposed, name: str, a: list[bool], b: list[bool], inputs: PaperInputs) -> Estimate:
    """Share of the active problems with ``a`` less the share with ``b``, one of which is the TF32 criterion."""
    if why := _why_unknown(part, name):
        return Estimate(value=None, n=len(part.scope.problems), why_null=why)
    return share_difference(a, b, part.scope, inputs.settings)


def _why_unknown(part: Decomposed, name: str) -> str | None:
    """Why nothing is known of the TF32 criterion although there are kernels that it could be asked of."""
    fates = part.fates[name]
    asked = any(fate.passes for fate in fates)
    return UNTIMED if asked and all(fate.tf32 is None for fate in fates) else None
