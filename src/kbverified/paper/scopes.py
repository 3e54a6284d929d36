"""Problem sets, winners and the words for them, as the leaderboard has them: for what its entries do not hold.

Nothing is defined here. Active problems, resamples and best of N are those of leaderboard/scopes.py, so that a ratio of
two of the leaderboard's means is taken over the same draws as the means themselves.
"""

from __future__ import annotations

from collections.abc import Mapping

from kbverified.leaderboard.headline import ARM_MEANING
from kbverified.leaderboard.model import Entry
from kbverified.leaderboard.scopes import Best, Scope, best_samples
from kbverified.metrics import Arm
from kbverified.paper.finding import conditions
from kbverified.paper.inputs import PaperInputs
from kbverified.verdicts import Test


def suites_of(inputs: PaperInputs) -> list[dict[Test, Scope]]:
    """The suites as a whole, per test."""
    return [per_test for per_test in inputs.scopes if per_test["standard"].level is None]


def models(inputs: PaperInputs) -> list[str]:
    """The generators that the paper speaks of: renamed references are no model's, they are left to the A/A study."""
    return [name for name in inputs.generators if name not in inputs.references]


def by_dtype(inputs: PaperInputs) -> Mapping[str, list[str]]:
    """Models by dtype, in order; those without one dtype of their own are left out."""
    found: dict[str, list[str]] = {}
    for name in models(inputs):
        dtype = inputs.dtypes[name]
        if dtype and "+" not in dtype:
            found.setdefault(dtype, []).append(name)
    return found


def generators_in(inputs: PaperInputs, suite: str) -> list[str]:
    """Models with a candidate in a suite: those that have an entry in the leaderboard."""
    return [name for name in models(inputs) if any(row["suite"] == suite for row in inputs.rows[name])]


def headline_entries(inputs: PaperInputs) -> list[Entry]:
    """Entries of the headline arm and test, in the leaderboard's order."""
    c = inputs.leaderboard.conditions
    return [e for e in entries_of(inputs) if (e.arm, e.test) == (c.headline_arm, c.headline_test)]


def entries_of(inputs: PaperInputs) -> list[Entry]:
    """The leaderboard's entries of models, in its order."""
    return [e for e in inputs.leaderboard.entries if e.generator not in inputs.references]


def best(inputs: PaperInputs, generator: str, scope: Scope, arm: Arm, test: Test) -> Best:
    """Best of N per problem of a scope, for one generator."""
    wanted = set(scope.problems)
    here = [row for row in inputs.rows[generator] if row["suite"] == scope.suite and row["problem"] in wanted]
    return best_samples(here, scope.problems, arm, test)


def speedups(inputs: PaperInputs, generator: str, scope: Scope, arm: Arm, test: Test) -> list[float | None]:
    """The winner's speedup per problem of a scope, None where nothing was verified and timed."""
    return best(inputs, generator, scope, arm, test).column(f"speedup_{arm}")


def why_arms_alike(inputs: PaperInputs, generator: str) -> str | None:
    """Why one arm says nothing beside another for a generator; None where it does."""
    if inputs.dtypes[generator] == "bf16":
        return "bf16: precision modes have no effect, the arms are one and the same"
    return None


# --- words --------------------------------------------------------------------------------------------------


def several_suites(inputs: PaperInputs) -> bool:
    return len(inputs.leaderboard.conditions.suites) > 1


def several_dtypes(inputs: PaperInputs) -> bool:
    return len({dtype for dtype in inputs.dtypes.values() if dtype}) > 1


def level_word(level: int | None) -> str:
    """A level as a table's cell."""
    return "all" if level is None else str(level)


def level_title(level: int | None) -> str:
    """A level on its own, as a figure's title: ``level 1``, ``all levels``."""
    return "all levels" if level is None else f"level {level}"


def place(inputs: PaperInputs, suite: str, level: int | None) -> str:
    """A scope as part of a sentence: ``level_title``, with the suite where there are several."""
    return f"{level_title(level)} of {suite}" if several_suites(inputs) else level_title(level)


def conditions_for(
    inputs: PaperInputs, scope: Scope | Entry, *, arm: Arm | None = None, test: Test | None = None, generator: str
) -> str:
    """A finding's conditions: arm, test, tau and dtype of a generator, the problems of a scope, the environment."""
    n = scope.n_problems if isinstance(scope, Entry) else len(scope.problems)
    level = "" if scope.level is None else f", level {scope.level}"
    problems = f"{n} active problems of {scope.suite}{level}"
    return conditions(inputs, arm=arm, test=test, dtype=inputs.dtypes[generator], problems=problems)


def note_for(inputs: PaperInputs, *, arm: Arm | None = None, test: Test | None = None) -> str:
    """The conditions of a table in one paragraph: arm, test, tau, problems, intervals, environment."""
    c = inputs.leaderboard.conditions
    what = [f"{arm} arm, {ARM_MEANING[arm]}"] if arm else []
    what += [f"{test} test"] if test else []
    what.append("tau " + ", ".join(f"{tau:g} ({dtype})" for dtype, tau in sorted(c.tau.items())))
    what.append(f"{c.n_problems_active} active of {c.n_problems_selected} selected problems ({', '.join(c.suites)})")
    what.append("; ".join(c.environments) or "no device")
    text = f"Conditions: {'; '.join(what)}. Intervals: {100 * c.confidence:g} %, bootstrap over problems."
    if apart := [name for name in inputs.generators if name in inputs.references]:
        text += f" Left to the A/A study: {', '.join(apart)} (renamed references)."
    return text if c.findings else f"{text} Not for findings: no GPU, or mixed environments."
